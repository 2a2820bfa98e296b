"""Small models of twelve families on paper and as measured, under the switches of trainers: the table of docs/fit.md.

    PYTHONPATH=. python tests_torch/fitted.py [NAME …]
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from dataclasses import replace
from typing import Any

import torch

import memopt
from memopt.torch.fit.fit import fit
from memopt.torch.fit.models import model_of
from memopt.torch.fit.request import Request

_TEXT = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 512, "max_position_embeddings": 256}
_DECODER = {**_TEXT, "num_key_value_heads": 2, "head_dim": 16}
_NONE = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **_DECODER},
    "qwen3": {"model_type": "qwen3", **_DECODER},
    "gemma2": {"model_type": "gemma2", **_DECODER, "sliding_window": 32},
    "mistral": {"model_type": "mistral", **_DECODER, "sliding_window": 32},
    "phi3": {"model_type": "phi3", **_DECODER, **_NONE},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 8, "n_head": 4, "n_positions": 256, "vocab_size": 512, **_NONE},
    "gpt-neox": {"model_type": "gpt_neox", **_TEXT},
    "opt": {"model_type": "opt", "hidden_size": 64, "ffn_dim": 160, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 512, "max_position_embeddings": 256, "word_embed_proj_dim": 64, **_NONE},
    "bert": {"architectures": ["BertForMaskedLM"], "model_type": "bert", **_TEXT},
    "t5": {"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 160, "num_layers": 4, "num_heads": 4, "vocab_size": 512, "decoder_start_token_id": 0},
    "vit": {"model_type": "vit", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 8, "num_attention_heads": 4, "image_size": 64, "patch_size": 8},
    "whisper": {
        "model_type": "whisper", "d_model": 64, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 160, "decoder_ffn_dim": 160,
        "max_source_positions": 100, "vocab_size": 512, "max_target_positions": 128, "decoder_start_token_id": 1, "begin_suppress_tokens": None, "suppress_tokens": None, **_NONE,
    },
}  # fmt: skip
SWITCHES: dict[str, dict[str, Any]] = {"plain": {}, "autocast": {"autocast": "bfloat16"}, "checkpointing": {"checkpointing": True}}
ROWS, LENGTH = 2, 64


def compared(config: dict[str, Any], **switches: Any) -> tuple[int, int]:
    """The bytes of the forward and backward pass with its weights: on paper, and as measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w") as f:
            json.dump(config, f)
        request = Request(path, batch=ROWS, seq=LENGTH, for_device="torch-core", optimizer="none", **switches)
        paper = fit(request).peak
        meta = model_of(replace(request, lora=0))
    real = type(meta.module)(meta.module.config).train()
    if request.checkpointing:
        real.gradient_checkpointing_enable()
    _, named = meta.inputs(ROWS, LENGTH)
    batch = {k: torch.rand(t.shape, dtype=t.dtype) if t.is_floating_point() else torch.ones(t.shape, dtype=t.dtype) for k, t in named.items()}
    around = torch.autocast("cpu", torch.bfloat16) if request.autocast else contextlib.nullcontext()
    forward = real.forward

    def cast(*args: Any, **kwargs: Any) -> Any:
        with around:
            return forward(*args, **kwargs)

    real.forward = cast  # type: ignore[method-assign]
    measured = memopt.record(real, **batch).measured_peak
    return paper, measured + sum(t.nbytes for t in {id(t): t for t in [*real.parameters(), *real.buffers()]}.values())


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    print("| model | " + " | ".join(SWITCHES) + " |\n|---|" + "---|" * len(SWITCHES))
    for name in names or MODELS:
        cells = []
        for switches in SWITCHES.values():
            torch.manual_seed(0)
            try:
                paper, measured = compared(MODELS[name], **switches)
                cells.append(f"{measured / 2**20:.2f} MiB, {100 * (paper / measured - 1):+.2f} %")
            except Exception as e:  # the table says what a family does not take
                cells.append(f"{type(e).__name__}: {str(e)[:80]}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

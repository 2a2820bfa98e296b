"""Steps on paper, beside steps that run: `python fitted.py MODEL PROFILE [--quick]` prints lines of JSON, as run.py does.

A model of transformers is made from a config of a few numbers, and trained as a trainer's file says; memopt.fit gets the same config and
file. PROFILE is the machine's own, of one thread; without MODEL it is measured and written there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

_out, sys.stdout = sys.stdout, sys.stderr
os.environ.setdefault("HF_HUB_OFFLINE", "1")

_TEXT = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 2048, "max_position_embeddings": 256}
_IDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_DECODER = {**_TEXT, **_IDS, "num_key_value_heads": 2, "head_dim": 64}
_BOTH = {"d_model": 256, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 688, "decoder_ffn_dim": 688, "vocab_size": 2048, "decoder_start_token_id": 1, **_IDS}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **_DECODER},
    "qwen3": {"model_type": "qwen3", **_DECODER},
    "gemma2": {"model_type": "gemma2", **_DECODER, "sliding_window": 32},
    "mistral": {"model_type": "mistral", **_DECODER, "sliding_window": 32},
    "phi3": {"model_type": "phi3", **_DECODER},
    "gpt2": {"model_type": "gpt2", "n_embd": 256, "n_layer": 8, "n_head": 4, "n_positions": 256, "vocab_size": 2048, **_IDS},
    "gpt-neox": {"model_type": "gpt_neox", **_TEXT},
    "opt": {"model_type": "opt", **_TEXT, "ffn_dim": 688, "word_embed_proj_dim": 256, **_IDS},
    "bert": {"architectures": ["BertForMaskedLM"], "model_type": "bert", **_TEXT},
    "t5": {"model_type": "t5", "d_model": 256, "d_kv": 64, "d_ff": 688, "num_layers": 7, "num_heads": 4, "vocab_size": 2048, "decoder_start_token_id": 0},
    "vit": {"model_type": "vit", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 8, "num_attention_heads": 4, "image_size": 128, "patch_size": 16},
    "whisper": {"model_type": "whisper", **_BOTH, "max_source_positions": 100, "max_target_positions": 256, "begin_suppress_tokens": None, "suppress_tokens": None},
}  # fmt: skip
ROWS, LENGTH = 2, 128
_SIDE = 1024  # of the product by which the processor's speed is told
# By trainer: its file, and what it has a step do.
TRAINERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "TrainingArguments: optim=adamw_torch": ("args.json", json.dumps({"per_device_train_batch_size": ROWS, "optim": "adamw_torch"}), {}),
    "TrainingArguments: bf16, gradient_accumulation_steps=2": (
        "args.json", json.dumps({"per_device_train_batch_size": ROWS, "optim": "adamw_torch", "bf16": True, "gradient_accumulation_steps": 2}), {"autocast": True, "passes": 2},
    ),
    "axolotl: gradient_checkpointing, optimizer=sgd": ("axolotl.yml", f"base_model: here\nmicro_batch_size: {ROWS}\ngradient_checkpointing: true\noptimizer: sgd\n", {"checkpointing": True, "optimizer": "sgd"}),
    "torchtitan: activation_checkpoint.mode=full": ("titan.toml", f'[training]\nlocal_batch_size = {ROWS}\nseq_len = {LENGTH}\n[activation_checkpoint]\nmode = "full"\n', {"checkpointing": True}),
}  # fmt: skip


def say(**what: object) -> None:
    _out.write(json.dumps(what) + "\n")
    _out.flush()


def promised(config: str, trainer: str, profile: str) -> tuple[int, float]:
    """The bytes of a later step, and its time in milliseconds, on paper."""
    import memopt

    found = memopt.fit(config, seq=LENGTH, for_device=profile, config=trainer, largest=False)
    step = found.ladder[0].time_ns
    total, overhead = found.verdicts.total, found.verdicts.overhead
    update = found.update_ns
    return total, ((step - update) * (1 + overhead) + update) / 1e6


def taken(config: str, how: dict[str, Any], profile: str, least: float) -> tuple[int, float]:
    """The same of steps that run, in CPU time of one thread: the least, as the profile has the least of each operator, and others' work only adds to it. A
    processor has other clocks at other times: the least of a product beside, whose time the profile tells, is what a step is measured in."""
    import torch

    from memopt.torch.fit.models import model_of
    from memopt.torch.fit.request import Request
    from memopt.torch.record.measure import watched

    meta = model_of(Request(config, batch=ROWS, seq=LENGTH))
    torch.manual_seed(0)
    model = type(meta.module)(meta.module.config).train()
    if how.get("checkpointing"):
        model.gradient_checkpointing_enable()
    batch = {k: torch.rand(t.shape, dtype=t.dtype) if t.is_floating_point() else torch.ones(t.shape, dtype=t.dtype) for k, t in meta.inputs(ROWS, LENGTH)[1].items()}
    optimizer = torch.optim.SGD(model.parameters(), 1e-4) if how.get("optimizer") == "sgd" else torch.optim.AdamW(model.parameters(), 1e-4)
    around: Callable[[], Any] = (lambda: torch.autocast("cpu", torch.bfloat16)) if how.get("autocast") else contextlib.nullcontext
    passes = how.get("passes", 1)

    def step() -> None:
        for _ in range(passes):
            with around():
                loss = model(**batch).loss
            (loss / passes if passes > 1 else loss).backward()
            del loss
        optimizer.step()
        optimizer.zero_grad()

    step()
    with watched() as seen:
        step()
    held = {id(t): t.nbytes for t in [*model.parameters(), *model.buffers()]}
    held |= {id(t): t.nbytes for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)}
    with open(profile) as f:
        rate = json.load(f)["flops_per_ns"]["product"][""]
    a = torch.rand(_SIDE, _SIDE)
    step()

    def clock(run: Callable[[], Any]) -> int:
        began = time.process_time_ns()
        run()
        return time.process_time_ns() - began

    steps, products = [clock(step)], [clock(lambda: a @ a)]
    while sum(steps) < least * 1e9 or len(steps) < 12:
        steps.append(clock(step))
        products += [clock(lambda: a @ a) for _ in range(2)]
    return sum(held.values()) + seen.peak, min(steps) / min(products) * 2 * _SIDE**3 / rate / 1e6


def measured(name: str, profile: str, quick: bool) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.json")
        with open(config, "w") as f:
            json.dump(MODELS[name], f)
        for trainer, (file, text, how) in TRAINERS.items():
            say(says=f"{name}: {trainer}")
            path = os.path.join(folder, file)
            with open(path, "w") as f:
                f.write(text)
            row: dict[str, Any] = {"trainer": trainer}
            try:
                row["promised"], row["promised_ms"] = promised(config, path, profile)
                row["measured"], row["cpu_ms"] = taken(config, how, profile, 0.3 if quick else 2.0)
            except Exception as e:  # a row says what went wrong
                row["error"] = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
            rows.append(row)
    return rows


def main(arguments: list[str]) -> None:
    for package in ("torch", "transformers", "memopt"):
        if importlib.util.find_spec(package) is None:
            say(absent=package)
            return
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    say(version=torch.__version__)
    *names, profile = [a for a in arguments if not a.startswith("-")]
    if names:
        say(result={"model": names[0], "rows": measured(names[0], profile, "--quick" in arguments)})
        return
    from memopt.torch.profile import keep, measure

    keep(measure("cpu", lambda what: say(says=f"profile: {what}")), profile)
    say(result={"model": "profile"})


if __name__ == "__main__":
    main(sys.argv[1:])

"""Models that people train, from transformers, torchvision and diffusers: small ones of every kind, and four larger ones.

build(name) returns a module in training mode, the keyword arguments of one step, and a function of the module's output
that returns the loss, or None where the module returns its loss. Weights and inputs are random, the same each time, and
nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import nn
from torch.nn import functional as F


class Family(NamedTuple):
    module: nn.Module
    inputs: dict[str, Any]
    loss: Callable[[Any], torch.Tensor] | None = None


def build(name: str) -> Family:
    torch.manual_seed(0)
    made = (SMALL | LARGE)[name]()
    made.module.train()
    return made


def _tokens(vocab: int, rows: int, length: int) -> torch.Tensor:
    return torch.randint(3, vocab, (rows, length))


def _language(module: nn.Module, vocab: int, rows: int = 2, length: int = 128) -> Family:
    tokens = _tokens(vocab, rows, length)
    return Family(module, {"input_ids": tokens, "labels": tokens, "use_cache": False})


def _labelled(module: nn.Module, rows: int, size: int, classes: int, name: str = "x") -> Family:
    """Images in, scores out: the loss is outside the module."""
    image, label = torch.randn(rows, 3, size, size), torch.randint(0, classes, (rows,))
    return Family(module, {name: image}, lambda out: F.cross_entropy(out, label))


# transformers: language models.


def gpt2() -> Family:
    """Dropout of 0.1 in four places, tied embeddings."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=1000, n_positions=128, n_embd=128, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
    return _language(GPT2LMHeadModel(config), 1000)


def llama() -> Family:
    """Grouped queries."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=500, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)
    return _language(LlamaForCausalLM(config), 500)


def llama_6x64() -> Family:
    """Of width 64: most of its operators take less than it costs to call them."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=500, hidden_size=64, intermediate_size=176, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    return _language(LlamaForCausalLM(config), 500, 4, 64)


def modules_300() -> Family:
    """As many modules of one operator each."""
    layers = [layer for _ in range(100) for layer in (nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU())]
    return Family(nn.Sequential(*layers), {"input": torch.randn(64, 32)}, lambda out: out.square().mean())


def qwen3() -> Family:
    """Norms of queries and keys, tied embeddings."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=500, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        max_position_embeddings=128, tie_word_embeddings=True,
    )  # fmt: skip
    return _language(Qwen3ForCausalLM(config), 500)


def mixtral() -> Family:
    """Four experts, two for each token, all in one product; the router's own loss."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=500, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, num_local_experts=4,
        max_position_embeddings=128, output_router_logits=True,
    )  # fmt: skip
    config._experts_implementation = "batched_mm"
    return _language(MixtralForCausalLM(config), 500, length=32)


def bert() -> Family:
    """A padding mask, dropout, and labels for a part of the tokens."""
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(vocab_size=500, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512, max_position_embeddings=128))
    tokens = _tokens(500, 4, 128)
    labels = tokens.masked_fill(torch.rand(tokens.shape) > 0.15, -100)
    mask = (torch.arange(128) < torch.tensor([[128], [100], [90], [128]])).long()
    return Family(model, {"input_ids": tokens, "attention_mask": mask, "labels": labels})


def t5() -> Family:
    """Encoder and decoder, relative positions, dropout."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=500, d_model=128, d_kv=32, d_ff=256, num_layers=3, num_decoder_layers=3, num_heads=4, decoder_start_token_id=0, pad_token_id=0)
    return Family(T5ForConditionalGeneration(config), {"input_ids": _tokens(500, 2, 96), "labels": _tokens(500, 2, 64), "use_cache": False})


# transformers: sound and pictures.


def vit() -> Family:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=96, num_hidden_layers=4, num_attention_heads=4, intermediate_size=384, image_size=32, patch_size=4, num_labels=10, hidden_dropout_prob=0.1)
    return Family(ViTForImageClassification(config), {"pixel_values": torch.randn(4, 3, 32, 32), "labels": torch.randint(0, 10, (4,))})


def whisper() -> Family:
    """Convolutions over sound, then encoder and decoder."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=300, num_mel_bins=40, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, max_source_positions=64, max_target_positions=64, dropout=0.1, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return Family(WhisperForConditionalGeneration(config), {"input_features": torch.randn(4, 40, 128), "labels": _tokens(300, 4, 32), "use_cache": False})


def clip() -> Family:
    """Two towers, and a loss across the rows of the batch."""
    from transformers import CLIPConfig, CLIPModel

    text = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2}
    vision = {"hidden_size": 96, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=48))
    return Family(model, {"input_ids": _tokens(300, 8, 32), "pixel_values": torch.randn(8, 3, 32, 32), "return_loss": True})


# diffusers.


def unet() -> Family:
    """A diffusion model: skip connections across the whole step, attention in the middle."""
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=32, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    noise = torch.randn(4, 3, 32, 32)
    return Family(model, {"sample": torch.randn(4, 3, 32, 32), "timestep": torch.tensor([1, 50, 500, 900])}, lambda out: F.mse_loss(out.sample, noise))


# torchvision.


def resnet26() -> Family:
    from torchvision.models.resnet import Bottleneck, ResNet

    return _labelled(ResNet(Bottleneck, [2, 2, 2, 2], num_classes=10), 4, 64, 10)


def resnet18() -> Family:
    from torchvision.models import resnet18

    return _labelled(resnet18(num_classes=10), 8, 64, 10)


def convnext() -> Family:
    """Depthwise convolutions, stochastic depth."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return _labelled(ConvNeXt([CNBlockConfig(32, 64, 2), CNBlockConfig(64, 128, 2), CNBlockConfig(128, None, 2)], stochastic_depth_prob=0.1, num_classes=10), 4, 64, 10)


def efficientnetv2() -> Family:
    """Squeeze and excitation, SiLU in place, stochastic depth, dropout."""
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig

    blocks = [FusedMBConvConfig(1, 3, 1, 16, 16, 1), FusedMBConvConfig(4, 3, 2, 16, 32, 2), MBConvConfig(4, 3, 2, 32, 48, 2), MBConvConfig(6, 3, 2, 48, 64, 2)]
    return _labelled(EfficientNet(blocks, dropout=0.2, stochastic_depth_prob=0.2, num_classes=10, last_channel=256), 4, 96, 10)


# Larger ones.


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.out(F.gelu(self.fc(self.ln2(x)))))


class _GPT(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, length: int, vocab: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.lnf, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.lnf(x)).flatten(0, 1), labels.flatten())


def gpt(layers: int, width: int, heads: int, length: int, vocab: int, rows: int) -> Family:
    tokens, labels = _tokens(vocab, rows, length), _tokens(vocab, rows, length)
    return Family(_GPT(layers, width, heads, length, vocab), {"tokens": tokens, "labels": labels})


def gpt_6l() -> Family:
    return gpt(6, 384, 6, 256, 8192, 4)


def llama_8l() -> Family:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=4096, hidden_size=256, intermediate_size=672, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)
    return _language(LlamaForCausalLM(config), 4096, 4, 256)


def bert_6l() -> Family:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=4096, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, max_position_embeddings=256,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return Family(BertForMaskedLM(config), {"input_ids": _tokens(4096, 4, 256), "labels": _tokens(4096, 4, 256)})


def resnet18_large() -> Family:
    from torchvision.models import resnet18

    return _labelled(resnet18(), 8, 112, 1000)


SMALL: dict[str, Callable[[], Family]] = {
    "gpt2": gpt2,
    "llama": llama,
    "llama-6x64": llama_6x64,
    "modules-300": modules_300,
    "qwen3": qwen3,
    "mixtral": mixtral,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "whisper": whisper,
    "clip": clip,
    "unet": unet,
    "resnet26": resnet26,
    "convnext": convnext,
    "efficientnetv2": efficientnetv2,
    "resnet18": resnet18,
}
LARGE: dict[str, Callable[[], Family]] = {"gpt-6L": gpt_6l, "llama-8L": llama_8l, "bert-6L": bert_6l, "resnet18-112": resnet18_large}

"""Small modules of the kinds that people train."""

from __future__ import annotations

import logging

import torch
from torch import nn
from torch.nn import functional as F

logging.getLogger("memopt").setLevel(logging.WARNING)  # tests say nothing of what is promised


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.drop = heads, nn.Dropout(dropout)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(d, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.proj(F.gelu(self.fc(self.ln_2(x)))))


class GPT(nn.Module):
    """Dropout, tied embeddings, and the loss in the model."""

    def __init__(self, layers: int = 3, width: int = 64, vocab: int = 300, rows: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(rows, width)
        self.blocks = nn.ModuleList(Block(width, 4, dropout) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens, labels):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.ln(x)).flatten(0, 1), labels.flatten())


class Llama(nn.Module):
    """Grouped queries, rotary positions made in the forward pass, gates."""

    def __init__(self, layers: int = 3, d: int = 64, heads: int = 4, kv: int = 2, vocab: int = 200) -> None:
        super().__init__()
        self.heads, self.kv = heads, kv

        def linears(a, b):
            return nn.ModuleList(nn.Linear(a, b, bias=False) for _ in range(layers))

        self.token, self.head = nn.Embedding(vocab, d), nn.Linear(d, vocab, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(d) for _ in range(2 * layers + 1))
        self.q, self.k, self.v, self.o = linears(d, d), linears(d, kv * d // heads), linears(d, kv * d // heads), linears(d, d)
        self.gate, self.up, self.down = linears(d, 3 * d), linears(d, 3 * d), linears(3 * d, d)
        self.register_buffer("inv_freq", 1 / 10000 ** (torch.arange(0, d // heads, 2) / (d // heads)))

    def rotate(self, x):
        angle = torch.arange(x.shape[2])[:, None] * self.inv_freq
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, tokens, labels):
        x = self.token(tokens)
        b, t, d = x.shape
        for i in range(len(self.q)):
            z = self.norms[2 * i](x)
            q = self.rotate(self.q[i](z).view(b, t, self.heads, -1).transpose(1, 2))
            k = self.rotate(self.k[i](z).view(b, t, self.kv, -1).transpose(1, 2))
            v = self.v[i](z).view(b, t, self.kv, -1).transpose(1, 2)
            k, v = (y.repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
            x = x + self.o[i](F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
            z = self.norms[2 * i + 1](x)
            x = x + self.down[i](F.silu(self.gate[i](z)) * self.up[i](z))
        return F.cross_entropy(self.head(self.norms[-1](x)).flatten(0, 1), labels.flatten())


class ResNet(nn.Module):
    """Batch norm in training mode, activations in place; its output is scores."""

    def __init__(self, blocks: int = 4, width: int = 16) -> None:
        super().__init__()

        def branch():
            a, b = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
            return nn.Sequential(a, nn.BatchNorm2d(width), nn.ReLU(inplace=True), b, nn.BatchNorm2d(width))

        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Linear(width, 10)
        self.branches = nn.ModuleList(branch() for _ in range(blocks))

    def forward(self, x):
        x = F.relu(self.stem(x), inplace=True)
        for branch in self.branches:
            x = F.relu(x + branch(x), inplace=True)
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    """Skip connections across the whole step, group norm, pooling, interpolation."""

    def __init__(self, c: int = 8) -> None:
        super().__init__()

        def convs(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU())

        self.down = nn.ModuleList([convs(3, c), convs(c, 2 * c), convs(2 * c, 4 * c)])
        self.up = nn.ModuleList([convs(6 * c, 2 * c), convs(3 * c, c)])
        self.out = nn.Conv2d(c, 3, 1)

    def forward(self, x, target):
        a = self.down[0](x)
        b = self.down[1](F.max_pool2d(a, 2))
        y = self.down[2](F.max_pool2d(b, 2))
        y = self.up[0](torch.cat([F.interpolate(y, scale_factor=2), b], 1))
        y = self.up[1](torch.cat([F.interpolate(y, scale_factor=2), a], 1))
        return F.mse_loss(self.out(y), target)


class ConvNeXt(nn.Module):
    """Depthwise convolutions, whose work space is larger than their operands."""

    def __init__(self, blocks: int = 3, c: int = 16) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, c, 2, 2), nn.Linear(c, 10)
        self.depthwise = nn.ModuleList(nn.Conv2d(c, c, 7, padding=3, groups=c) for _ in range(blocks))
        self.norm = nn.ModuleList(nn.LayerNorm(c) for _ in range(blocks))
        self.wide = nn.ModuleList(nn.Linear(c, 4 * c) for _ in range(blocks))
        self.narrow = nn.ModuleList(nn.Linear(4 * c, c) for _ in range(blocks))

    def forward(self, x):
        x = self.stem(x)
        for d, n, w, m in zip(self.depthwise, self.norm, self.wide, self.narrow, strict=True):
            x = x + m(F.gelu(w(n(d(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    """A layer whose kernel asks whether gradients are enabled."""

    def __init__(self, layers: int = 1) -> None:
        super().__init__()
        self.token, self.head = nn.Embedding(50, 32), nn.Linear(64, 50)
        self.lstm = nn.LSTM(32, 64, layers, batch_first=True)

    def forward(self, tokens, labels):
        h, _ = self.lstm(self.token(tokens))
        for _ in range(3):
            h = torch.tanh(h) * 1.5
        return F.cross_entropy(self.head(h).flatten(0, 1), labels.flatten())


def families():
    """Modules with inputs of a step, and the loss of what does not return one."""
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (4, 64))
    image, target, label = torch.randn(4, 3, 32, 32), torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))

    def scores(out):
        return F.cross_entropy(out, label)

    return {
        "gpt": (GPT(), (tokens, tokens), None),
        "llama": (Llama(), (tokens, tokens), None),
        "resnet": (ResNet(), (image,), scores),
        "unet": (UNet(), (image, target), None),
        "convnext": (ConvNeXt(), (image,), scores),
        "lstm": (Recurrent(), (tokens, tokens), None),
    }

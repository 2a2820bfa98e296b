"""Writes small models as PyTorch's exporters write them, and exports.json: what each initializer depends on.

    python export.py        (torch 2.15.0, onnx 1.23.2, onnxscript 0.7.2)

What an initializer was made of is not taken from the file's metadata or its names. The model is exported three times: as
it is, with other parameters, and with other buffers. An initializer that changes with the parameters alone is a
parameter, one that changes with the buffers is a buffer, one that changes with neither is a constant.
"""
import json
import math
import pathlib
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

here = pathlib.Path(__file__).parent
warnings.filterwarnings("ignore")


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("inv_freq", 1 / 100 ** (torch.arange(0, width, 2) / width), persistent=False)

    def forward(self, length):
        angles = torch.outer(torch.arange(length).float(), self.inv_freq)
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def turned(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class Text(nn.Module):
    """Rotary tables, a causal mask, a feature mean; positions and class tokens of zeros, a weight that is the identity,
    a scalar, tied weights, a layer that the author freezes."""

    def __init__(self, words=11, width=8, length=6, heads=2):
        super().__init__()
        self.heads = heads
        self.wte = nn.Embedding(words, width)
        self.pos = nn.Parameter(torch.zeros(1, length, width))
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.rotary = Rotary(width // heads)
        self.ln = nn.LayerNorm(width)
        self.attn = nn.Module()
        self.attn.qkv = nn.Linear(width, 3 * width)
        self.attn.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))
        self.proj = nn.Linear(width, width)
        self.register_buffer("feature_mean", torch.randn(width))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        self.mix = nn.Linear(width, width, bias=False)
        nn.init.eye_(self.mix.weight)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.wte.weight
        self.frozen = nn.Linear(width, width)
        self.frozen.requires_grad_(False)

    def forward(self, ids, labels):
        batch, length = ids.shape
        x = self.wte(ids) + self.pos[:, :length] + self.cls - self.feature_mean
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.attn.qkv(self.ln(x)).chunk(3, -1))
        cos, sin = self.rotary(length)
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.attn.bias[:, :, :length, :length] == 0, float("-inf"))
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1))
        x = self.mix(x) + self.frozen(x)
        logits = self.head(x) * self.logit_scale.exp()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class Image(nn.Module):
    """Batch norm, one of them called twice; a convolution of zeros, a diffusion schedule, a mean that is no buffer, weight norm."""

    def __init__(self, channels=4):
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.zero = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        nn.init.zeros_(self.zero.weight)
        self.bn2 = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, 5)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(5, 5))
        self.register_buffer("alphas_cumprod", torch.cumprod(1 - torch.linspace(1e-2, 0.2, 7), 0))
        self.centre = torch.tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1)

    def forward(self, x, t, y):
        x = F.relu(self.bn1(self.conv1(x - self.centre)))
        x = self.bn2(x + self.zero(x))
        x = self.bn2(x * self.alphas_cumprod[t].sqrt().view(-1, 1, 1, 1))
        return F.mse_loss(self.normed(self.fc(x.square().mean((2, 3)))), y)


def made(kind, training, change=None):
    torch.manual_seed(1)
    model = kind().train(training)
    with torch.no_grad():
        for i, p in enumerate({"parameters": model.parameters, "buffers": model.buffers}.get(change, list)()):
            if p.is_floating_point():
                p.copy_(p * 1.25 + 0.0625 * (1 + torch.arange(p.numel()).view(p.shape) % 7))
    if kind is Text:
        args = torch.arange(12).view(2, 6) % 11, torch.arange(12).view(2, 6) * 5 % 11
    else:
        args = torch.sin(torch.arange(216.0)).view(2, 3, 6, 6), torch.tensor([1, 3]), torch.cos(torch.arange(10.0)).view(2, 5)
    return model, args


def initializers(path):
    """Of floats, by name."""
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    return {name: a for name, a in arrays.items() if a.dtype == np.float32}


def export(name, kind, training, **options):
    mode = torch.onnx.TrainingMode
    if not options["dynamo"]:
        options["training"] = mode.TRAINING if training else mode.EVAL
    names = {"input_names": ["ids", "labels"] if kind is Text else ["x", "t", "y"], "output_names": ["loss"]}
    found = {}
    for change in ("parameters", "buffers", None):
        model, args = made(kind, training, change)
        torch.onnx.export(model, args, here / name, verbose=False, **names, **options)
        found[change] = initializers(here / name)
    was = found.pop(None)
    kinds = {}
    for key, a in was.items():
        moved = [change for change, now in found.items() if not np.array_equal(now[key], a)]
        kinds[key] = "buffer" if "buffers" in moved else "parameter" if moved else "constant"
    return kinds


def reference(name, training):
    """One step of the image model in PyTorch from what the file holds (exporting in training mode changes the statistics):
    inputs, loss, gradients, and what the step leaves in the buffers."""
    model, (x, t, y) = made(Image, training)
    held = initializers(here / name.replace(".npz", ".onnx"))
    model.load_state_dict({key: torch.tensor(a) for key, a in held.items()}, strict=False)
    loss = model(x, t, y)
    loss.backward()
    arrays = {"input.x": x, "input.t": t, "input.y": y, "loss": loss.detach()}
    arrays |= {"grad." + key: p.grad for key, p in model.named_parameters()}
    arrays |= {"after." + key: b for key, b in model.named_buffers() if "running" in key}
    np.savez(here / name, **{key: a.numpy() for key, a in arrays.items()})


class Norms(nn.Module):
    """Two norms that are equal."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.l = nn.LayerNorm(4), nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.norm2(self.l(self.norm1(x)))


torch.manual_seed(0)
torch.onnx.export(Norms(), (torch.randn(2, 4),), here / "shared-older.onnx", dynamo=False)
exports = {
    "text.onnx": (Text, False, {"dynamo": True, "external_data": False}),
    "text-plain.onnx": (Text, False, {"dynamo": True, "optimize": False, "external_data": False}),
    "text-inputs.onnx": (Text, False, {"dynamo": True, "keep_initializers_as_inputs": True}),
    "text-older.onnx": (Text, False, {"dynamo": False}),
    "text-older-plain.onnx": (Text, False, {"dynamo": False, "do_constant_folding": False}),
    "image.onnx": (Image, False, {"dynamo": True, "external_data": False}),
    "image-plain.onnx": (Image, False, {"dynamo": True, "optimize": False, "external_data": False}),
    "image-older.onnx": (Image, True, {"dynamo": False}),
    "image-older-inputs.onnx": (Image, True, {"dynamo": False, "keep_initializers_as_inputs": True}),
}
kinds = {name: export(name, kind, training, **options) for name, (kind, training, options) in exports.items()}
(here / "exports.json").write_text(json.dumps({"torch": torch.__version__, "models": kinds}, indent=1) + "\n")
reference("image-older.npz", True)

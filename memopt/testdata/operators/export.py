"""Exports small PyTorch models to ONNX beside this file, with their loss and gradients.

    python export.py [NAME...]        (torch 2.15.0, onnx 1.23.2, onnxscript 0.7.2)

NAME.onnx is what torch.onnx writes, without doc strings; NAME.npz has input.*, loss and grad.* as memopt train --check
reads them. A name that ends in _ts is of the exporter that traces TorchScript, others are of torch.export.
"""
import math
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.manual_seed(1)  # of the inputs
HERE = pathlib.Path(__file__).parent
MODELS = {}


def model(*inputs, opset=20, dynamic=None, exporters=("", "_ts")):
    """Registers a module's class with its inputs."""
    def add(cls):
        for suffix in exporters:
            MODELS[cls.__name__.lower() + suffix] = (cls, inputs, opset, dynamic, suffix == "_ts")
        return cls
    return add


def whole(n, *shape):
    return torch.randint(0, n, shape)


class Bag(nn.Module):
    def __init__(self, mode, **kw):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(20, 6, mode=mode, **kw), nn.Linear(6, 1)

    def forward(self, ids, offsets, weights=None):
        return self.head(torch.tanh(self.bag(ids, offsets, weights))).square().mean()


IDS, OFFSETS = torch.tensor([1, 2, 3, 4, 5, 2, 7, 9, 2]), torch.tensor([0, 3, 5, 6])


@model(IDS, OFFSETS, dynamic=[{0: "ids"}, {0: "bags"}])
class BagMean(Bag):
    def __init__(self):
        super().__init__("mean")


@model(IDS, torch.cat([OFFSETS, torch.tensor([9])]))
class BagMax(Bag):
    def __init__(self):
        super().__init__("max", include_last_offset=True)


@model(IDS, OFFSETS, torch.rand(9))
class BagWeighted(Bag):
    def __init__(self):
        super().__init__("sum")


@model(whole(20, 5, 3))
class BagRows(nn.Module):
    """Bags that are the rows of a matrix."""
    def __init__(self):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(20, 6, mode="mean"), nn.Linear(6, 1)

    def forward(self, ids):
        return self.head(self.bag(ids)).square().mean()


@model(torch.randn(4, 5), IDS, OFFSETS, whole(20, 8), torch.tensor([0, 1, 4, 7]))
class Dlrm(nn.Module):
    """Dense features and two bags, their pairwise products, and a click."""
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(5, 6)
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 6, mode=m) for m in ("sum", "mean"))
        self.top = nn.Linear(6 + 3, 1)

    def forward(self, dense, ids0, offsets0, ids1, offsets1):
        x = F.relu(self.dense(dense))
        all = torch.stack([x, self.bags[0](ids0, offsets0), self.bags[1](ids1, offsets1)], 1)
        pairs = all @ all.transpose(1, 2)
        pairs = torch.stack([pairs[:, 0, 1], pairs[:, 0, 2], pairs[:, 1, 2]], 1)
        return F.softplus(-self.top(torch.cat([x, pairs], 1))).mean()


@model(torch.randn(2, 9, 8), exporters=("",))
class FNet(nn.Module):
    """Tokens mixed by the real part of a two-dimensional transform."""
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        x = self.norms[0](x + torch.fft.fft(torch.fft.fft(self.down(F.gelu(self.up(x))), dim=-1), dim=-2).real)
        return self.norms[1](x).sin().mean()


@model(torch.randn(2, 3, 12), exporters=("",))
class Spectral1d(nn.Module):
    """A layer of a Fourier neural operator: complex weights as pairs of real ones."""
    def __init__(self):
        super().__init__()
        self.weight, self.skip = nn.Parameter(torch.randn(3, 4, 5, 2) / 4), nn.Conv1d(3, 4, 1)

    def forward(self, x):
        z = torch.view_as_real(torch.fft.rfft(x))[..., :5, :]
        a, b = z.unbind(-1)
        c, d = self.weight.unbind(-1)
        mix = lambda u, v: torch.einsum("bik,iok->bok", u, v)
        z = F.pad(torch.stack([mix(a, c) - mix(b, d), mix(a, d) + mix(b, c)], -1), (0, 0, 0, 2))
        y = torch.fft.irfft(torch.view_as_complex(z), n=x.shape[-1])
        return F.gelu(y + self.skip(x)).square().mean()


@model(torch.randn(2, 2, 6, 10), exporters=("",))
class Spectral2d(nn.Module):
    """Two dims, and a filter of its own for each frequency, as in global filter networks."""
    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(2, 6, 6, 2) / 3)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        z = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(self.filter)
        return self.head(torch.fft.irfft2(z, s=(6, 10), norm="ortho")).square().mean()


@model(torch.randn(2, 3, 7, 8))
class Transformer2d(nn.Module):
    """A spatial transformer."""
    def __init__(self):
        super().__init__()
        self.where, self.head = nn.Linear(3 * 7 * 8, 6), nn.Conv2d(3, 2, 3)
        self.where.weight.data *= 0.1
        self.where.bias.data = torch.tensor([1, 0.1, 0.05, -0.1, 0.9, 0])

    def forward(self, x):
        grid = F.affine_grid(self.where(x.flatten(1)).view(-1, 2, 3), x.shape, align_corners=False)
        return self.head(F.grid_sample(x * 1.5, grid, align_corners=False)).square().mean()


class Sampled(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.data, self.how = nn.Parameter(torch.randn(2, 3, 6, 7)), how
        self.move = nn.Parameter(torch.randn(2, 4, 5, 2) * 0.2)

    def forward(self, grid):
        return F.grid_sample(self.data, grid + self.move, **self.how).pow(2).mean()


GRID = torch.rand(2, 4, 5, 2) * 2.6 - 1.3


@model(GRID)
class SampledCubic(Sampled):
    def __init__(self):
        super().__init__(mode="bicubic", padding_mode="reflection", align_corners=True)


@model(GRID)
class SampledNearest(Sampled):
    def __init__(self):
        super().__init__(mode="nearest", padding_mode="border", align_corners=False)


@model(torch.rand(1, 2, 3, 4, 3) * 2.4 - 1.2)
class SampledVolume(nn.Module):
    def __init__(self):
        super().__init__()
        self.data, self.move = nn.Parameter(torch.randn(1, 2, 4, 5, 3)), nn.Parameter(torch.randn(1, 2, 3, 4, 3) * 0.1)

    def forward(self, grid):
        return F.grid_sample(self.data, grid + self.move, padding_mode="border", align_corners=True).pow(2).mean()


@model(torch.randn(2, 5, 8), torch.randn(2, 30, 8), torch.rand(2, 5, 2))
class Deformable(nn.Module):
    """Deformable attention: values of two levels, sampled where the query says."""
    LEVELS = ((4, 6), (2, 3))

    def __init__(self):
        super().__init__()
        self.value, self.out = nn.Linear(8, 8), nn.Linear(8, 8)
        self.offsets, self.weights = nn.Linear(8, 2 * 2 * 3 * 2), nn.Linear(8, 2 * 2 * 3)

    def forward(self, query, memory, reference):
        heads, points = 2, 3
        value = self.value(memory).view(2, 30, heads, 4)
        offsets = self.offsets(query).view(2, 5, heads, 2, points, 2)
        weights = F.softmax(self.weights(query).view(2, 5, heads, 2 * points), -1)
        sampled, first = [], 0
        for level, (h, w) in enumerate(self.LEVELS):
            v = value[:, first:first + h * w].permute(0, 2, 3, 1).reshape(2 * heads, 4, h, w)
            first += h * w
            at = reference[:, :, None, None] + offsets[:, :, :, level] / torch.tensor([w, h])
            grid = (2 * at - 1).permute(0, 2, 1, 3, 4).reshape(2 * heads, 5, points, 2)
            sampled.append(F.grid_sample(v, grid, align_corners=False))
        weights = weights.transpose(1, 2).reshape(2 * heads, 1, 5, 2 * points)
        y = (torch.cat(sampled, -1) * weights).sum(-1).view(2, heads * 4, 5).transpose(1, 2)
        return self.out(y).square().mean()


@model(torch.randn(2, 3, 9, 8), exporters=("",))
class Patches(nn.Module):
    """Overlapping patches, mixed by channel and put together again, as in soft splits of video transformers."""
    def __init__(self):
        super().__init__()
        self.how = dict(kernel_size=(3, 2), dilation=(2, 1), padding=(1, 1), stride=(2, 1))
        self.before, self.mix = nn.Conv2d(3, 2, 1), nn.Linear(12, 18)

    def forward(self, x):
        columns = F.unfold(torch.tanh(self.before(x)), **self.how)
        y = F.fold(self.mix(columns.transpose(1, 2)).transpose(1, 2), x.shape[2:], **self.how)
        return F.gelu(y).square().mean()


@model(torch.randn(2, 5, 6, 6), dynamic=[{0: "batch"}])
class Outlook(nn.Module):
    """Outlook attention (VOLO): weights of a neighbourhood from its centre, folded where neighbourhoods overlap."""
    def __init__(self):
        super().__init__()
        self.value, self.weights = nn.Linear(6, 4), nn.Linear(6, 81)

    def forward(self, x):
        b = x.shape[0]
        x = x.permute(0, 2, 3, 1)[:, :, :, :5]
        x = F.pad(x, (0, 1)).reshape(b, 6, 6, 6)
        v = F.unfold(self.value(x).permute(0, 3, 1, 2), 3, padding=1, stride=2).view(b, 4, 9, 9).transpose(1, 3)
        pooled = F.avg_pool2d(x.permute(0, 3, 1, 2), 2, 2).permute(0, 2, 3, 1)
        a = self.weights(pooled).view(b, 9, 9, 9).softmax(-1)
        y = (a @ v).permute(0, 3, 2, 1).reshape(b, 36, 9)
        return F.fold(y, (6, 6), 3, padding=1, stride=2).pow(2).mean()


def export(name):
    cls, inputs, opset, dynamic, traced = MODELS[name]
    torch.manual_seed(0)
    m = cls()
    loss = m(*inputs)
    loss.backward()
    import inspect
    names = list(inspect.signature(m.forward).parameters)[:len(inputs)]
    path = HERE / (name + ".onnx")
    how = dict(input_names=names, output_names=["loss"], opset_version=opset, dynamo=not traced)
    if traced:
        how["do_constant_folding"] = False  # keeps parameters' names
    if dynamic and traced:
        how["dynamic_axes"] = dict(zip(names, dynamic))
    elif dynamic:
        how["dynamic_shapes"] = tuple({k: torch.export.Dim(v) for k, v in d.items()} for d in dynamic)
    if not traced:
        how.update(verbose=False, external_data=False, optimize=False)
    torch.onnx.export(m, inputs, str(path), **how)
    onnx_model = onnx.load(path)

    def bare(nodes):
        for n in nodes:
            n.doc_string = ""
            kept = [p for p in n.metadata_props if not p.key.startswith("pkg.") and p.key != "namespace"]
            del n.metadata_props[:]
            n.metadata_props.extend(kept)
            for a in n.attribute:
                bare(a.g.node)
    bare(onnx_model.graph.node)
    onnx.save(onnx_model, path)
    arrays = {"input." + n: x.numpy() for n, x in zip(names, inputs)}
    arrays["loss"] = np.float32(loss.item())
    for n, p in m.named_parameters():
        arrays["grad." + n] = p.grad.numpy()
    np.savez(HERE / (name + ".npz"), **arrays)


if __name__ == "__main__":
    HERE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 and pathlib.Path(sys.argv[1]).is_dir() else HERE
    for name in [a for a in sys.argv[1:] if a in MODELS] or MODELS:
        try:
            export(name)
            print("exported", name)
        except Exception as e:
            print("cannot export", name, type(e).__name__, str(e).strip()[-600:])

"""Writes small models as PyTorch's exporter writes them by default, and what PyTorch itself makes of them.

    python export.py        (torch 2.15.0, onnx 1.23.2, onnxscript 0.7.2)

Beside model.onnx, model.npz has the inputs, targets, and the parameters and running statistics: after a step of SGD with a rate of 1, as
step1:name, and after ten steps with a rate of 0.05, as step10:name. The loss is the mean squared error.
"""

import copy
import pathlib
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

here = pathlib.Path(__file__).parent
warnings.filterwarnings("ignore")


class Tied(nn.Module):
    """A language model whose output layer is the table of its embedding, with padding; both norms are equal."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 8, padding_idx=1)
        self.norm1, self.norm2 = nn.RMSNorm(8), nn.RMSNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids)
        x = x + self.down(F.silu(self.up(self.norm1(x))))
        return self.head(self.norm2(x))


class Layers(nn.Module):
    """Layers whose weights the exporter reorders, reshapes, repeats and leaves out; a scale that equals a number of the program."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 4, 3, padding=1), nn.ConvTranspose1d(4, 4, 3, padding=1, groups=2)
        nn.init.zeros_(self.conv1.bias)
        nn.init.zeros_(self.conv2.bias)
        self.group = nn.GroupNorm(2, 4)
        self.slope = nn.PReLU(4)
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(6, 5, batch_first=True)
        self.scale = nn.Parameter(torch.full((5,), 0.5))
        self.two = nn.Parameter(torch.tensor(2.0))
        self.never = nn.Linear(2, 2)
        self.batch = nn.BatchNorm1d(5, momentum=0.3)

    def forward(self, x):
        x = self.slope(self.group(self.conv2(self.conv1(x))))
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x.transpose(1, 2)], 1)
        x = self.gru(self.lstm(x)[0])[0] * self.scale
        return self.batch((x.pow(2.0) * self.two + x)[:, -1].relu())


class Resized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, x):
        x = self.conv(x)
        y = F.interpolate(x, scale_factor=2) + F.interpolate(x, scale_factor=2, mode="bilinear")
        return y * F.interpolate(x, scale_factor=2.0, mode="bicubic")


class Numbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, x):
        return self.linear(x) * torch.arange(0, 4, 0.5) + torch.linspace(0, 1, 8)


class Lost(nn.Module):
    """Two norms of one input, which the exporter makes one; a scale that it folds; a factor of 1, which it leaves out."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(4), nn.LayerNorm(4)
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.neutral = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return (self.one(self.norm1(x)) + self.two(self.norm2(x))) * self.scale.exp() * self.neutral


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.conv(x)).relu()


def numbers(prefix, model):
    return {prefix + name: t.detach().numpy().copy() for name, t in model.state_dict().items() if t.is_floating_point()}


def write(name, model, *args, **options):
    with torch.no_grad():
        targets = torch.randn(copy.deepcopy(model)(*args).shape)
    path = here / f"{name}.onnx"
    torch.onnx.export(copy.deepcopy(model), args, path, dynamo=True, external_data=False, verbose=False, **options)
    program = onnx.load(path)
    for node in program.graph.node:  # the source and the classes of whoever exported it
        for p in [p for p in node.metadata_props if p.key.endswith(("stack_trace", "class_hierarchy")) or p.key == "namespace"]:
            node.metadata_props.remove(p)
    onnx.save(program, path)
    found = {value.name: t.numpy() for value, t in zip(program.graph.input, args, strict=True)} | {"targets": targets.numpy()}
    for steps, rate in (1, 1.0), (10, 0.05):
        trained = copy.deepcopy(model)
        optimizer = torch.optim.SGD(trained.parameters(), rate)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.mse_loss(trained(*args), targets)
            loss.backward()
            optimizer.step()
        found |= numbers(f"step{steps}:", trained) | {f"loss{steps}": np.float32(loss.item())}
    np.savez_compressed(here / f"{name}.npz", **found)


torch.manual_seed(0)
write("transformer", nn.Transformer(8, 2, 1, 2, 16, dropout=0.0, batch_first=True), torch.randn(2, 4, 8), torch.randn(2, 3, 8))
write("tied", Tied(), torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]))
write("layers", Layers(), torch.randn(3, 3, 4))
write("resized", Resized(), torch.randn(2, 2, 3, 4))
write("numbers-plain", Numbers(), torch.randn(2, 4), optimize=False)
write("lost", Lost(), torch.randn(2, 4))
write("fused", Fused().eval(), torch.randn(1, 2, 4, 4))

value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
nodes = [node("Mul", ["by", "two"], ["scales"]), node("Resize", ["x", "", "scales"], ["y"], name="resize")]
given = [value("x", 1, [1, 2, 4, 4]), value("by", 1, [4])]
two = onnx.numpy_helper.from_array(np.full(4, 2, np.float32), "two")
program = onnx.helper.make_graph(nodes, "fed", given, [value("y", 1, ["a", "b", "c", "d"])], [two])
onnx.save(onnx.helper.make_model(program, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 18)]), here / "fed.onnx")

"""Steps on paper for graphics processors: what their kernels keep, where a processor's keep something else."""

from __future__ import annotations

import json
import os
import tempfile
import unittest

import torch
from torch.nn import functional

import memopt
from memopt.torch.fit.account import ACTIVATIONS, line_of
from memopt.torch.fit.devices import device_of
from memopt.torch.fit.kernels import IN_FULL, kernels_of, work_within
from memopt.torch.fit.models import model_of
from memopt.torch.fit.request import Request
from memopt.torch.fit.scans import KERNELS, modules_of
from memopt.torch.fit.steps import Steps
from memopt.torch.plan.form import Form
from memopt.torch.record.fake import fake_recording

BERT = {"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 512}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 64, "n_layer": 8, "n_head": 4, "n_positions": 256, "vocab_size": 512, "bos_token_id": 0, "eos_token_id": 0}


class Attention(torch.nn.Module):
    def __init__(self, width: int, dropout: float, masked: bool, groups: int = 4):
        super().__init__()
        self.dropout, self.masked = dropout, masked
        self.of = torch.nn.ModuleList([torch.nn.Linear(32, heads * width) for heads in (4, groups, groups)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (made(x).unflatten(-1, (heads, -1)).transpose(1, 2) for made, heads in zip(self.of, (4, *[self.of[1].out_features * 4 // self.of[0].out_features] * 2), strict=True))
        mask = torch.ones(x.shape[0], 1, x.shape[1], x.shape[1], dtype=torch.bool) if self.masked else None
        return functional.scaled_dot_product_attention(q, k, v, mask, self.dropout, not self.masked, enable_gqa=q.shape[1] != k.shape[1]).float().sum()


class Whole(torch.nn.Module):
    """Attention within a function that calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(32, 4, 0.1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x, need_weights=False)[0].float().sum()


def recorded(model: torch.nn.Module, dtype: torch.dtype, device: str):
    with kernels_of(device_of(device), model):
        return fake_recording(model.to(dtype), (torch.empty(2, 100, 32, dtype=dtype, device="meta"),), {}, None, "cpu")


def saves(recording) -> dict[str, int]:
    """What the forward pass leaves, by shape and type of its values."""
    nodes = {n["name"]: n for n in recording.graph["nodes"]}
    read = {name for n in nodes.values() if n.get("is_backward") for name in n["inputs"]}
    found: dict[str, int] = {}
    for n in nodes.values():
        if n["op"] != "input" and not n["is_backward"] and n["name"] in read:
            for o in n["outputs"]:
                key = f"{o['dtype']}{o['shape']}"
                found[key] = found.get(key, 0) + 1
    return found


def functions_of(model: torch.nn.Module) -> list[object]:
    """What a model's modules have for the kernels."""
    return [getattr(module, name, None) for module in modules_of(model) for name in KERNELS]


def kept_by_kernel(form: Form, kernel: str, where: str) -> int:
    """What the backward node of a kernel reads, of values that its own module makes in the second block."""
    made = next(i for i, n in enumerate(form.nodes) if n.fields["op"] == kernel and f".1.{where}" in n.fields["module"])
    node = max((n for n in form.nodes if n.fields["is_backward"] and made in {r[0] for r in n.reads}), key=lambda n: len(n.reads))
    return sum(form.bytes[r] for r in node.reads if r[0] >= 0 and not form.nodes[r[0]].fields["is_backward"])


class Mixed(torch.nn.Module):
    """Operators that autocast has in 32 bits on a graphics processor, of a result in 16."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.linear, self.norm, self.root = kind, torch.nn.Linear(32, 32), torch.nn.LayerNorm(32), torch.nn.RMSNorm(32)
        self.made: torch.dtype | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        ways = {
            "pow": lambda: torch.pow(y, 3), "operator": lambda: y**3, "over": lambda: 1 / y, "softmax": lambda: y.softmax(-1), "function": lambda: functional.softmax(y, dim=-1), "norm": lambda: self.norm(y), "root": lambda: self.root(y),
            "loss": lambda: functional.cross_entropy(y.flatten(0, 1), torch.zeros(y.shape[0] * y.shape[1], dtype=torch.long)), "sum": lambda: y.sum(-1), "gelu": lambda: functional.gelu(y), "relu": lambda: y.relu(),
        }  # fmt: skip
        found = ways[self.kind]()
        self.made = found.dtype
        return found.float().sum()


class TestKernels(unittest.TestCase):
    def test_attention(self):
        """The kernel is the one that PyTorch takes on that device, and what it keeps is a number for each query."""
        half, single = torch.bfloat16, torch.float32
        flash, efficient, products = "flash_attention.default", "efficient_attention.default", "softmax"
        for dtype, width, dropout, masked, groups, device, kernel in (
            (half, 16, 0.1, False, 4, "h100", flash),
            (half, 16, 0.0, False, 4, "h100", flash),
            (half, 16, 0.1, False, 2, "a100", flash),
            (half, 12, 0.1, False, 4, "h100", flash),  # in heads of 16
            (half, 16, 0.1, True, 4, "h100", efficient),
            (single, 16, 0.1, False, 4, "h100", efficient),
            (single, 16, 0.1, True, 4, "h100", efficient),
            (half, 256, 0.1, False, 4, "h100", flash),
            (half, 256, 0.1, False, 4, "4090", efficient),
            (half, 512, 0.1, False, 4, "h100", efficient),
            (single, 18, 0.1, False, 4, "h100", products),
            (half, 16, 0.1, False, 4, "apple-m4-max", products),
            (half, 16, 0.1, False, 4, "torch-core", products),
            (half, 16, 0.0, False, 4, "torch-core", "flash_attention_for_cpu.default"),
        ):  # fmt: skip
            with self.subTest(dtype=dtype, width=width, dropout=dropout, masked=masked, groups=groups, device=device):
                found = recorded(Attention(width, dropout, masked, groups), dtype, device)
                taken = [n["op"] for n in found.graph["nodes"] if not n.get("is_backward") and any(w in n["op"] for w in ("attention", "softmax"))]
                self.assertEqual(len(taken), 1, taken)
                self.assertIn(kernel, taken[0])
                kept = saves(found)
                rows = 128 if kernel == efficient else 100
                if kernel in (flash, efficient):
                    self.assertEqual(kept.get(f"float32[2, 4, {rows}]"), 1, kept)
                    square = {k: n for k, n in kept.items() if "100, 100" in k or "112]" in k}
                    self.assertEqual(sum(square.values()), int(masked), kept)  # the mask, one for all heads

    def test_within(self):
        """Attention that a function of PyTorch calls is that of the device, too."""
        found = recorded(Whole(), torch.bfloat16, "h100")
        self.assertTrue(any("flash_attention.default" in n["op"] for n in found.graph["nodes"]))
        with self.assertRaises(StopIteration):
            next(n for n in recorded(Whole(), torch.bfloat16, "cpu").graph["nodes"] if "flash" in n["op"])

    def test_autocast(self):
        """Under autocast operators are in 32 bits that are so on a graphics processor."""
        for kind, cpu, h100 in (
            *((kind, torch.bfloat16, torch.float32) for kind in ("pow", "operator", "over", "softmax", "function", "norm", "root", "sum")),
            ("loss", torch.float32, torch.float32), ("gelu", torch.bfloat16, torch.bfloat16), ("relu", torch.bfloat16, torch.bfloat16),
        ):  # fmt: skip
            for device, dtype in (("cpu", cpu), ("h100", h100)):
                with self.subTest(kind=kind, device=device):
                    model = Mixed(kind)
                    with kernels_of(device_of(device), model):
                        found = fake_recording(model, (torch.empty(2, 100, 32, device="meta"),), {}, None, "cpu", lambda: torch.autocast("cpu", torch.bfloat16))
                    self.assertEqual(model.made, dtype)
                    if kind == "root" and device == "h100":
                        self.assertTrue(any(n["op"] == "memopt.rms_norm.default" for n in found.graph["nodes"]))

    def test_autocast_known(self):
        """What PyTorch registers for autocast on graphics processors alone is known here."""
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
        alone = {n.removeprefix("aten::").split(".")[0] for n in names if has(n, "AutocastCUDA") and not has(n, "AutocastCPU")}
        # In 16 bits, of the widest type, or of what a processor has by another name.
        others = {"addmv", "addr", "mv", "chain_matmul", "einsum", "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "index_put", "scatter_add", "tensordot", "vdot"}
        rest = {n for n in alone - IN_FULL - others if not any(part in n for part in ("conv", "rnn", "gru", "lstm", "multi_dot", "attention"))}
        self.assertEqual({n for n in rest if "upsample" not in n and "norm" not in n}, set())
        self.assertLessEqual({"interpolate", "norm", "vector_norm", "matrix_norm"}, IN_FULL)

    def test_families(self):
        """Dropout of attention's probabilities costs nothing on a graphics processor, and that of blocks a byte for each number."""
        with tempfile.TemporaryDirectory() as folder:
            for config, attention, others in ((BERT, "attention_probs_dropout_prob", ("hidden_dropout_prob",)), (GPT2, "attn_pdrop", ("resid_pdrop", "embd_pdrop"))):
                for given in ({"dtype": "bfloat16"}, {"dtype": "float32", "checkpointing": True}):
                    with self.subTest(model=config["model_type"], **given):

                        def bytes_of(device: str, config: dict = config, given: dict = given, **fields: float) -> int:
                            request = Request(os.path.join(folder, "config.json"), batch=2, seq=128, for_device=device, **given)
                            with open(request.model, "w") as f:
                                json.dump({**config, **fields}, f)
                            return Steps(model_of(request), request, device=device_of(device)).graph(2, 128)["measured_peak"]

                        none = {attention: 0.0, **dict.fromkeys(others, 0.0)}
                        plain = bytes_of("h100", **none)
                        self.assertEqual(bytes_of("h100", **{**none, attention: 0.1}), plain)
                        self.assertGreater(bytes_of("cpu", **{**none, attention: 0.1}), bytes_of("cpu", **none))
                        masks = bytes_of("h100", **{attention: 0.0}) - plain
                        factors = bytes_of("cpu", **{attention: 0.0}) - bytes_of("cpu", **none)
                        self.assertGreater(masks, 0)
                        self.assertLess(masks, factors)

    def test_work(self):
        """Flash attention's backward pass works in the gradient of queries in 32 bits, and in gradients of keys and values for each head."""
        found = Form(recorded(Attention(16, 0.1, False, 2), torch.bfloat16, "h100").graph)
        at = next(i for i, n in enumerate(found.nodes) if "FlashAttentionBackward" in n.fields["op"])
        before = found.work[at]
        work_within(found)
        self.assertEqual(found.work[at] - before, 2 * 4 * 100 * (16 * 4 + 4 + 2 * 16 * 2))
        self.assertEqual(sum(found.work), sum(Form(recorded(Attention(16, 0.1, False, 2), torch.bfloat16, "h100").graph).work) + found.work[at] - before)

    def test_scans(self):
        """Rows of thousands of tokens are gone through by kernels, and what those keep is what mamba-ssm and RWKV's kernel save."""
        batch, seq, width = 2, 4096, 64
        ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "hidden_size": width, "vocab_size": 512}
        inner, states, rank = 2 * width, 16, 4
        rows = batch * seq
        mamba = 2 * (2 * inner * rows + (rank + 2 * states) * rows + 2 * states * rows + inner * rows) + 4 * batch * inner * 2 * 2 * states
        mamba += 4 * (inner * states + inner + inner)  # A, D and the steps' bias in single precision
        wkv = 2 * 3 * width * rows + 4 * width
        chunks = 2 * rows * (2 * inner + 2 * states + 8) + 2 * inner * rows + 4 * rows + 4 * 8  # with a deviation for each row, and A
        with tempfile.TemporaryDirectory() as folder:
            for config, where, kernel, size in (
                ({"model_type": "mamba", "num_hidden_layers": 6, "state_size": states, "time_step_rank": rank, **ids}, "mixer", "memopt.selective_scan.default", mamba),
                ({"model_type": "falcon_mamba", "num_hidden_layers": 6, "state_size": states, "time_step_rank": rank, **ids}, "mixer", "memopt.selective_scan.default", mamba),
                ({"model_type": "mamba2", "num_hidden_layers": 6, "state_size": states, "num_heads": 8, "head_dim": 16, "n_groups": 1, **ids}, "mixer", "memopt.chunk_scan.default", chunks),
                ({"model_type": "rwkv", "num_hidden_layers": 7, "context_length": seq, **ids}, "attention", "memopt.wkv.default", wkv),
                ({
                    "model_type": "zamba", "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 4, "attention_hidden_size": 2 * width, "intermediate_size": 128, **ids,
                }, "", "memopt.selective_scan.default", 0),
            ):  # fmt: skip
                with self.subTest(model=config["model_type"]):
                    request = Request(os.path.join(folder, "config.json"), batch=batch, seq=seq, dtype="bfloat16", for_device="h100")
                    with open(request.model, "w") as f:
                        json.dump(config, f)
                    model = model_of(request)
                    before = functions_of(model.module)
                    form = Steps(model, request, device=device_of("h100")).form(batch, seq)
                    self.assertTrue(any(n.fields["op"] == kernel for n in form.nodes))
                    self.assertEqual(before, functions_of(model.module))
                    if size:
                        self.assertEqual(size, kept_by_kernel(form, kernel, where))
                    if config["model_type"] == "mamba":
                        found = memopt.fit(request, largest=False)
                        self.assertIn("rows are gone through by the kernels of mamba-ssm and causal-conv1d", str(found))
                        with self.assertRaisesRegex(ValueError, "more than 60,000 operators.*for_device of a graphics processor, where the kernels of mamba-ssm"):
                            memopt.fit(request, for_device="torch-core")

    def test_published(self):
        """A block of GPT keeps as much as the formula says that was published for Megatron-LM, masks of dropout included."""
        width, heads, seq, batch = 256, 4, 256, 2
        config = {**GPT2, "n_embd": width, "activation_function": "gelu_pytorch_tanh"}
        square = heads * seq / width
        with tempfile.TemporaryDirectory() as folder:
            for attention, dropout, formula in ((None, 0.1, 34), ("eager", 0.1, 34 + 5 * square), (None, 0.0, 32), ("eager", 0.0, 32 + 2 * square)):
                with self.subTest(attention=attention, dropout=dropout):
                    kept = []
                    for layers in (7, 8):
                        request = Request(os.path.join(folder, "config.json"), batch=batch, seq=seq, dtype="bfloat16", attention=attention)
                        with open(request.model, "w") as f:
                            json.dump({**config, "n_layer": layers, **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)}, f)
                        line = line_of(Steps(model_of(request), request, device=device_of("h100")).graph(batch, seq))
                        kept.append(int(line.rows[ACTIVATIONS][line.step.first_backward - 1]))
                    a_block = (kept[1] - kept[0]) / (seq * batch * width)
                    self.assertGreaterEqual(a_block, formula)
                    self.assertLess(a_block, formula + 2 * 4 * 4 / width + 4 * heads / width + 0.01)  # of two norms, and of flash attention


if __name__ == "__main__":
    unittest.main()

"""memopt plan --policy: the peak and the work that it prices are those of the trainer's own checkpoints, run for real."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

import memopt
from memopt.torch.record.measure import watched

sys.path.append(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "memopt", "lab", "bench", "torch"))
from families import build  # noqa: E402

BINARY = os.environ.get("MEMOPT_TEST_BINARY", "memopt")
LAYERS = {"gpt2": "transformer.h", "llama": "model.layers", "bert": "bert.encoder.layer", "vit": "vit.layers"}


def step(model, inputs, loss):
    """The peak of a step and its work."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    with watched() as watch:
        out = model(**inputs)
        found = loss(out) if loss is not None else out.loss
        del out
        found.backward()
    model.zero_grad(set_to_none=True)
    with FlopCounterMode(display=False) as counter:
        out = model(**inputs)
        (loss(out) if loss is not None else out.loss).backward()
    return watch.peak, counter.get_total_flops()


def wrap(layer, around):
    """Runs a layer's forward under a checkpoint."""
    plain = layer.forward
    layer.forward = lambda *args, **kwargs: around(functools.partial(plain, **kwargs), *args)


def of_step(recorded, text, name):
    """What memopt plan --policy says of a file."""
    path = os.path.join(os.path.dirname(recorded), name)
    with open(path, "w") as f:
        f.write(text)
    ran = subprocess.run([BINARY, "plan", recorded, "--policy", path, "--cost", "flops", "--format", "json"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def titan():
    """torchtitan's selective checkpointing: costly operators are kept, but every second product."""
    count = {False: 0, True: 0}
    costly = {
        torch.ops.aten.mm.default,
        torch.ops.aten.addmm.default,
        torch.ops.aten.bmm.default,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    }

    def policy(ctx, op, *args, **kwargs):
        if op == torch.ops.aten.mm.default:
            count[ctx.is_recompute] += 1
            if count[ctx.is_recompute] % 2 == 0:
                return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if op in costly else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


class TestPolicies(unittest.TestCase):
    def check(self, family, text, name, around, takes=lambda i: True, part=""):
        torch.set_num_threads(1)
        model, inputs, loss = build(family)
        with tempfile.TemporaryDirectory() as folder:
            recorded = os.path.join(folder, "step.json.gz")
            memopt.record(model, inputs, loss=loss, to=recorded)
            told = of_step(recorded, text, name)
        eager, work = step(model, inputs, loss)
        for i, layer in enumerate(model.get_submodule(LAYERS[family])):
            if takes(i):
                wrap(layer.get_submodule(part), around)
        peak, more = step(model, inputs, loss)
        self.assertLess(abs(told["everything_kept"]["peak"] - eager), 0.001 * eager)
        self.assertLess(peak, 0.9 * eager)
        self.assertLess(abs(told["policy"]["peak"] - peak), 0.01 * peak)
        self.assertLess(abs(told["policy"]["overhead"] - (more / work - 1)), 0.015)  # a price counts bytes that move, too
        if told["once_nodes"]:  # a checkpoint may draw dropout's numbers again, and a plan may not
            return
        self.assertLessEqual(told["same_bytes"]["peak"], told["policy"]["peak"])
        self.assertLessEqual(told["same_bytes"]["overhead"], told["policy"]["overhead"])
        self.assertLessEqual(told["same_time"]["peak"], told["policy"]["peak"])
        self.assertLessEqual(told["same_time"]["overhead"], told["policy"]["overhead"] + 1e-6)

    def test_reentrant(self):
        self.check("llama", HF.replace("false}", "true}"), "hf.json", functools.partial(checkpoint, use_reentrant=True))

    def test_megatron_recomputes_a_part(self):
        text = "--recompute-granularity selective --recompute-modules mlp"
        self.check("llama", text, "megatron.sh", functools.partial(checkpoint, use_reentrant=True), part="mlp")

    def test_what_is_exported_is_what_is_priced(self):
        """The names that memopt export --to pytorch writes are the plan again, at its own bytes and work."""
        torch.set_num_threads(1)
        model, inputs, loss = build("llama")
        with tempfile.TemporaryDirectory() as folder:
            recorded, plan, names = (os.path.join(folder, n) for n in ("step.json.gz", "plan.json", "names.json"))
            memopt.record(model, inputs, loss=loss, to=recorded)
            for args in (["plan", recorded, "--activation-budget", "60%", "--cost", "flops", "-o", plan], ["export", plan, "--to", "pytorch", "-o", names]):
                subprocess.run([BINARY, *args, "-q"], check=True, capture_output=True)
            with open(names) as f, open(plan) as g:
                told, made = of_step(recorded, f.read(), "again.json"), json.load(g)
        self.assertEqual(told["policy"]["recomputed_nodes"], made["result"]["recomputed_nodes"])
        self.assertAlmostEqual(told["policy"]["overhead"], made["result"]["overhead"])
        self.assertLessEqual(told["policy"]["peak"], 1.02 * made["result"]["peak"])


HF = '{"gradient_checkpointing": true, "gradient_checkpointing_kwargs": {"use_reentrant": false}}'
for _family in LAYERS:
    setattr(
        TestPolicies, f"test_{_family}_each_layer", lambda self, f=_family: self.check(f, HF, "hf.json", functools.partial(checkpoint, use_reentrant=False))
    )
    setattr(
        TestPolicies,
        f"test_{_family}_every_second_layer",
        lambda self, f=_family: self.check(
            f, HF.replace("false}", 'false, "every_n_layers": 2}'), "hf.json", functools.partial(checkpoint, use_reentrant=False), lambda i: i % 2 == 0
        ),
    )
    setattr(
        TestPolicies,
        f"test_{_family}_selective",
        lambda self, f=_family: self.check(
            f,
            '[activation_checkpoint]\nmode = "selective"\n',
            "titan.toml",
            functools.partial(checkpoint, use_reentrant=False, context_fn=titan, early_stop=False),
        ),
    )


if __name__ == "__main__":
    unittest.main()

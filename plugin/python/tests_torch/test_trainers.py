"""The trainers that people use, with memopt in them: the same losses and weights, within the budget."""

from __future__ import annotations

import copy
import logging
import os
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch.record.measure import watched

sys.path.append(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "memopt", "lab", "bench", "torch"))
import families  # noqa: E402

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

import lightning  # noqa: E402, I001
import peft  # noqa: E402
import transformers  # noqa: E402
from accelerate import Accelerator  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


class Case(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def same(self, a, b):
        a, b = a.state_dict(), b.state_dict()
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.assertTrue(torch.equal(a[name], b[name]), name)

    def within(self, peak, report):
        self.assertGreater(report.plan.result.recomputed_nodes, 0, "nothing was planned")
        promised, eager = report.promised_peak - report.counted, report.eager_peak - report.counted
        self.assertLessEqual(peak, promised + 0.001 * promised + 64 * 1024)
        self.assertLess(peak, eager)


class Text(torch.utils.data.Dataset):
    def __init__(self, rows=40):
        self.tokens = torch.randint(3, 500, (rows, 128), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


class Trainer(transformers.Trainer):
    """Measures its last step."""

    peak = 0

    def training_step(self, *args, **kwargs):
        if self.state.global_step < self.state.max_steps - 1:
            return super().training_step(*args, **kwargs)
        with watched() as watch:
            loss = super().training_step(*args, **kwargs)
        self.peak = watch.peak
        return loss


class TestHuggingFace(Case):
    def train(self, callback=None, model=None, steps=3, resume=None, **settings):
        model = model or families.build("llama").module
        args = transformers.TrainingArguments(
            output_dir=self.folder, max_steps=steps, use_cpu=True, report_to=[], logging_steps=1, disable_tqdm=True, log_level="error",
            dataloader_pin_memory=False, **({"save_strategy": "no", "per_device_train_batch_size": 2} | settings),
        )  # fmt: skip
        trainer = Trainer(model, args, train_dataset=Text(), eval_dataset=Text(4), callbacks=[callback] if callback else [])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    def losses(self, trainer):
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    def check(self, make=lambda: None, budget="60%", within=True, **settings):
        plain = self.train(model=make(), **settings)
        callback = memopt.TrainerCallback(activation_budget=budget)
        planned = self.train(callback, model=make(), **settings)
        self.assertEqual(self.losses(planned), self.losses(plain))
        self.same(planned.model, plain.model)
        self.assertIsNone(memopt.torch.report(planned.model), "the model is as it was before")
        if within:
            self.within(planned.peak, callback.report)
            self.assertLess(planned.peak, plain.peak)
        return callback.report, planned

    def test_three_steps(self):
        report, trainer = self.check(within=False, steps=5)
        self.within(report.measured_peak, report)
        logged = [entry for entry in trainer.state.log_history if "memopt_promised_peak" in entry]
        self.assertEqual(logged[0]["memopt_promised_peak"], report.promised_peak)
        self.assertEqual(logged[0]["memopt_eager_peak"], report.eager_peak)
        self.assertEqual(logged[-1]["memopt_measured_peak"], report.measured_peak)

    def test_settings(self):
        """What people set, each alone."""
        for settings in (
            {"gradient_accumulation_steps": 2, "budget": "75%"},
            {"bf16": True, "budget": "70%"},
            {"label_smoothing_factor": 0.1, "budget": "75%"},  # the loss is outside the model
            {"eval_strategy": "steps", "eval_steps": 1},
            {"max_grad_norm": 0.1},
        ):
            with self.subTest(**settings):
                self.check(**settings)

    def test_dropout(self):
        self.check(lambda: families.build("gpt2").module)

    def test_whole_budget(self):
        """budget counts the optimizer's states, which are there only after the first step."""
        callback = memopt.TrainerCallback("80%")
        trainer = self.train(callback)
        self.within(trainer.peak, callback.report)
        parameters = sum(p.nbytes for p in trainer.model.parameters())
        self.assertGreaterEqual(callback.report.fixed, 3 * parameters)
        self.assertLessEqual(trainer.peak + callback.report.fixed, 0.8 * callback.report.eager_peak + 64 * 1024)
        # Nobody knows what this optimizer keeps before it has done so: the plan is made behind its first step.
        callback = memopt.TrainerCallback("80%")
        trainer = self.train(callback, optim="adafactor", steps=4)
        self.within(trainer.peak, callback.report)
        self.same(trainer.model, self.train(optim="adafactor", steps=4).model)

    def test_sample(self):
        """With a sample nothing has been trained when the plan is refused, and the first step is planned."""
        batch = {k: torch.stack([Text()[i][k] for i in range(2)]) for k in ("input_ids", "labels")}
        model = families.build("llama").module
        with self.assertRaises(memopt.BudgetError) as raised:
            self.train(memopt.TrainerCallback(activation_budget=2**20, sample=batch), model)
        self.assertIsNotNone(raised.exception.floor)
        self.same(model, families.build("llama").module)
        self.assertNotIn("forward", model.__dict__)

    def test_infeasible(self):
        model = families.build("llama").module
        with self.assertRaises(memopt.BudgetError):
            self.train(memopt.TrainerCallback(activation_budget=2**20), model)
        self.same(model, families.build("llama").module)
        self.assertNotIn("forward", model.__dict__)

    def test_out_of_memory(self):
        """An error of memory in a step says which tensor of which module did not fit, who held what, and what would fit."""
        model = families.build("llama").module
        callback = memopt.TrainerCallback("1GiB")
        mlp, calls = model.model.layers[2].mlp, []
        plain = mlp.forward

        def forward(x):
            calls.append(x)
            if len(calls) == 3:
                free = int(0.6 * (callback.report.eager_peak - callback.report.fixed))
                patched = mock.patch("memopt.torch.plan.budget._machine", return_value=(free, 2 * free))
                patched.start()
                self.addCleanup(patched.stop)
                raise torch.OutOfMemoryError("CUDA out of memory")
            return plain(x)

        mlp.forward = forward
        with self.assertRaises(torch.OutOfMemoryError) as raised:
            self.train(callback, model, steps=4)
        told = raised.exception.memopt
        self.assertEqual(raised.exception.__notes__, [f"memopt: {told}"])
        self.assertRegex(told.ran_out.module, r"^model\.layers\.\d\.")
        self.assertIn("model.layers.*", {h.module for h in told.ran_out.held})
        self.assertGreaterEqual(len(told.changes), 2)

    def test_resume(self):
        """Two steps, a checkpoint, two more: the weights of four."""
        want = self.train(steps=4)
        self.train(memopt.TrainerCallback(activation_budget="60%"), steps=4, save_strategy="steps", save_steps=2)
        saved = os.path.join(self.folder, "checkpoint-2")
        self.assertEqual(set(families.build("llama").module.state_dict()), set(transformers.AutoModelForCausalLM.from_pretrained(saved).state_dict()))
        callback = memopt.TrainerCallback(activation_budget="60%")
        resumed = self.train(callback, steps=4, resume=saved)
        self.same(resumed.model, want.model)
        self.assertEqual(self.losses(resumed), self.losses(want))
        self.within(resumed.peak, callback.report)

    def test_gradient_checkpointing(self):
        callback = memopt.TrainerCallback(activation_budget="60%")
        with self.assertWarnsRegex(UserWarning, "gradient_checkpointing=True.*it is off.*Leave it out"):
            trainer = self.train(callback, gradient_checkpointing=True)
        self.within(trainer.peak, callback.report)
        self.same(trainer.model, self.train().model)
        self.assertTrue(trainer.model.is_gradient_checkpointing, "as it was before")

    def test_auto_find_batch_size(self):
        """The batch is found before a step has run, and its steps are planned."""
        model = families.build("llama").module
        model.eval()  # as from_pretrained leaves it
        ran = []
        model.register_forward_pre_hook(lambda module, args, kwargs: ran.append(len(kwargs["input_ids"])), with_kwargs=True)
        callback = memopt.TrainerCallback(activation_budget="10MiB")
        trainer = self.train(callback, model, per_device_train_batch_size=16, auto_find_batch_size=True, steps=2)
        self.assertLess(ran[-1], 16)
        self.assertGreater(trainer.peak, 0.75 * 10 * 2**20, "a larger batch would have fitted")
        self.assertLessEqual(trainer.peak, 10 * 2**20 + 64 * 1024)
        self.assertGreater(callback.report.plan.result.recomputed_nodes, 0)

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "torch_compile=True"):
            self.train(memopt.TrainerCallback("80%"), torch_compile=True)
        with self.assertRaisesRegex(TypeError, "reads the norm"):
            memopt.TrainerCallback("80%", optimizer_in_backward=True)

    def test_lora(self):
        """Frozen weights have no gradients, and adapters are saved as they are without memopt."""

        def make():
            torch.manual_seed(1)
            return peft.get_peft_model(families.build("llama").module, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.1))

        report, trainer = self.check(make)
        self.assertLess(report.promised_peak, 0.6 * report.eager_peak + 1)
        trainer.model.save_pretrained(self.folder)
        again = peft.PeftModel.from_pretrained(families.build("llama").module, self.folder)
        self.same(again, trainer.model)


class Int8(nn.Linear):
    """A frozen layer of 8-bit weights, made floats in the forward pass, where autograd keeps them."""

    def __init__(self, layer):
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        self.register_buffer("scale", layer.weight.detach().abs().amax(1, keepdim=True) / 127)
        self.weight = nn.Parameter((layer.weight.detach() / self.scale).round().to(torch.int8), requires_grad=False)

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


class Dequantized(torch.autograd.Function):
    """As libraries of quantized layers do: the backward pass makes the floats again itself."""

    @staticmethod
    def forward(ctx, x, weight, scale):
        ctx.save_for_backward(weight, scale)
        return x @ (weight * scale).t()

    @staticmethod
    def backward(ctx, grad):
        weight, scale = ctx.saved_tensors
        return grad @ (weight * scale), None, None


class Int8Function(Int8):
    def forward(self, x):
        return Dequantized.apply(x, self.weight, self.scale)


class TestQuantized(Case):
    def test_lora(self):
        """Adapters over frozen 8-bit weights, at 60 % and near the floor, whose first step is recorded within the budget."""
        for kind in (Int8, Int8Function):
            torch.manual_seed(0)
            model, inputs, _ = families.build("llama")
            for module in list(model.model.modules()):
                for name, child in list(module.named_children()):
                    if type(child) is nn.Linear:
                        setattr(module, name, kind(child))
            model = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.1)).train()

            def step(model=model, inputs=inputs):
                model.zero_grad()
                torch.manual_seed(3)
                with watched() as watch:
                    model(**inputs).loss.backward()
                return watch.peak, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

            eager, want = step()
            for share in (0.6, 0.35):
                with self.subTest(kind.__name__, share=share):
                    memopt.optimize(model, activation_budget=int(share * eager))
                    for _ in range(2):  # recorded, planned
                        model.zero_grad()
                        torch.manual_seed(3)
                        model(**inputs).loss.backward()
                        for name, grad in want.items():
                            self.assertTrue(torch.equal(model.get_parameter(name).grad, grad), name)
                    peak, got = step()
                    self.assertTrue(all(torch.equal(got[name], want[name]) for name in want))
                    self.assertLessEqual(peak, share * eager + 64 * 1024)


class TestAccelerate(Case):
    def run_steps(self, order, **settings):
        family = families.build("gpt2")
        model, optimizer = family.module, torch.optim.AdamW(family.module.parameters(), lr=1e-3)
        accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
        if order == "before":
            memopt.optimize(model, activation_budget="75%", optimizer=optimizer)
        model, optimizer = accelerator.prepare(model, optimizer)
        if order == "after":
            memopt.optimize(model, activation_budget="75%", optimizer=optimizer)
        torch.manual_seed(5)
        losses = []
        for _ in range(4):
            with accelerator.accumulate(model):
                loss = model(**family.inputs).loss
                accelerator.backward(loss)
                losses.append(loss.item())
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        return accelerator, model, losses

    def test_orders(self):
        """memopt.optimize before and after accelerator.prepare, which puts autocast around forward."""
        _, plain, want = self.run_steps("none")
        for order in ("before", "after"):
            with self.subTest(order=order):
                accelerator, model, losses = self.run_steps(order)
                report = memopt.torch.report(model)
                self.assertGreater(report.plan.result.recomputed_nodes, 0)
                self.assertGreater(report.fixed, 3 * sum(p.nbytes for p in model.parameters()) - 1)
                self.assertEqual(losses, want)
                self.same(accelerator.unwrap_model(model), plain)
                memopt.restore(model)
                self.assertIsNone(memopt.torch.report(model))
                self.assertEqual(model(**families.build("gpt2").inputs).loss.dtype, torch.float32)

    def test_copy(self):
        """A copy of a prepared model is planned with its own weights."""
        _, model, _ = self.run_steps("after")
        twin = copy.deepcopy(model)
        with torch.no_grad():
            for p in twin.parameters():
                p.zero_()
        loss = twin(**families.build("gpt2").inputs).loss
        self.assertAlmostEqual(loss.item(), torch.log(torch.tensor(1000.0)).item(), places=2)


class Lit(lightning.LightningModule):
    """Calls its children one by one in training_step; its forward is never called."""

    def __init__(self):
        super().__init__()
        self.body = families.build("convnext").module
        self.head = nn.Linear(10, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.head(F.gelu(self.body(x))), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("validation_loss", F.cross_entropy(self.head(self.body(x)), y))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Manual(Lit):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        x, y = batch
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.cross_entropy(self.head(self.body(x)), y))
        optimizer.step()


class Peak(lightning.Callback):
    """Measures the last step."""

    def __init__(self, steps):
        self.last, self.value = steps - 1, 0

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx == self.last:
            self.block = watched()
            self.watch = self.block.__enter__()

    def on_after_backward(self, trainer, pl_module):
        if trainer.fit_loop.epoch_loop.batch_idx == self.last:
            self.block.__exit__(None, None, None)
            self.value = self.watch.peak


class TestLightning(Case):
    def fit(self, callback=None, cls=Lit, steps=3, resume=None, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lightning.seed_everything(1, verbose=False)
            module, peak = cls(), Peak(steps)
            g = torch.Generator().manual_seed(0)
            data = torch.utils.data.TensorDataset(torch.randn(24, 3, 64, 64, generator=g), torch.randint(0, 10, (24,), generator=g))
            loader = torch.utils.data.DataLoader(data, batch_size=4)
            trainer = lightning.Trainer(
                max_steps=steps, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
                callbacks=[*([callback] if callback else []), peak], **settings,
            )  # fmt: skip
            trainer.fit(module, loader, loader, ckpt_path=resume)
        return module, trainer, peak.value

    def check(self, module=None, **settings):
        plain, _, _ = self.fit(**settings)
        callback = memopt.lightning.MemoptCallback(activation_budget="80%", module=module)
        planned, trainer, peak = self.fit(callback, **settings)
        self.same(planned, plain)
        self.assertFalse({"training_step", "log"} & set(planned.__dict__), "the module is as it was before")
        return callback.report, trainer, peak

    def test_three_steps(self):
        report, trainer, peak = self.check()
        self.within(peak, report)
        self.assertEqual(trainer.callback_metrics["memopt_promised_peak"], report.promised_peak)
        self.assertIn("train_loss", trainer.callback_metrics)

    def test_settings(self):
        for settings in ({"precision": "bf16-mixed"}, {"gradient_clip_val": 0.1}, {"module": "body"}):
            with self.subTest(**settings):
                report, _, peak = self.check(**settings)
                self.within(peak, report)
        with self.subTest("accumulation"):
            self.check(accumulate_grad_batches=2)

    def test_resume(self):
        """Two steps, a checkpoint, two more. Lightning does not restore the random state, with and without memopt."""
        saved = os.path.join(self.folder, "saved.ckpt")
        self.fit(steps=2)[1].save_checkpoint(saved)
        want, _, _ = self.fit(steps=4, resume=saved)
        self.fit(memopt.lightning.MemoptCallback(activation_budget="80%"), steps=2)[1].save_checkpoint(saved)
        self.assertEqual(set(torch.load(saved, weights_only=True)["state_dict"]), set(want.state_dict()))
        callback = memopt.lightning.MemoptCallback(activation_budget="80%")
        resumed, _, peak = self.fit(callback, steps=4, resume=saved)
        self.within(peak, callback.report)
        self.same(resumed, want)

    def test_manual_optimization(self):
        """A training_step that starts the backward pass itself: a child is planned."""
        with self.assertRaisesRegex(ValueError, "'body', 'head'"):
            self.fit(memopt.lightning.MemoptCallback("80%"), cls=Manual)
        report, _, _ = self.check(module="body", cls=Manual)
        self.assertGreater(report.plan.result.recomputed_nodes, 0)

    def test_exception(self):
        class Broken(Lit):
            def on_train_batch_end(self, *args):
                raise KeyError("broken")

        module = None

        class Keep(lightning.Callback):
            def on_train_start(self, trainer, pl_module):
                nonlocal module
                module = pl_module

        with self.assertRaises(KeyError):
            self.fit(memopt.lightning.MemoptCallback("80%"), cls=Broken)
        self.fit(Keep())
        self.assertNotIn("training_step", module.__dict__)

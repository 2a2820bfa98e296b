"""memopt.Module in the trainers that people use: the losses of the module itself, whatever the loop does."""

from __future__ import annotations

import copy
import json
import logging
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import lightning
import torch
import transformers
from accelerate import Accelerator
from torch import nn

import memopt
from served import Served

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

HERE = os.path.dirname(os.path.abspath(__file__))
WITHIN = 1e-3


def llama(layers=2):
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=layers, vocab_size=120, bos_token_id=1, eos_token_id=2, pad_token_id=0, **shape))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))


class Text(torch.utils.data.Dataset):
    """Rows of one length, or of several."""

    def __init__(self, lengths):
        torch.manual_seed(1)
        self.rows = [torch.randint(3, 120, (n,)) for n in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i]}


def padded(rows):
    """Batches as long as their longest row."""
    n = max(len(r["input_ids"]) for r in rows)
    tokens, mask, labels = torch.zeros(len(rows), n, dtype=torch.long), torch.zeros(len(rows), n, dtype=torch.long), torch.full((len(rows), n), -100)
    for i, r in enumerate(rows):
        k = len(r["input_ids"])
        tokens[i, :k], mask[i, :k], labels[i, :k] = r["input_ids"], 1, r["input_ids"]
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


class Case(Served):
    device = "cpu"

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def served(self, model, loss=None, **settings):
        made = memopt.Module(model, loss, **{"device": self.device, "fallback": "raise", **settings})
        self.addCleanup(made.close)
        return made

    def close_to(self, got, want):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want, strict=True):
            self.assertLess(abs(a - b), WITHIN * max(1, abs(b)))

    def on_device(self, module):
        self.assertEqual(module.report.device, self.device)


class TestHuggingFace(Case):
    def trainer(self, model, lengths=(24,) * 32, **settings):
        args = transformers.TrainingArguments(
            output_dir=os.path.join(self.folder, type(model).__name__), use_cpu=True, report_to=[], logging_steps=1, disable_tqdm=True, log_level="error", learning_rate=1e-2,
            dataloader_pin_memory=False, **({"max_steps": 4, "save_strategy": "no", "per_device_train_batch_size": 4} | settings),
        )  # fmt: skip
        trainer = transformers.Trainer(model, args, train_dataset=Text(lengths), eval_dataset=Text(lengths[:4]), data_collator=padded)
        trainer.remove_callback(transformers.PrinterCallback)
        return trainer

    def losses(self, trainer):
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry] + [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]

    def check(self, lengths=(24,) * 32, budget="80%", **settings):
        warnings.simplefilter("ignore")  # of the trainer; a module that falls back raises
        plain, module = self.trainer(llama(), lengths, **settings), self.served(llama(), budget=budget)
        served = self.trainer(module, lengths, **settings)
        plain.train(), served.train()
        self.close_to(self.losses(served), self.losses(plain))
        self.on_device(module)
        self.assertLess(module.report.promised_peak, module.report.kept_peak)
        self.assertEqual(module.report.measured_peak, module.report.promised_peak)
        return served, plain

    def test_as_it_is(self):
        """Steps, evaluation, and the text that the trained model writes."""
        served, plain = self.check(eval_strategy="steps", eval_steps=2)
        prompt = torch.tensor([[5, 6, 7]])
        text = [t.model.eval().generate(prompt, max_new_tokens=6, do_sample=False).tolist() for t in (served, plain)]
        self.assertEqual(*text)
        self.assertEqual(set(served._signature_columns), set(plain._signature_columns))
        self.assertEqual(served.label_names, plain.label_names)

    def test_accumulation_and_lengths(self):
        """Padded batches of several lengths, two of them for an update, clipped."""
        self.check([8, 11, 16, 9, 21, 13, 24, 10] * 4, gradient_accumulation_steps=2, max_grad_norm=0.1, max_steps=3)

    def test_checkpoint(self):
        """A checkpoint is that of the model: it is resumed with the wrapper and without."""
        settings = {"save_strategy": "steps", "save_steps": 2}
        served, plain = self.check(**settings)
        at = os.path.join(served.args.output_dir, "checkpoint-2")
        self.assertIn("config.json", os.listdir(at))
        transformers.AutoModelForCausalLM.from_pretrained(at)
        module = self.served(llama())
        for model in (module, llama()):
            again = self.trainer(model, **settings)
            again.train(resume_from_checkpoint=at)
            self.assertEqual(again.state.global_step, 4)
            self.close_to(self.losses(again)[-2:], self.losses(plain)[-2:])
        self.on_device(module)


class TestLightning(Case):
    def fit(self, module, accumulate=1):
        class Task(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net, self.losses = module, []

            def training_step(self, batch, index):
                loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
                self.losses.append(loss.item())
                return loss

            def validation_step(self, batch, index):
                self.losses.append(nn.functional.cross_entropy(self.net(batch[0]), batch[1]).item())

            def configure_optimizers(self):
                return torch.optim.AdamW(self.net.parameters(), 1e-2)

        torch.manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(48, 16), torch.randint(0, 4, (48,)))
        loader = torch.utils.data.DataLoader(data, batch_size=8)
        task = Task()
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=self.folder,
            gradient_clip_val=0.5, accumulate_grad_batches=accumulate,
        )  # fmt: skip
        trainer.fit(task, loader, loader)
        trainer.save_checkpoint(os.path.join(self.folder, "last.ckpt"))
        return task, torch.load(os.path.join(self.folder, "last.ckpt"), weights_only=True)["state_dict"]

    def test_fit(self):
        warnings.simplefilter("ignore")
        for accumulate in (1, 2):
            module = self.served(net())
            (served, saved), (plain, want) = self.fit(module, accumulate), self.fit(net(), accumulate)
            self.close_to(served.losses, plain.losses)
            self.assertEqual(saved.keys(), want.keys())
            for name in want:
                torch.testing.assert_close(saved[name], want[name], rtol=1e-3, atol=1e-4)
            self.on_device(module)

    def test_whole_task(self):
        """Lightning calls training_step, which the wrapper has no part in: it is refused, not trained without a plan."""

        class Task(lightning.LightningModule):
            def training_step(self, batch, index):
                return batch.sum()

        with self.assertRaisesRegex(TypeError, "LightningModule"):
            lightning.Trainer(max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False).fit(memopt.Module(Task()))


class TestAccelerate(Case):
    def train(self, model):
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        torch.manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(48, 16), torch.randint(0, 4, (48,)))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
        losses = []
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        accelerator.save_state(self.folder)
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        accelerator.load_state(self.folder)
        return losses, {name: t.clone() for name, t in accelerator.unwrap_model(model).state_dict().items()}

    def test_loop(self):
        module = self.served(net())
        (losses, state), (want, plain) = self.train(module), self.train(net())
        self.close_to(losses, want)
        for name in plain:
            torch.testing.assert_close(state[name], plain[name], rtol=1e-3, atol=1e-4)
        self.on_device(module)


class TestPlain(Case):
    def test_own_loop(self):
        """Lengths that vary, accumulation, clipping, evaluation in between, a checkpoint in the middle."""
        module, plain = self.served(llama(), budget="85%"), llama()
        losses = {}
        for name, model in (("served", module), ("plain", plain)):
            optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
            found = losses[name] = []
            for step, n in enumerate([12, 20, 12, 17, 24, 9, 20, 12]):
                batch = padded(list(Text([n] * 4)))
                loss = model(**batch).loss
                loss.backward()
                found.append(loss.item())
                if step % 2:
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                    optimizer.step()
                    optimizer.zero_grad()
                if step == 3:
                    path = os.path.join(self.folder, name)
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
                    with torch.no_grad():
                        for p in model.parameters():
                            p.add_(1.0)
                    kept = torch.load(path, weights_only=True)
                    model.load_state_dict(kept["model"])
                    optimizer.load_state_dict(kept["optimizer"])
                    model.eval()
                    with torch.no_grad():
                        found.append(model(**batch).loss.item())
                    model.train()
        self.close_to(losses["served"], losses["plain"])
        self.on_device(module)

    def test_looks(self):
        """Trainers ask a module for its class and its signature; type() tells the wrapper from the model."""
        module = memopt.Module(llama())
        self.assertIsInstance(module, transformers.PreTrainedModel)
        self.assertIsInstance(module, memopt.Module)
        self.assertIs(type(module), memopt.Module)
        self.assertTrue(callable(type(module).forward))
        self.assertIs(type(copy.deepcopy(module)), memopt.Module)
        with self.assertRaisesRegex(TypeError, "memopt.optimize"):
            module.__class__ = nn.Linear


@unittest.skipUnless(any(d["kind"] == "vulkan" for d in memopt.info()["devices"]), "there is no Vulkan device")
class OnVulkan(TestHuggingFace, TestLightning, TestAccelerate, TestPlain):
    device = "vulkan"


_RANKS = """
import os, sys, json, warnings, torch, torch.distributed as dist, memopt
from torch.nn.parallel import DistributedDataParallel
from datetime import timedelta
from test_module_trainers import net
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", rank=rank, world_size=2, init_method="file://" + sys.argv[1] + "/meet", timeout=timedelta(seconds=120))
losses = {}
for name in ("served", "plain"):
    model = net()
    model = DistributedDataParallel(memopt.Module(model, device="cpu", fallback="raise") if name == "served" else model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses[name] = []
    for step in range(4):
        torch.manual_seed(10 * step + rank)
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        with model.no_sync() if step % 2 else torch.enable_grad():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
        losses[name].append(loss.item())
        if step % 2 == 0:
            optimizer.step(); optimizer.zero_grad()
    losses[name].append(sum(p.double().sum().item() for p in model.parameters()))
try:
    memopt.Module(net(), "cross-entropy", mode="resident", optimizer="sgd", fallback="raise").step(x, y)
except memopt.MemoptError as e:
    losses["resident"] = str(e)
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as f:
    json.dump(losses, f)
dist.destroy_process_group()
"""


class TestRanks(Case):
    def test_data_parallel(self):
        """Two ranks, each with a service of its own: gradients are reduced as ever. Weights that live in a service would not be, which is refused."""
        env = {**os.environ, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", ""), os.path.dirname(HERE)])}
        ranks = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", _RANKS, self.folder], env={**env, "RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(2)]
        said = [r.communicate(timeout=240)[0] for r in ranks]
        for rank in range(2):
            self.assertEqual(ranks[rank].returncode, 0, said[rank])
            with open(os.path.join(self.folder, f"{rank}.json")) as f:
                found = json.load(f)
            self.close_to(found["served"], found["plain"])
            self.assertRegex(found["resident"], "memopt.optimize|bridge")


if __name__ == "__main__":
    unittest.main()

"""Verdicts on the switches of trainers' configs."""

from __future__ import annotations

import json
import os
import unittest
from dataclasses import replace

import torch
from test_fit import LLAMA, InFolder

import memopt
from memopt.torch.fit.config import read
from memopt.torch.fit.devices import device_of
from memopt.torch.fit.fit import fit_of
from memopt.torch.fit.request import Request
from memopt.torch.fit.switches import configured, switches_of, unknown_of
from memopt.torch.fit.verdict import Judge

ARGUMENTS = {
    "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "optim": "adamw_bnb_8bit", "bf16": True, "gradient_checkpointing": True,
    "gradient_checkpointing_kwargs": {"use_reentrant": False}, "torch_empty_cache_steps": 4, "max_length": 64, "output_dir": "x", "eval_accumulation_steps": 3,
}  # fmt: skip
FILES = {
    "training.json": json.dumps(ARGUMENTS),
    "deepspeed.json": json.dumps({
        "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": True}, "gradient_accumulation_steps": "auto",
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "overlap_comm": True},
    }),
    "accelerate.yaml": "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_offload_params: true\n  fsdp_auto_wrap_policy: X\n  fsdp_activation_checkpointing: true\n",
    "axolotl.yaml": "base_model: x/y\nsequence_len: 128\nmicro_batch_size: 2\noptimizer: paged_adamw_8bit\nbf16: auto\nadapter: lora\nlora_r: 8\nlora_alpha: 16\ngradient_checkpointing: true\n"
    "activation_offloading: true\nsample_packing: true\nflash_attention: true\ncut_cross_entropy: true\nchunked_something: 3\n",
    "torchtune.yaml": "model:\n  _component_: m\n  lora_rank: 4\ntokenizer:\n  max_seq_len: 128\ndataset:\n  packed: true\nbatch_size: 2\noptimizer:\n  _component_: bitsandbytes.optim.PagedAdamW8bit\n  lr: 1\n"
    "loss:\n  num_output_chunks: 8\ngradient_accumulation_steps: 8\nenable_activation_checkpointing: true\nenable_activation_offloading: false\ndtype: bf16\ncompile: false\n",
    "torchtitan.toml": "[optimizer]\nname = 'AdamW'\n[training]\nlocal_batch_size = 2\nseq_len = 128\nmixed_precision_param = 'bfloat16'\n[parallelism]\ndata_parallel_shard_degree = 4\ntensor_parallel_degree = 1\npipeline_parallel_degree = 2\n"
    "pipeline_parallel_schedule = 'Interleaved1F1B'\nexpert_parallel_degree = 2\n[activation_checkpoint]\nmode = 'selective'\n",
}  # fmt: skip
SAYS = {
    "training.json": ({"batch": 4, "accumulate": 2, "optimizer": "adamw8bit", "autocast": "bfloat16", "seq": 64}, ["accumulate", "batch", "cache", "checkpointing", "optimizer", "precision", "seq"], []),
    "deepspeed.json": ({"dtype": "bfloat16", "shard": "zero2"}, ["precision", "shard", "states elsewhere"], []),
    "accelerate.yaml": ({"autocast": "bfloat16", "ranks": 8, "shard": "fsdp2"}, ["checkpointing", "precision", "ranks", "shard", "weights elsewhere"], []),
    "axolotl.yaml": (
        {"batch": 2, "seq": 128, "optimizer": "adamw8bit", "dtype": "bfloat16", "lora": 8},
        ["activations elsewhere", "batch", "checkpointing", "fused loss", "lora", "optimizer", "packing", "precision", "seq"], ["chunked_something=3"],
    ),
    "torchtune.yaml": (
        {"batch": 2, "seq": 128, "accumulate": 8, "optimizer": "adamw8bit", "dtype": "bfloat16", "lora": 4},
        ["accumulate", "batch", "checkpointing", "fused loss", "lora", "optimizer", "packing", "precision", "seq"], [],
    ),
    "torchtitan.toml": ({"batch": 2, "seq": 128, "optimizer": "adamw", "param_dtype": "bfloat16", "ranks": 8, "pipeline": 2, "schedule": "interleaved", "expert": 2}, ["batch", "checkpointing", "optimizer", "precision", *["ranks"] * 4, "seq"], []),
}  # fmt: skip


class TestConfigs(InFolder):
    def test_read(self):
        """Each trainer's file is one list of switches, and what may matter and is not known is named."""
        for name, text in FILES.items():
            with self.subTest(file=name):
                path = self.config(text, name)
                fields, kinds, unknown = SAYS[name]
                self.assertEqual(configured({"model": "m", "config": path}), {"model": "m", "config": (path,), **fields})
                self.assertEqual(sorted(s.kind for s in switches_of([read(path)])), kinds)
                self.assertEqual(list(unknown_of([read(path)])), unknown)

    def test_several(self):
        """TrainingArguments beside accelerate's or DeepSpeed's file; what is given counts above them."""
        paths = ",".join(self.config(FILES[n], n) for n in ("training.json", "deepspeed.json"))
        found = configured({"model": "m", "config": paths, "batch": 1})
        self.assertEqual((found["batch"], found["seq"], found["shard"], found["dtype"]), (1, 64, "zero2", "bfloat16"))

    def test_shards(self):
        """FSDP's ways are words, a list of them, or accelerate's numbers."""
        for text, shard in (
            ("fsdp: full_shard auto_wrap", "fsdp2"), ("fsdp: [auto_wrap, shard_grad_op]", "zero2"), ("fsdp: true", None), ("fsdp: ''", None), ("fsdp: [no_shard]", "ddp"),
            ("fsdp_config: {fsdp_sharding_strategy: 1}", "fsdp2"), ("fsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}", "zero2"), ("zero_optimization: {stage: 1}", "zero1"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(configured({"config": self.config(text, "shards.yaml")}).get("shard"), shard)

    def test_wrong(self):
        """One error that names the key and the file."""
        for name, text, says in (
            ("a.json", '{"per_device_train_batch_size": "four"}', "a.json: per_device_train_batch_size is 'four'; it is a whole number from 1 on"),
            ("b.json", '{"bf16": "perhaps"}', "b.json: bf16 is 'perhaps'; it is true or false"),
            ("c.json", '{"zero_optimization": {"stage": 4}}', "c.json: zero_optimization.stage is 4; there are stages 0, 1, 2 and 3"),
            ("a.json", '{"gradient_accumulation_steps": 0}', "a.json: gradient_accumulation_steps is 0; it is a whole number from 1 on"), ("a.yaml", "num_processes: 0", "a.yaml: num_processes is 0; it is"),
            ("a.json", '{"fp16": true, "bf16": true}', "a.json: bf16 is True; fp16 is, too"), ("t.toml", "training = 3", "t.toml: training is 3; it has keys of its own"),
            ("c.json", '{"zero_optimization": 3}', "c.json: zero_optimization is 3; it has keys of its own, as {\"stage\": 3}"),
            ("c.json", '{"zero_optimization": {"stage": 3, "offload_param": "cpu"}}', "c.json: zero_optimization.offload_param is 'cpu'; it has keys of its own"),
            ("c.json", '{"fsdp_config": "fsdp.json"}', "c.json: fsdp_config is 'fsdp.json'; it has keys of its own"),
            ("c.json", '{"fsdp": 3}', "c.json: fsdp is 3; there are full_shard, "),
            ("c.json", '{"fsdp": {"full_shard": true}}', "c.json: fsdp is {'full_shard': True}; it is true, or names as \"full_shard auto_wrap\""),
            ("c.yaml", "fsdp: [full_shart, auto_wrap]\n", "c.yaml: fsdp is ['full_shart', 'auto_wrap']; there are full_shard, "),
            ("c.yaml", "fsdp_config:\n  fsdp_sharding_strategy: ALL\n", "c.yaml: fsdp_config.fsdp_sharding_strategy is 'ALL'; there are full_shard, "),
            ("d.yaml", "dtype: int3\n", "d.yaml: dtype is 'int3'; there are "),
            ("e.yaml", "a: [1\n", "e.yaml:2:1: is no YAML"),
            ("f.json", "{\n 'a': 1}", "f.json:2:2: is no JSON"),
            ("g.toml", "a = \n", "g.toml: is no TOML"),
            ("h.yaml", "- a\n", "h.yaml: has no keys at its top"),
            ("i.yaml", "\xff\n", ""),
        ):
            with self.subTest(file=name):
                path = self.config(text, name)
                if not says:
                    with open(path, "wb") as f:
                        f.write(b"\xff\xfe\xff")
                    says = "i.yaml: is no text"
                with self.assertRaises(ValueError) as caught:
                    configured({"config": path})
                self.assertIn(says, str(caught.exception))
        with self.assertRaisesRegex(ValueError, "nowhere.yaml: No such file"):
            configured({"config": os.path.join(self.folder, "nowhere.yaml")})
        model, path = self.config(LLAMA), self.config('{"gradient_checkpointing": true, "gradient_checkpointing_kwargs": {"every_n_layers": "two"}}', "k.json")
        with self.assertRaisesRegex(ValueError, "k.json: gradient_checkpointing_kwargs.every_n_layers is two; it is a whole number"):
            memopt.fit(model, config=path, batch=1, seq=32, for_device="torch-core")

    def test_keys_without_a_value(self):
        """A key that is there without a value is as one that is not there."""
        found = configured({"config": self.config("base_model: x\nmicro_batch_size: 2\nsequence_len:\nlora_r: ~\ngradient_accumulation_steps: null\nfp16:\nbf16: auto\n", "axolotl.yaml")})
        self.assertEqual({k: v for k, v in found.items() if k != "config"}, {"batch": 2, "dtype": "bfloat16"})

    def test_verdicts(self):
        """What each switch buys is the difference of two steps on paper, and checkpoints are priced as a step with them is recorded."""
        path = self.config(ARGUMENTS | {"bf16": False, "packing": True, "fsdp": "full_shard", "use_liger_kernel": True}, "training.json")
        answer = memopt.fit(self.config(LLAMA), config=path, for_device="torch-core", budget="1GiB", largest=False)
        rows = {r.switch.split("=")[0]: r for r in answer.verdicts.rows}
        text = str(answer)
        for said in ("your settings take ", ", which fits; a plan of the same bytes costs +", "your switch", "not modelled, and may matter"):
            self.assertEqual(said in text, said != "not modelled, and may matter", said)
        for nothing in ("torch_empty_cache_steps", "packing", "fsdp"):
            self.assertIn("buys nothing", rows[nothing].text)
        request = Request(**configured({"model": self.config(LLAMA), "config": path, "for_device": "torch-core"}))
        judge = Judge(request, device_of("torch-core"), None, fit_of)
        plain, own = judge.taken(judge.request, checkpointed=False), judge.taken(judge.request)
        recorded = judge.fit(replace(request, checkpointing=True))
        self.assertEqual(own.total, answer.verdicts.total)
        self.assertLess(abs(own.total - recorded.total(recorded.graph["measured_peak"])), 0.01 * own.total)
        self.assertEqual(rows["gradient_checkpointing"].buys, plain.total - own.total)
        self.assertGreater(rows["gradient_checkpointing"].buys, 0)
        self.assertGreater(rows["gradient_checkpointing"].costs, 0.05)
        parameters = sum(p.numel() for p in recorded.model.module.parameters() if p.numel() >= 4096)
        self.assertAlmostEqual(rows["optim"].buys / (parameters * (8 - 2 - 2 * 4 / 256)), 1, delta=0.02)
        self.assertGreater(rows["gradient_accumulation_steps"].buys, 0)
        self.assertIn("beside one pass of 8 rows", rows["gradient_accumulation_steps"].text)
        told = answer.to_dict()["verdicts"]
        self.assertEqual(len(told["switches"]), len(rows))
        json.dumps(told)

    def test_wrong_files(self):
        """Whatever a file has in it: one error that names the file, and the key where there is one."""
        wrong = {
            "empty.yaml": ("", "empty.yaml: is empty"), "number.json": ("3", "number.json: has no keys"), "own.yaml": ("a: &x\n  b: *x\n", "own.yaml: a.b.b has more than 50 keys"),
            "deep.json": ('{"a":' * 5000 + "1" + "}" * 5000, "deep.json: has more brackets"), "deep.yaml": ("[" * 3000, "deep.yaml: has more brackets"),
            "many.yaml": (f"micro_batch_size: {10**22}\n", "many.yaml: micro_batch_size is 10{22}; no step has more than"),
            "rows.yaml": ("micro_batch_size: [1, 2]\n", "rows.yaml: micro_batch_size is .1, 2."), "optimizer.yaml": ("optimizer: 5\n", "optimizer is 5; it is the name of an optimizer"),
            "maybe.yaml": ("gradient_checkpointing: maybe\n", "gradient_checkpointing is 'maybe'; it is true, false"), "mode.toml": ("[activation_checkpoint]\nmode = 5\n", "activation_checkpoint.mode is 5"),
            "tag.yaml": ("!!python/object/apply:os.system ['x']\n", "tag.yaml:1:1: is no YAML"),
        }  # fmt: skip
        for name, (text, error) in wrong.items():
            with self.subTest(file=name), self.assertRaisesRegex(ValueError, error):
                configured({"config": self.config(text, name)})
        with self.assertRaisesRegex(ValueError, "is no text"):
            path = self.config("", "bytes.yaml")
            with open(path, "wb") as f:
                f.write(bytes(range(256)))
            configured({"config": path})
        shared = self.config("a: &x\n  micro_batch_size: 2\nb: *x\nmicro_batch_size: 4\n", "shared.yaml")
        self.assertEqual(configured({"config": shared})["batch"], 4)

    def test_moved(self):
        """An offload without checkpoints is in what the settings take, with the time that the step waits for its copies."""
        path = self.config("batch_size: 2\ntokenizer:\n  max_seq_len: 64\nenable_activation_checkpointing: false\nenable_activation_offloading: true\n", "torchtune.yaml")
        judge = Judge(Request(**configured({"model": self.config(LLAMA), "config": path, "for_device": "h100"})), device_of("h100"), None, fit_of)
        own, plain, found = judge.taken(judge.request), judge.taken(judge.request, checkpointed=False), judge.verdicts()
        row = next(r for r in found.rows if r.switch.startswith("enable_activation_offloading"))
        self.assertEqual(found.total, own.total)
        self.assertEqual((row.buys, row.buys > 0), (plain.total - own.total, True))
        self.assertGreater(row.costs, 0)
        self.assertRegex(row.text, r"buys .* for \+.* % time \(.* there and back in each pass, of whose .* ms the step waits for ")
        self.assertIn("a plan of the same bytes costs ", found.same)

    def test_raises(self):
        """A switch that raises the peak is said to."""
        path = self.config({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 2, "max_length": 8, "optim": "sgd"}, "training.json")
        judge = Judge(Request(**configured({"model": self.config(LLAMA), "config": path, "for_device": "torch-core"})), device_of("torch-core"), None, fit_of)
        rows = {r.switch.split("=")[0]: r for r in judge.verdicts().rows}
        self.assertIn("raises the peak by ", rows["gradient_accumulation_steps"].text)  # gradients of the first pass are there in the second
        self.assertLess(rows["gradient_accumulation_steps"].buys, 0)
        self.assertIn("beside adamw", rows["optim"].text)

    def test_type_of_weights(self):
        """A type that is asked for counts above the config's."""
        path = self.config({**LLAMA, "dtype": "bfloat16"})
        wide, narrow = (Judge(Request(path, batch=1, seq=32, dtype=d), device_of(None), None, fit_of) for d in ("float32", "bfloat16"))
        bytes_of = [sum(p.nbytes for p in j.fit(j.request).model.module.parameters()) for j in (wide, narrow)]
        self.assertEqual(bytes_of[0], 2 * bytes_of[1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()

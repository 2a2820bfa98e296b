"""Steps on paper: held against steps that were run, and against recordings of every block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

import torch
import transformers

import memopt
from memopt._fitwords import CHUNKED
from memopt.torch.ask.questions import recorded
from memopt.torch.fit.models import model_of
from memopt.torch.fit.optimizers import OPTIMIZERS
from memopt.torch.fit.repeat import proven, recorded_once, runs_of
from memopt.torch.fit.request import Request
from memopt.torch.fit.steps import Steps, graph_of
from memopt.torch.plan.form import Form
from memopt.torch.record.fake import fake_recording

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 512, "max_position_embeddings": 256, "dtype": "float32",
}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 8, "n_head": 4, "n_positions": 256, "vocab_size": 512, "bos_token_id": 0, "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
BERT = {"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 512}
VIT = {"model_type": "vit", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4, "image_size": 64, "patch_size": 8}
MIXTRAL = {**LLAMA, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
FAMILIES = {"llama": LLAMA, "gpt2": GPT2, "bert": BERT, "vit": VIT, "mixtral": MIXTRAL}
_IDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_TEXT = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 512, "max_position_embeddings": 256, **_IDS}
# Whose blocks are unlike each other at both ends of a recording, or make constants of their own, and the runs of their blocks.
FARTHER = {
    "phi": ({"model_type": "phi", **_TEXT}, [8]),
    "falcon": ({"model_type": "falcon", **_TEXT, "alibi": False}, [8]),
    "bloom": ({"model_type": "bloom", "hidden_size": 64, "n_layer": 8, "n_head": 4, "vocab_size": 512, **_IDS}, [8]),
    "gptj": ({**GPT2, "model_type": "gptj", "rotary_dim": 8}, [8]),
    "gpt-neo": ({"model_type": "gpt_neo", "hidden_size": 64, "num_layers": 12, "num_heads": 4, "vocab_size": 512, "max_position_embeddings": 256, "attention_types": [[["global", "local"], 6]], "window_size": 32, **_IDS}, [6]),
    "t5": ({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 160, "num_layers": 8, "num_heads": 4, "vocab_size": 512, "decoder_start_token_id": 0}, [7, 7]),
    "bart": ({
        "model_type": "bart", "d_model": 64, "encoder_layers": 7, "decoder_layers": 8, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 160, "decoder_ffn_dim": 160,
        "vocab_size": 512, "max_position_embeddings": 256, "decoder_start_token_id": 0, "forced_eos_token_id": 0, **_IDS,
    }, [7, 8]),
}  # fmt: skip


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        torch.set_num_threads(1)

    def config(self, fields: object, name: str = "config.json") -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(fields if isinstance(fields, str) else json.dumps(fields))
        return path


class TestBlocks(InFolder):
    def test_equal_blocks(self):
        """A program whose blocks were recorded a few times is the one that is recorded whole."""
        for name, (config, counts) in {**{name: (config, [8]) for name, config in FAMILIES.items()}, **FARTHER}.items():
            with self.subTest(model=name):
                request = Request(self.config(config), batch=2, seq=32)
                model = model_of(request)
                steps = Steps(model, request)
                found = recorded_once(model.module, lambda s=steps: s.record(2, 32))
                self.assertEqual([r.count for r in found.runs], counts)
                whole = steps.record(2, 32)
                proven(found.form, Form(whole.graph))
                self.assertEqual(graph_of(found.form)["measured_peak"], whole.measured_peak)

    def test_unequal_blocks(self):
        """Blocks that look equal and are not are recorded one by one."""

        class Block(torch.nn.Module):
            def __init__(self, scale: torch.Tensor):
                super().__init__()
                self.linear, self.scale = torch.nn.Linear(8, 8), (scale,)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = self.linear(x)
                return x * x if self.scale[0].numel() > 1 else x.relu()

        model = torch.nn.Sequential(*[Block(torch.ones(2 if i == 1 else 1)) for i in range(8)])
        self.assertEqual(len(runs_of(model)), 1)

        def record():
            return fake_recording(model, (torch.empty(4, 8, device="meta"),), {}, lambda out: out.sum(), "cpu")

        found = recorded_once(model, record)
        self.assertEqual(found.runs, [])
        proven(found.form, Form(record().graph))


    def test_own_numbers(self):
        """What counts the blocks, and rates that rise from one to the next, make no block another one; whether there is a rate at all does."""

        class Block(torch.nn.Module):
            def __init__(self, place: int, rate: float):
                super().__init__()
                self.linear, self.place, self.rate = torch.nn.Linear(8, 8), place, rate

        def runs(*blocks: Block):
            return [(r.first, r.period, r.count) for r in runs_of(torch.nn.ModuleList(blocks))]

        self.assertEqual(runs(*[Block(i, 0.1 * i) for i in range(8)]), [(1, 1, 7)])
        self.assertEqual(runs(*[Block(i % 2, 0.0) for i in range(12)]), [(0, 2, 6)])
        self.assertEqual(runs(*[Block(i * i, 0.0) for i in range(8)]), [])

    def test_layers_left_out(self):
        """Layers that a step may leave out by chance are all there."""
        config = FARTHER["bart"][0]
        found = memopt.fit(self.config({**config, "encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}), batch=2, seq=32, for_device="torch-core")
        self.assertEqual(found.peak, memopt.fit(self.config(config), batch=2, seq=32, for_device="torch-core").peak)
        self.assertTrue([n for n in found.notes if '"encoder_layerdrop" is 0.5' in n])
        self.assertEqual(found.blocks, "one of 7 equal blocks of model.encoder.layers; one of 8 equal blocks of model.decoder.layers")

    def test_token_by_token(self):
        """A step of more operators than are recorded is refused, and the error says why."""
        mamba = {"model_type": "mamba", "hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 64, "state_size": 4, **_IDS}
        with self.assertRaisesRegex(ValueError, "runs more than 60,000 operators, as modules do that go through a row token by token.*shorter seq"):
            memopt.fit(self.config(mamba), batch=1, seq=4096, for_device="torch-core")


class TestFit(InFolder):
    def test_as_measured(self):
        """The peak of forward and backward is that of a step which is run."""
        for name, config in FAMILIES.items():
            if name == "mixtral":
                continue  # which experts are chosen decides what is allocated
            with self.subTest(model=name):
                found = memopt.fit(self.config(config), batch=2, seq=64, for_device="torch-core", optimizer="none", budget="1GiB")
                model = model_of(Request(self.config(config), batch=2, seq=64))
                kind = type(model.module)
                real = kind(model.module.config).train()
                _, named = model.inputs(2, 64)
                torch.manual_seed(0)
                batch = {k: torch.rand(t.shape, dtype=t.dtype) if t.is_floating_point() else torch.ones(t.shape, dtype=t.dtype) for k, t in named.items()}
                recorded = memopt.record(real, **batch)
                measured = recorded.measured_peak + sum(t.nbytes for t in [*real.parameters(), *real.buffers()])
                self.assertLess(abs(found.peak - measured), 0.01 * measured, f"{found.peak} on paper, {measured} measured")
                self.assertTrue(found)

    def test_phases(self):
        found = memopt.fit(self.config(LLAMA), batch=2, seq=64, for_device="torch-core")
        weights = sum(p.nbytes for p in model_of(Request(self.config(LLAMA))).module.parameters())
        by_name = {p.name: p for p in found.phases}
        self.assertEqual(by_name["checkpoint"].total - by_name["load"].total, 2 * weights)
        self.assertGreater(by_name["later steps"].total, by_name["first step"].total)
        self.assertLess(by_name["evaluation"].total, by_name["later steps"].total)
        plans = [r for r in found.ladder if not r.name.startswith(CHUNKED)]
        self.assertEqual([r.overhead for r in plans], sorted(r.overhead for r in plans))
        self.assertEqual([r.total for r in plans], sorted((r.total for r in plans), reverse=True))

    def test_chunks(self):
        """The loss in chunks takes what a step with loss_chunks takes, and may be what fits."""
        for name, dtype in (("llama", "float32"), ("bert", "float32"), ("gpt2", "float32"), ("llama", "bfloat16")):
            with self.subTest(model=name, dtype=dtype):
                config = self.config({**FAMILIES[name], "vocab_size": 8192, "dtype": dtype})
                given = {"batch": 8, "seq": 64, "for_device": "torch-core", "optimizer": "none", "dtype": dtype}
                free = memopt.fit(config, **given)
                rung = next(r for r in free.ladder if r.name == CHUNKED)
                model = model_of(Request(config, batch=8, seq=64, dtype=dtype))
                real = type(model.module)(model.module.config).to(model.dtype).train()
                batch = {k: torch.ones(t.shape, dtype=t.dtype) for k, t in model.inputs(8, 64)[1].items()}
                step = recorded(real, (), batch, None, "auto")
                taken = step.measured_peak + sum(t.nbytes for t in [*real.parameters(), *real.buffers()])
                self.assertLess(abs(rung.total - taken), 0.01 * taken, f"{rung.total} on paper, {taken} measured")
                self.assertLess(rung.total, free.peak)
        config = self.config({**LLAMA, "vocab_size": 8192})
        free = memopt.fit(config, **{**given, "dtype": "float32"})
        lowest = free.ladder[-1]
        self.assertLess(lowest.total, free.floor)
        tight = memopt.fit(config, budget=lowest.total, largest=False, **{**given, "dtype": "float32"})
        self.assertTrue(tight)
        self.assertIn("with its loss in chunks and a plan:", tight.verdict)
        none = memopt.fit(config, budget=lowest.total // 2, largest=False, **{**given, "dtype": "float32"})
        self.assertRegex(none.verdict, "no plan goes below .*; with its loss in chunks it takes ")
        mean = self.config("import torch\ndef make(batch, seq):\n    return torch.nn.Linear(8, 64), torch.ones(batch, 8), lambda y: y.mean()\n", "mean.py")
        self.assertFalse([r for r in memopt.fit(f"{mean}:make", batch=2, for_device="torch-core").ladder if r.name.startswith(CHUNKED)])

    def test_types(self):
        """The type that is asked for, whatever the config says; without one, the config's."""
        for said, asked, bytes_each in (("bfloat16", None, 2), ("bfloat16", "fp32", 4), (None, "bf16", 2), (None, None, 4)):
            with self.subTest(config=said, dtype=asked):
                config = {k: v for k, v in {**LLAMA, "dtype": said}.items() if v is not None}
                module = model_of(Request(self.config(config), dtype=asked)).module
                self.assertEqual({p.element_size() for p in module.parameters()}, {bytes_each})

    def test_lengths(self):
        """The worst batch of a distribution is the step."""
        path = self.config("16 900\n64\n128 3\n", "lengths.txt")
        found = memopt.fit(self.config(LLAMA), batch=2, lengths=path, for_device="torch-core")
        self.assertEqual(found.peak, memopt.fit(self.config(LLAMA), batch=2, seq=128, for_device="torch-core").peak)
        self.assertIn("904 rows of 16 to 128 tokens, half of them up to 16", found.worst)
        with self.assertRaisesRegex(ValueError, r"wrong.txt:2: 'many' is no length"):
            Request("llama-8b", lengths=self.config("16\nmany\n", "wrong.txt"))

    def test_budget(self):
        """Below the floor nothing fits, and the answer says what sets it; between floor and peak a plan does."""
        path = self.config(LLAMA)
        free = memopt.fit(path, batch=4, seq=128, for_device="torch-core", optimizer="none")
        self.assertIsNone(free.budget)
        tight = memopt.fit(path, batch=4, seq=128, for_device="torch-core", optimizer="none", budget=(free.peak + free.floor) // 2)
        self.assertTrue(tight)
        self.assertIn("under a plan", tight.verdict)
        self.assertFalse(tight.ladder[0].fits)
        none = memopt.fit(path, batch=4, seq=128, for_device="torch-core", optimizer="none", budget=free.floor // 2)
        self.assertFalse(none)
        self.assertIn("does not fit", str(none))

    def test_largest(self):
        """The largest batch and row fit, and one more does not."""
        path = self.config(LLAMA)
        given = {"for_device": "torch-core", "optimizer": "none"}
        budget = memopt.fit(path, batch=7, seq=128, **given).peak
        found = memopt.fit(path, batch=3, seq=128, budget=budget, **given).ladder[0]
        self.assertEqual(found.batch, 7)
        self.assertLessEqual(memopt.fit(path, batch=3, seq=found.seq, **given).peak, budget)
        self.assertGreater(memopt.fit(path, batch=3, seq=found.seq + 1, **given).peak, budget)
        self.assertEqual(memopt.fit(path, batch=1, seq=128, budget=budget, **given).ladder[0].batch, 7)  # one row is another program

    def test_wrong(self):
        """One error that names the file and the key."""
        wrong = {
            '{"hidden_size": 4}': r'config\.json: has no "model_type"', '{"model_type": "lama"}': r'config\.json: "model_type" is \'lama\'.*llama', '{"model_type": "llama",}': r"config\.json:1:\d+: is no JSON",
            "[]": "is no object", json.dumps({**LLAMA, "hidden_size": "wide"}): r"config\.json: .*hidden_size", json.dumps({**LLAMA, "dtype": "int4"}): r'config\.json: "dtype" is \'int4\'',
            json.dumps({**LLAMA, "architectures": ["LlamaForEverything"]}): r"config\.json: .*LlamaForEverything", json.dumps({**LLAMA, "architectures": "LlamaForCausalLM"}): '"architectures" is .* a list',
            json.dumps({**LLAMA, "num_hidden_layers": -3}): r'config\.json: "num_hidden_layers" is -3; it is a whole number from 1 to 10,000', json.dumps({**LLAMA, "hidden_size": 10**30}): '"hidden_size" is 10{30};',
            json.dumps({**LLAMA, "num_hidden_layers": 10**7}): '"num_hidden_layers" is 10000000;', json.dumps({**LLAMA, "num_key_value_heads": 3}): '"num_key_value_heads", 3, does not divide',
            json.dumps({**LLAMA, "hidden_act": "wow"}): "'wow', which", '{"model_type": "segformer"}': r'may be a SegformerForImageClassification or a SegformerForSemanticSegmentation.*"architectures": \["Segf',
            '{"model_type": "siglip2"}': "Siglip2Model reads pictures of many shapes.*give file.py:function", '{"model_type": "bert", "architectures": ["BertForQuestionAnswering"]}': "names 'BertForQuestionAnswering', which makes no loss",
            '{"model_type": "bert", "architectures": ["BertConfig"]}': "names 'BertConfig', which is no class of a model",
        }  # fmt: skip
        for text, error in wrong.items():
            with self.subTest(config=text), self.assertRaisesRegex(ValueError, error):
                memopt.fit(self.config(text))
        for given, error in (({"shard": "all"}, "fsdp2"), ({"batch": 0}, "batch is 0"), ({"dtype": "int8"}, "dtype"), ({"optimizer": "adanw"}, "did you mean 'adamw'"), ({"ranks": 3, "tensor": 2}, "tensor=2")):
            with self.subTest(given=given), self.assertRaisesRegex(ValueError, error):
                memopt.fit(self.config(LLAMA), **given)
        with self.assertRaisesRegex(ValueError, "llama-8b"):
            memopt.fit("none.json")
        with self.assertRaisesRegex(ValueError, r"step.json.gz is no config.*memopt.frontier"):
            memopt.fit(self.config("", "step.json.gz"))

    def test_pictures(self):
        """What a config is of: pairs of pictures and texts, or a class for each point of a picture; without a class the usual one is taken, and said."""
        half = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 2, "image_size": 64, "patch_size": 8, "vocab_size": 100, "max_position_embeddings": 16}
        for kind, name in (("clip", "CLIPModel"), ("siglip", "SiglipModel")):
            with self.subTest(kind):
                path = self.config({"model_type": kind, "text_config": half, "vision_config": half})
                found = memopt.fit(path, batch=3, for_device="torch-core", optimizer="sgd", largest=False)
                self.assertTrue(any(f"this is a step of {name}" in n for n in found.notes))
                model = model_of(Request(path, batch=3))
                module = type(model.module)(model.module.config).train()
                batch = {k: torch.zeros(v.shape, dtype=v.dtype) if isinstance(v, torch.Tensor) else v for k, v in model.inputs(3, 1)[1].items()}
                held = sum(p.nbytes for p in module.parameters()) + sum(b.nbytes for b in module.buffers())
                taken = held + memopt.record(module, **batch).measured_peak
                self.assertLess(abs(next(p.total for p in found.phases if p.name == "later steps") / taken - 1), 0.01)
        shapes = model_of(Request(self.config({"model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"]}))).inputs(2, 1)[1]
        self.assertEqual(shapes["labels"].shape, (2, 224, 224))
        self.assertEqual(type(model_of(Request(self.config({"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 1}))).module).__name__, "BertForMaskedLM")

    def test_update(self):
        """An update takes what its sums and its roots move, each at the profile's rate, and one that is divided takes its share."""
        path = self.config(LLAMA)
        took = {name: memopt.fit(path, batch=1, seq=32, optimizer=name, for_device="torch-core", largest=False).update_ns for name in ("none", "sgd", "adamw-fused", "adamw")}
        self.assertEqual(took["none"], 0)
        self.assertEqual(sorted(took, key=took.__getitem__), ["none", "sgd", "adamw-fused", "adamw"])
        rates = {name: 100.0 for name in ("", "math", "reduction", "gather", "random", "copy")}
        profile = {"format": "memopt.device/1", "name": "cpu", "source": "made up", "one_clock": True, "launch_ns": 0, "host_ns": 0, "again_ns": 0, "flops_per_ns": {"": {"": 100.0}}}
        parameters = sum(p.nbytes for p in model_of(Request(path)).module.parameters())
        for math in (100.0, 20.0):
            made = self.config({**profile, "bytes_per_ns": {**rates, "math": math}}, "profile.json")  # the file of the first is written anew
            found = memopt.fit(path, batch=1, seq=32, optimizer="adamw", for_device=made, largest=False).update_ns
            self.assertAlmostEqual(found / (parameters * (18 / 100 + 2 / math)), 1, delta=0.01)
        work = OPTIMIZERS["adamw"].work([torch.empty(10, 10)] * 3, foreach=False)
        self.assertEqual((work.parameters, work.size, work.calls), (3, 1200, 1))
        self.assertEqual((len(work.program), sum(len(letters.removeprefix("√")) for letters in work.program)), (8, 20))
        self.assertEqual(work.shared(5)[1:3], (1, 240))
        self.assertEqual(OPTIMIZERS["adamw"].work([torch.empty(10, 10)] * 40, foreach=True)[1:4], (1, 16000, 2))
        far = {**profile, "bytes_per_ns": rates, "far": [{"beyond": 1 << 40, "bytes_per_ns": 10.0}]}  # what no operator of the update touched before: p, g, m, v
        found = memopt.fit(path, batch=1, seq=32, optimizer="adamw", for_device=self.config(far, "profile.json"), largest=False).update_ns
        self.assertAlmostEqual(found / (parameters * (20 / 100 + 4 / 10)), 1, delta=0.03)

    def test_function(self):
        """A file's function that returns a module and a batch."""
        path = self.config("import torch\ndef make(batch, seq):\n    return torch.nn.Sequential(torch.nn.Linear(seq, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)), torch.empty(batch, seq), lambda out: out.mean()\n", "own.py")
        found = memopt.fit(f"{path}:make", batch=32, seq=16, for_device="torch-core", optimizer="sgd")
        self.assertEqual(found.parameters, 16 * 64 + 64 + 64 + 1)
        self.assertEqual(found.model, "own.py:make")
        with self.assertRaisesRegex(ValueError, "has no function 'made'"):
            memopt.fit(f"{path}:made")

    def test_diffusers(self):
        """Configs as diffusers saves them: what a class reads beside its picture is made by its config."""
        unet = {"_class_name": "UNet2DConditionModel", "sample_size": 16, "block_out_channels": [16, 32], "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "cross_attention_dim": 16, "layers_per_block": 1, "attention_head_dim": 8, "norm_num_groups": 8}
        plain = {"_class_name": "UNet2DModel", "sample_size": 16, "block_out_channels": [16, 32], "down_block_types": ["DownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D"], "norm_num_groups": 8, "layers_per_block": 1}
        coder = {"_class_name": "AutoencoderKL", "sample_size": 32, "block_out_channels": [16, 32], "down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2, "norm_num_groups": 8}
        joint = {"num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 16, "joint_attention_dim": 32, "pooled_projection_dim": 16}
        for config in (
            unet, {**unet, "sample_size": [16, 32]}, {**unet, "class_embed_type": "projection", "projection_class_embeddings_input_dim": 16}, {**unet, "num_class_embeds": 10},
            {**unet, "addition_embed_type": "text_time", "addition_time_embed_dim": 8, "projection_class_embeddings_input_dim": 64}, plain, {**plain, "num_class_embeds": 10}, coder,
            {"_class_name": "DiTTransformer2DModel", "sample_size": 16, "num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 16},
            {"_class_name": "PixArtTransformer2DModel", "sample_size": 16, "num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 16, "cross_attention_dim": 32, "caption_channels": 16},
            {"_class_name": "SD3Transformer2DModel", "sample_size": 16, "caption_projection_dim": 32, "pos_embed_max_size": 16, **joint},
            {"_class_name": "FluxTransformer2DModel", "num_single_layers": 1, "axes_dims_rope": [4, 6, 6], "guidance_embeds": True, "in_channels": 16, **joint},
        ):  # fmt: skip
            with self.subTest(config=config):
                found = memopt.fit(self.config(config), for_device="torch-core", optimizer="sgd", largest=False)
                self.assertGreater(next(p for p in found.phases if p.name == "first step").bytes["activations"], 0)
        for config, said in (
            ({**unet, "sample_size": "x"}, "\"sample_size\" is 'x'; it is a picture's side"), ({**unet, "addition_embed_type": "image", "encoder_hid_dim": 16}, "\"addition_embed_type\" is 'image', of which no batch is made"),
            ({**unet, "addition_embed_type": "text_time", "addition_time_embed_dim": 8, "projection_class_embeddings_input_dim": 48}, "is 48, and six numbers take 48 of it"), ({"_class_name": "StableDiffusionPipeline"}, "no batch is made here; there are UNet2DConditionModel"),
        ):  # fmt: skip
            with self.subTest(config=config), self.assertRaisesRegex(ValueError, said):
                memopt.fit(self.config(config))

    def test_what_a_config_says_beside_sizes(self):
        small = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
        found = memopt.fit(self.config({**small, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "llama-tiny.json"), seq=16, largest=False)
        self.assertIn('"quantization_config" (bitsandbytes) is not modelled: weights are counted whole, in bfloat16', str(found))
        self.assertEqual(found.model, "llama-tiny")
        for config, said in (({"hidden_act": "nope"}, "\"hidden_act\" is 'nope', which this transformers"), ({"rope_scaling": {"type": "wrong"}}, "\"rope_scaling.type\" is 'wrong'")):
            with self.assertRaisesRegex(ValueError, said):
                memopt.fit(self.config({**small, **config}))

    def test_lengths_that_cannot_be_read(self):
        odd = self.config("", "odd.txt")
        with open(odd, "wb") as f:
            f.write(b"128\n\xff")
        for path, said in (("nowhere.txt", "lengths nowhere.txt: No such file"), (os.path.dirname(__file__), "lengths .*: Is a directory"), (odd, "lengths .*odd.txt: is no text")):
            with self.subTest(path=path), self.assertRaisesRegex(ValueError, said):
                memopt.fit("llama-1b", lengths=path)

    def test_sizes_beyond_all_steps(self):
        for size, said in (({"batch": 10**9}, "a step of batch 1,000,000,000 and 2,048 tokens a row has .* that a plan can weigh"), ({"seq": 10**9}, "of batch 1 and 1,000,000,000 tokens a row has .* flops"), ({"batch": 1 << 41}, "batch is 2,199,023,255,552; no step has more")):
            with self.assertRaisesRegex(ValueError, said):
                memopt.fit("llama-1b", largest=False, **size)

    def test_function_of_its_own_batch(self):
        """A function that takes no sizes: of whatever batch it makes, and whatever the module makes of it."""
        path = self.config(
            "import dataclasses\nfrom typing import Any, NamedTuple\nimport torch\nfrom torch import nn\nfrom transformers import BatchEncoding\n"
            "class Named(NamedTuple):\n    x: Any\n    name: str\n"
            "@dataclasses.dataclass\nclass Fields:\n    x: Any\n    name: str\n"
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(8, 8)\n"
            "    def forward(self, x, labels=None):\n        print('the model says something')\n        x = getattr(x, 'x', x)\n        return self.l(x).square().mean(), x\n"
            "x = lambda: torch.zeros(4, 8)\n"
            "def tensor(): return Net(), x()\n"
            "def named(): return Net(), (Named(x(), 'a'),)\n"
            "def fields(): return Net(), (Fields(x(), 'a'),)\n"
            "def encoded(): return Net(), BatchEncoding({'x': x(), 'labels': x()})\n"
            "def within(): return Net(), (BatchEncoding({'x': x()}),)\n"
            "def double(): return Net().double(), x().double()\n"
            "def loader(): return Net(), iter([x()])\n"
            "def nothing(): return Net(), None\n"
            "def alone(): return Net()\n"
            "def more(size): return Net(), x()\n"
            "def fails():\n    raise RuntimeError('there is no data')\n"
            "def many(): return Net(), x(), lambda out: out[1]\n"
            "def frozen(): return Net().requires_grad_(False), x()\n", "own.py",
        )  # fmt: skip
        peaks = {name: memopt.fit(f"{path}:{name}", for_device="torch-core").to_dict() for name in ("tensor", "named", "fields", "encoded", "within", "double")}
        self.assertEqual(len({found["peak"] for name, found in peaks.items() if name != "double"}), 1, peaks)
        self.assertEqual(peaks["double"]["request"]["dtype"], "float64")
        self.assertEqual(peaks["double"]["peak"], 2 * peaks["tensor"]["peak"])
        answer = memopt.fit(f"{path}:tensor", budget="1GiB", for_device="torch-core")
        self.assertIn("the batch that the function makes", str(answer))
        self.assertIn("the largest batch is not known: own.py:tensor takes no argument batch", str(answer))
        for name, said in {
            "loader": "returns list_iterator as its batch; give one batch", "nothing": "returns no batch", "alone": "returns Net; it is to return the module and its batch", "more": "needs size, which nobody gives here",
            "fails": r"own.py:\d+: fails fails: RuntimeError: there is no data", "many": r"the loss is a tensor of shape \(4, 8\), not one number; return a loss as the third thing", "frozen": "depends on no parameter that requires a gradient",
        }.items():  # fmt: skip
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, said):
                memopt.fit(f"{path}:{name}")
        for sizes in ({"batch": 4}, {"seq": 64}):
            with self.assertRaisesRegex(ValueError, f"takes no argument {next(iter(sizes))}, which is"):
                memopt.fit(f"{path}:tensor", **sizes)
        binary = os.environ["MEMOPT_PLUGIN_PATH"]
        done = subprocess.run([binary, "fit", f"{path}:tensor", "--format", "json"], env={**os.environ, "MEMOPT_PYTHON": sys.executable}, capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout)["model"], "own.py:tensor")  # whatever the model prints
        path = self.config("import sys, atexit\natexit.register(lambda: print('goodbye', file=sys.stderr))\nimport nowhere\n", "noisy.py")
        done = subprocess.run([binary, "fit", f"{path}:make"], env={**os.environ, "MEMOPT_PYTHON": sys.executable}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, f"memopt: {path}:3: cannot be loaded: ModuleNotFoundError: No module named 'nowhere'\n"))

    def test_command(self):
        """The command starts Python, and its exit code is the answer's."""
        binary = os.environ["MEMOPT_PLUGIN_PATH"]
        environment = {**os.environ, "MEMOPT_PYTHON": sys.executable}
        for budget, code in (("1GiB", 0), ("1MiB", 1)):
            done = subprocess.run([binary, "fit", self.config(LLAMA), "--for", "torch-core", "--seq", "64", "--budget", budget, "--format", "json"], env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(json.loads(done.stdout)["fits"], code == 0)
        done = subprocess.run([binary, "fit", self.config(LLAMA), "--batch", "x"], env=environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "memopt: --batch is 'x'; give a whole number\n"))


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    unittest.main()

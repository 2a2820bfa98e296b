"""Steps of several ranks on paper, held against ranks that run them."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import memopt

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 1024, "dtype": "float32",
}  # fmt: skip
EIGHT = {**LLAMA, "num_hidden_layers": 8}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 192, "n_layer": 7, "n_head": 4, "n_positions": 256, "vocab_size": 768, "bos_token_id": 0, "eos_token_id": 0}
MIXTRAL = {**LLAMA, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "intermediate_size": 344, "num_local_experts": 4, "num_experts_per_tok": 2}
# (config, batch, seq, what divides it)
TWO = [
    *((config, batch, seq, {"shard": shard}) for config, batch, seq in ((LLAMA, 2, 32), (LLAMA, 2, 256), (GPT2, 4, 128)) for shard in ("fsdp2", "zero2", "ddp")),
    (LLAMA, 2, 256, {"shard": "fsdp2", "param_dtype": "bfloat16"}),
    *((config, batch, seq, {"shard": "zero1", "optimizer": "adamw"}) for config, batch, seq in ((LLAMA, 2, 32), (LLAMA, 2, 256), (GPT2, 4, 128))),
    *((LLAMA, 2, seq, {"tensor": 2}) for seq in (32, 256)),
    *((MIXTRAL, 2, seq, {"expert": 2, "imbalance": busy}) for seq, busy in ((32, 1.0), (256, 1.0), (256, 1.5))),
    *((EIGHT, 2, seq, {"pipeline": 2, "microbatches": 4, "schedule": schedule}) for seq in (32, 256) for schedule in ("1f1b", "interleaved", "zb-h1", "zbv")),
]
FOUR = [
    *((EIGHT, 2, 256, {"pipeline": 4, "microbatches": 8, "schedule": schedule}) for schedule in ("1f1b", "interleaved", "zb-h1", "zbv")),
    (LLAMA, 2, 256, {"shard": "fsdp2"}),
    *((MIXTRAL, 2, 256, {"expert": expert, "imbalance": busy}) for expert, busy in ((2, 1.0), (2, 1.5), (4, 1.5))),
]


def worker(rank: int, ranks: int, folder: str, port: str) -> None:
    """One of several ranks: the peak of a later step, for each case."""
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    found = []
    for i, (_, batch, seq, how) in enumerate(TWO if ranks == 2 else FOUR):
        path = os.path.join(folder, f"{i}.json")
        gc.collect()  # what the case before has left would be freed in this one's step, and count as less memory
        if "optimizer" in how:
            found.append(updated(path, batch, seq))
        elif "tensor" in how:
            found.append(divided(path, ranks, batch, seq))
        elif "expert" in how:
            found.append(spread(path, ranks, batch, seq, **how))
        else:
            found.append(sharded(path, ranks, batch, seq, **how) if "shard" in how else pipelined(path, rank, ranks, batch, seq, **how))
    with open(os.path.join(folder, f"rank{rank}"), "w") as f:
        json.dump(found, f)
    dist.destroy_process_group()


def made(path: str):
    """The model of a config, with bytes."""
    import torch

    from memopt.torch.fit.models import model_of
    from memopt.torch.fit.request import Request

    meta = model_of(Request(path)).module
    torch.manual_seed(0)
    return type(meta)(meta.config).train()


def sharded(path: str, ranks: int, batch: int, seq: int, shard: str, param_dtype: str = "") -> int:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cpu", (ranks,))
    mixed = MixedPrecisionPolicy(param_dtype=getattr(torch, param_dtype), reduce_dtype=torch.float32) if param_dtype else MixedPrecisionPolicy()
    model = module = made(path)
    if shard == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(module)
    else:
        for block in module.model.layers if hasattr(module, "model") else module.transformer.h:
            fully_shard(block, mesh=mesh, mp_policy=mixed, reshard_after_forward=shard == "fsdp2")
        fully_shard(module, mesh=mesh, mp_policy=mixed, reshard_after_forward=shard == "fsdp2")
    ids = torch.ones(batch, seq, dtype=torch.long)
    model(input_ids=ids, labels=ids).loss.backward()
    model.zero_grad()
    shards = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
    held = sum(t.untyped_storage().nbytes() for t in {id(t): t for t in [*shards, *model.buffers()]}.values())
    peaks = []
    # Collectives end on threads of their own, and what they hold until then depends on the machine: the least of three
    # steps. DDP makes its buckets in the first of them, and holds them from then on.
    for _ in range(1 if shard == "ddp" else 3):
        peaks.append(memopt.record(model, input_ids=ids, labels=ids).measured_peak)
        model.zero_grad()
    return held + min(peaks)


def updated(path: str, batch: int, seq: int) -> int:
    """The peak of a step with its update, whose states are divided among the ranks (ZeRO 1)."""
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer

    from memopt.torch.record.measure import watched

    model = torch.nn.parallel.DistributedDataParallel(made(path))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4)
    ids = torch.ones(batch, seq, dtype=torch.long)

    def step() -> None:
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()  # which makes the states
    held = {id(t): t.nbytes for t in [*model.parameters(), *model.buffers()]}
    held |= {id(t): t.nbytes for state in optimizer.optim.state.values() for t in state.values() if isinstance(t, torch.Tensor)}
    with watched() as seen:  # the step in which DDP makes its buckets
        step()
    return sum(held.values()) + seen.peak


def divided(path: str, ranks: int, batch: int, seq: int) -> int:
    """The peak of one of several tensor-parallel ranks, with norms and residuals along the sequence, as torchtitan divides a Llama."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module

    from memopt.torch.record.measure import watched

    whole = made(path)
    where = torch.arange(seq)[None]

    class Divided(torch.nn.Module):
        """The model, whose positions are those of whole rows."""

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.layers, self.norm, self.head = whole.model.embed_tokens, whole.model.layers, whole.model.norm, whole.lm_head

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            h = self.embed(ids)
            position = whole.model.rotary_emb(h, where)
            for layer in self.layers:
                h = layer(h, position_embeddings=position, attention_mask=None)
            return self.head(self.norm(h))

    gathered = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    block = {
        "input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(), "mlp": gathered,
        "self_attn": PrepareModuleInput(input_kwarg_layouts={"hidden_states": Shard(1)}, desired_input_kwarg_layouts={"hidden_states": Replicate()}),
        **{f"self_attn.{n}_proj": ColwiseParallel() for n in "qkv"}, "self_attn.o_proj": RowwiseParallel(output_layouts=Shard(1)),
        "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(), "mlp.down_proj": RowwiseParallel(output_layouts=Shard(1)),
    }  # fmt: skip
    plan = {"embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(), "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)}
    model = parallelize_module(Divided(), init_device_mesh("cpu", (ranks,)), {**plan, **{f"layers.{i}.{name}": how for i in range(len(whole.model.layers)) for name, how in block.items()}})
    ids = torch.ones(batch, seq, dtype=torch.long)

    def step() -> None:
        with loss_parallel():
            logits = model(ids)
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten())
            del logits
            loss.backward()
        model.zero_grad()

    step()
    held = sum(p.to_local().nbytes for p in model.parameters()) + sum(b.nbytes for b in whole.model.rotary_emb.buffers())
    peaks = []
    for _ in range(5):
        with watched() as seen:
            step()
        peaks.append(seen.peak)
    return held + min(peaks)


def spread(path: str, ranks: int, batch: int, seq: int, expert: int, imbalance: float) -> int:
    """The peak of one of several ranks that have some of the experts each, as torchtitan divides them: FSDP2 divides a block among all ranks, and
    its experts among those that have the same. The first rank's are chosen imbalance times as often as the average."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from memopt.torch.record.measure import watched

    model = made(path)
    count, each = model.config.num_local_experts, model.config.num_experts_per_tok
    mesh, everyone = init_device_mesh("cpu", (ranks // expert, expert), mesh_dim_names=("same", "expert")), init_device_mesh("cpu", (ranks,))
    mine, group = mesh.get_local_rank("expert"), mesh["expert"].get_group()
    pairs, local = torch.arange(batch * seq * each), count // expert
    busy = round(len(pairs) * imbalance / expert)
    chosen = torch.where(pairs < busy, pairs % local, local + pairs % (count - local)).view(each, -1).T.contiguous()
    for layer in model.model.layers:
        experts, gate = layer.mlp.experts, layer.mlp.gate
        for name in ("gate_up_proj", "down_proj"):
            setattr(experts, name, torch.nn.Parameter(getattr(experts, name).detach().chunk(expert)[mine].clone()))
        experts.forward = lambda x, index, weights, experts=experts: routed(experts, x, index, weights, group, expert, count)
        gate.forward = lambda x, was=gate.forward: (*was(x)[:2], chosen)
        fully_shard(experts, mesh=mesh["same"])
        fully_shard(layer, mesh=everyone)
    fully_shard(model, mesh=everyone)
    ids = torch.ones(batch, seq, dtype=torch.long)

    def step() -> None:
        model(input_ids=ids, labels=ids).loss.backward()
        model.zero_grad()

    step()
    held = sum(p.to_local().untyped_storage().nbytes() for p in model.parameters()) + sum(b.nbytes for b in model.buffers())
    peaks = []
    for _ in range(3):
        with watched() as seen:
            step()
        peaks.append(seen.peak)
    return held + min(peaks)


def routed(experts, x, index, weights, group, ranks: int, count: int):
    """A block's experts, whose rows go to the ranks that have them, and come back."""
    import torch
    import torch.distributed as dist
    from torch.distributed._functional_collectives import all_to_all_single_autograd
    from transformers.integrations.moe import _grouped_linear

    tokens, each, local = x.size(0), index.size(-1), count // ranks
    chosen, order = torch.sort(index.reshape(-1))
    leave = torch.histc(chosen.float(), bins=count, min=0, max=count - 1).long()
    come = torch.empty_like(leave)
    dist.all_to_all_single(come, leave, group=group)  # how many, from each rank for each expert here
    to, of = leave.view(ranks, -1).sum(1).tolist(), come.view(ranks, -1).sum(1).tolist()
    rows = all_to_all_single_autograd(x[order // each], of, to, group)
    by_expert = torch.arange(local).repeat(ranks).repeat_interleave(come).argsort(stable=True)
    offsets = come.view(ranks, -1).sum(0).cumsum(0, dtype=torch.int32)
    rows = rows[by_expert]
    found = _grouped_linear(rows, experts.gate_up_proj, offsets)
    del rows
    found = _grouped_linear(experts._apply_gate(found), experts.down_proj, offsets)
    back = torch.empty_like(by_expert)
    back[by_expert] = torch.arange(by_expert.numel())
    found = all_to_all_single_autograd(found[back], to, of, group)
    found = found * weights.reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel())
    return found[back].view(tokens, each, -1).sum(dim=1)


def pipelined(path: str, rank: int, ranks: int, batch: int, seq: int, pipeline: int, microbatches: int, schedule: str) -> int:
    """The peak of one rank that runs PyTorch's schedule."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, schedules

    from memopt.torch.fit.pipeline import SCHEDULES
    from memopt.torch.record.measure import watched

    whole = made(path)
    ours = SCHEDULES[schedule]
    kind = getattr(schedules, {"1f1b": "Schedule1F1B", "interleaved": "ScheduleInterleaved1F1B", "zb-h1": "ScheduleInterleavedZeroBubble", "zbv": "ScheduleZBVZeroBubble"}[schedule])
    count = pipeline * ours.virtual
    where = torch.arange(seq)[None]

    class Part(torch.nn.Module):
        """The layers of one stage."""

        def __init__(self, index: int):
            super().__init__()
            each = len(whole.model.layers) // count
            self.embed = whole.model.embed_tokens if index == 0 else None
            self.layers = whole.model.layers[index * each : (index + 1) * each]
            self.norm, self.head = (whole.model.norm, whole.lm_head) if index == count - 1 else (None, None)

        def forward(self, h: torch.Tensor) -> torch.Tensor:
            h = self.embed(h) if self.embed is not None else h
            position = whole.model.rotary_emb(h, where)
            for layer in self.layers:
                h = layer(h, position_embeddings=position, attention_mask=None)
            return self.head(self.norm(h)) if self.head is not None else h

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return whole.loss_function(logits=logits, labels=labels, vocab_size=whole.config.vocab_size)

    parts = [Part(i) for i in ours.stages(pipeline, rank, ours.virtual)]
    placed = [PipelineStage(part, i, count, torch.device("cpu")) for part, i in zip(parts, ours.stages(pipeline, rank, ours.virtual), strict=True)]
    running = kind(placed[0] if ours.virtual == 1 and schedule == "1f1b" else placed, microbatches, loss_fn=loss, scale_grads=False)
    ids = torch.ones(batch * microbatches, seq, dtype=torch.long)

    def step() -> None:
        losses: list[torch.Tensor] = []
        first, last = any(s.is_first for s in placed), any(s.is_last for s in placed)
        running.step(*([ids] if first else []), target=ids if last else None, losses=losses if last else None, return_outputs=False)

    step()  # which makes the gradients
    dist.barrier()
    peaks = []
    for _ in range(3):
        with watched() as seen:
            step()
        peaks.append(seen.peak)
        dist.barrier()
    held = sum(p.nbytes + p.grad.nbytes for part in parts for p in part.parameters())
    return held + sum(b.nbytes for b in whole.model.rotary_emb.buffers()) + min(peaks)


class TestRanks(unittest.TestCase):
    def test_two(self):
        """The peak of a rank of two is within 2 % of that of one which runs."""
        self.as_measured(2, TWO)

    def test_four(self):
        self.as_measured(4, FOUR)

    def as_measured(self, ranks: int, cases: list) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for i, (config, *_) in enumerate(cases):
                with open(os.path.join(folder, f"{i}.json"), "w") as f:
                    json.dump(config, f)
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = str(s.getsockname()[1])
            running = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, str(rank), str(ranks), folder, port], stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
            for process in running:
                _, errors = process.communicate(timeout=600)
                self.assertEqual(process.returncode, 0, errors[-3000:])
            by_rank = []
            for rank in range(ranks):
                with open(os.path.join(folder, f"rank{rank}")) as f:
                    by_rank.append(json.load(f))
            for i, (_, batch, seq, how) in enumerate(cases):
                found = memopt.fit(os.path.join(folder, f"{i}.json"), batch=batch, seq=seq, ranks=ranks, for_device="torch-core", largest=False, **{"optimizer": "none", **how})
                each = [measured[i] for measured in by_rank]
                was = max(each)
                paper = next(p.total for p in found.phases if p.name == "later steps")
                with self.subTest(ranks=ranks, seq=seq, **how):
                    # What the last rank of zb-h1 has from others is not all known.
                    most = 0.03 if how.get("schedule") == "zb-h1" and ranks == 4 else 0.02
                    self.assertLess(abs(paper / was - 1), most, f"{paper} on paper ({found.rank}), {was} measured, {paper / was - 1:+.2%}; {each}")

    def test_experts(self):
        """Experts that are divided are held once among the ranks that do, gathered there alone, and the busiest rank's rows are more."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as f:
                json.dump(MIXTRAL, f)
            given = {"batch": 2, "seq": 128, "ranks": 4, "for_device": "h100", "largest": False}

            def of(**more: object) -> dict:
                return dict(next(p for p in memopt.fit(path, **given, **more).phases if p.name == "later steps").bytes)

            whole, divided, busy = of(), of(expert=4), of(expert=4, imbalance=1.5)
            self.assertEqual(divided["weights"], whole["weights"])  # shards of all ranks, or of those with the same experts
            self.assertLess(divided["gathered"], 0.5 * whole["gathered"])
            self.assertGreater(busy["activations"], divided["activations"])
            found = memopt.fit(path, **given, expert=4)
            self.assertGreater(found.sent.experts, 0)
            self.assertEqual((found.parameters, found.trained), (memopt.fit(path, **given).parameters,) * 2)  # of all ranks
            with self.assertRaisesRegex(ValueError, "expert=8 divides a layer's experts, of which a mixtral has 4"):
                memopt.fit(path, **{**given, "ranks": 8}, expert=8)
            with self.assertRaisesRegex(ValueError, "expert is 3, and there are 4 data-parallel ranks"):
                memopt.fit(path, **given, expert=3)
            with self.assertRaisesRegex(ValueError, "imbalance is of experts"):
                memopt.fit(path, **given, imbalance=2)

    def test_communication(self):
        """Bytes over links take time: as much as the links' bandwidth says, and a step waits for what its passes do not hide."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as f:
                json.dump(LLAMA, f)
            given = {"batch": 2, "seq": 128, "for_device": "h100", "largest": False, "dtype": "float32"}
            found = memopt.fit(path, ranks=8, shard="ddp", **given)
            self.assertAlmostEqual(found.sent.reductions, 2 * 7 / 8 * 4 * found.parameters / (450 * 0.8), delta=1e3)  # nanoseconds
            self.assertLessEqual(found.sent.waited, found.sent.reductions * 1.5)
            self.assertEqual(found.ladder[0].time_ns, int(memopt.fit(path, **given).ladder[0].time_ns + found.sent.waited))
            far = memopt.fit(path, ranks=64, tensor=4, **given)  # four of whose ranks that have one part are in different nodes
            near = memopt.fit(path, ranks=4, tensor=4, **given)
            self.assertGreater(far.sent.gathers, 0)
            self.assertEqual(near.sent.gathers, 0)
            self.assertAlmostEqual(near.sent.tensor, 8 * 6 * 3 / 4 * 2 * 128 * 256 * 4 / (450 * 0.8), delta=1)
            self.assertIsNone(memopt.fit(path, **given).sent)
            self.assertIn("links of torch-core are not known", str(memopt.fit(path, ranks=2, **{**given, "for_device": "torch-core"})))

    def test_divided(self):
        """More ranks hold less, in every way of dividing but DDP's, and more is divided from one to the next."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as f:
                json.dump(LLAMA, f)
            peaks = {shard: memopt.fit(path, batch=1, seq=64, ranks=8, shard=shard, for_device="torch-core").peak for shard in ("ddp", "zero1", "zero2", "fsdp2")}
            self.assertEqual(sorted(peaks, key=peaks.__getitem__, reverse=True), ["ddp", "zero1", "zero2", "fsdp2"])
            tensor = memopt.fit(path, batch=1, seq=64, ranks=2, tensor=2, for_device="torch-core")
            one = memopt.fit(path, batch=1, seq=64, for_device="torch-core")
            self.assertEqual(tensor.parameters, one.parameters)
            self.assertLess(tensor.peak, 0.55 * one.peak)
            with self.assertRaisesRegex(ValueError, '"num_attention_heads" is 4, which tensor=3 does not divide'):
                memopt.fit(path, ranks=3, tensor=3)
            self.assertLess(memopt.fit(path, batch=1, seq=64, ranks=16, for_device="torch-core").peak, peaks["fsdp2"])


if __name__ == "__main__":
    worker(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

"""Steps of several ranks on paper, held against two ranks that run them."""

from __future__ import annotations

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
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 192, "n_layer": 7, "n_head": 4, "n_positions": 256, "vocab_size": 768, "bos_token_id": 0, "eos_token_id": 0}
CASES = [(LLAMA, 2, 32), (LLAMA, 2, 256), (GPT2, 4, 128)]
PIPELINED = [(LLAMA, 2, 32, 2), (LLAMA, 2, 256, 4)]  # with microbatches
SHARDS = ("fsdp2", "zero2", "ddp")


def worker(rank: int, folder: str, port: str) -> None:
    """One of two ranks: the peak of a later step, for each case."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from memopt.torch.fit.models import model_of
    from memopt.torch.fit.request import Request

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2,))
    found = []
    for i, (_, batch, seq) in enumerate(CASES):
        for shard in SHARDS:
            meta = model_of(Request(os.path.join(folder, f"{i}.json"))).module
            torch.manual_seed(0)
            module = type(meta)(meta.config).train()
            model = module
            if shard == "ddp":
                model = torch.nn.parallel.DistributedDataParallel(module)
            else:
                for block in module.model.layers if hasattr(module, "model") else module.transformer.h:
                    fully_shard(block, mesh=mesh, reshard_after_forward=shard == "fsdp2")
                fully_shard(module, mesh=mesh, reshard_after_forward=shard == "fsdp2")
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
            found.append(held + min(peaks))
    for i, (_, batch, seq, microbatches) in enumerate(PIPELINED):
        found.append(pipelined(os.path.join(folder, f"{len(CASES) + i}.json"), rank, batch, seq, microbatches))
    with open(os.path.join(folder, f"rank{rank}"), "w") as f:
        json.dump(found, f)
    dist.destroy_process_group()


def pipelined(path: str, rank: int, batch: int, seq: int, microbatches: int) -> int:
    """The peak of one of two stages that run one forward and one backward pass in turn."""
    import torch
    import torch.distributed as dist

    from memopt.torch.fit.models import model_of
    from memopt.torch.fit.request import Request
    from memopt.torch.record.measure import watched

    meta = model_of(Request(path)).module
    torch.manual_seed(0)
    whole = type(meta)(meta.config).train()
    half = len(whole.model.layers) // 2
    width = whole.config.hidden_size
    ids = torch.ones(batch, seq, dtype=torch.long)
    where = torch.arange(seq)[None]
    stage = torch.nn.ModuleList([whole.model.embed_tokens, *whole.model.layers[:half]] if rank == 0 else [*whole.model.layers[half:], whole.model.norm, whole.lm_head])

    def through(h, layers):
        position = whole.model.rotary_emb(h, where)
        for layer in layers:
            h = layer(h, position_embeddings=position, attention_mask=None)
        return h

    sent: list[dist.Work] = []  # which hold nothing that is not alive
    alive: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward():
        if rank == 0:
            out = through(whole.model.embed_tokens(ids), whole.model.layers[:half])
            sent.append(dist.isend(out.detach(), 1))
            alive.append((out, out))
            return
        received = torch.empty(batch, seq, width)
        dist.recv(received, 0)
        received.requires_grad_()
        out = through(received, whole.model.layers[half:])
        loss = whole.loss_function(logits=whole.lm_head(whole.model.norm(out)), labels=ids, vocab_size=whole.config.vocab_size)
        del out
        alive.append((received, loss))

    def backward():
        received, out = alive.pop(0)
        if rank == 0:
            gradient = torch.empty(batch, seq, width)
            dist.recv(gradient, 1)
            del received
            sent.pop(0).wait()
            out.backward(gradient)
        else:
            out.backward()
            dist.send(received.grad, 0)

    def step():
        ahead = 1 - rank
        for _ in range(ahead):
            forward()
        for i in range(microbatches):
            if i + ahead < microbatches:
                forward()
            backward()

    step()  # which makes the gradients
    with watched() as seen:
        step()
    held = sum(p.nbytes + p.grad.nbytes for p in stage.parameters()) + sum(b.nbytes for b in whole.model.rotary_emb.buffers())
    return held + seen.peak


class TestRanks(unittest.TestCase):
    def test_as_measured(self):
        """The peak of a rank is within 2 % of that of one which runs."""
        with tempfile.TemporaryDirectory() as folder:
            for i, config in enumerate([c[0] for c in [*CASES, *PIPELINED]]):
                with open(os.path.join(folder, f"{i}.json"), "w") as f:
                    json.dump(config, f)
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = str(s.getsockname()[1])
            ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, str(rank), folder, port], stderr=subprocess.PIPE, text=True) for rank in range(2)]
            for rank in ranks:
                _, errors = rank.communicate(timeout=600)
                self.assertEqual(rank.returncode, 0, errors[-2000:])
            both = []
            for rank in range(2):
                with open(os.path.join(folder, f"rank{rank}")) as f:
                    both.append(json.load(f))
            measured = iter(both[0])
            for i, (_, batch, seq) in enumerate(CASES):
                for shard in SHARDS:
                    found = memopt.fit(os.path.join(folder, f"{i}.json"), batch=batch, seq=seq, ranks=2, shard=shard, optimizer="none", for_device="torch-core")
                    was = next(measured)
                    paper = next(p.total for p in found.phases if p.name == "later steps")
                    with self.subTest(case=i, shard=shard):
                        self.assertLess(abs(paper / was - 1), 0.02, f"{paper} on paper, {was} measured, {paper / was - 1:+.2%}")

            for i, (_, batch, seq, microbatches) in enumerate(PIPELINED, len(CASES)):
                found = memopt.fit(os.path.join(folder, f"{i}.json"), batch=batch, seq=seq, ranks=2, pipeline=2, microbatches=microbatches, optimizer="none", for_device="torch-core")
                was = max(ranks[i - len(CASES) - len(PIPELINED)] for ranks in both)
                paper = next(p.total for p in found.phases if p.name == "later steps")
                with self.subTest(case=i, pipeline=2):
                    self.assertLess(abs(paper / was - 1), 0.02, f"{paper} on paper ({found.rank}), {was} measured, {paper / was - 1:+.2%}; {both}")

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
    worker(int(sys.argv[1]), sys.argv[2], sys.argv[3])

"""memopt.Module trains as PyTorch does: fifty steps of the models that people train, and what a budget may not change."""

from __future__ import annotations

import unittest

import torch
from models import GPT
from torch import nn
from torch.nn import functional as F

import memopt
from served import Served


class Bert(nn.Module):
    """An encoder with a padding mask, and classes of the first token."""

    def __init__(self, width=32, words=50, dropout=0.0):
        super().__init__()
        self.word, self.position = nn.Embedding(words, width, padding_idx=0), nn.Embedding(16, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, ids):
        x = self.ln(self.word(ids) + self.position.weight[: ids.shape[1]])
        return self.head(self.encoder(x, src_key_padding_mask=ids == 0)[:, 0])


class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.down = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if a != b else nn.Identity()

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True))) + self.down(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.drop, self.fc = nn.Dropout(dropout), nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(self.drop(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1)))


def texts(steps, words=300, rows=4, length=32):
    return [(torch.randint(0, words, (rows, length)), torch.randint(0, words, (rows, length))) for _ in range(steps)]


def pictures(steps, rows=8):
    return [(torch.randn(rows, 3, 16, 16), torch.randint(0, 5, (rows,))) for _ in range(steps)]


class FiftySteps(Served):
    def test_gpt(self):
        served, plain = self.pair(GPT(dropout=0.0))
        self.train(served, plain, texts(50), lambda m, x, y: m(x, y))

    def test_bert(self):
        served, plain = self.pair(Bert())
        batches = []
        for x, _ in texts(50, 50, 6, 12):
            x[:, 8:] *= torch.randint(0, 2, (6, 4))
            batches.append((x, torch.randint(0, 3, (6,))))
        self.train(served, plain, batches, lambda m, x, y: F.cross_entropy(m(x), y))

    def test_resnet(self):
        served, plain = self.pair(ResNet())
        self.train(served, plain, pictures(50), lambda m, x, y: F.cross_entropy(m(x), y))
        self.assert_buffers(served, plain, 1e-3)
        self.assertEqual(served.stem[1].num_batches_tracked, 50)


@unittest.skipUnless(any(d["kind"] == "vulkan" for d in memopt.info()["devices"]), "there is no Vulkan device")
class OnVulkan(Served):
    def test_resnet(self):
        served, plain = self.pair(ResNet(), device="vulkan")
        self.train(served, plain, pictures(5), lambda m, x, y: F.cross_entropy(m(x), y))
        self.assert_buffers(served, plain, 1e-3)
        self.assertEqual(served.report.device, "vulkan")

    def test_gpt(self):
        served, plain = self.pair(GPT(dropout=0.0), device="vulkan")
        self.train(served, plain, texts(5), lambda m, x, y: m(x, y))


class Budget(Served):
    def steps(self, model, batches, **settings):
        served, _ = self.pair(model, **settings)
        torch.manual_seed(3)
        optimizer = torch.optim.AdamW(served.parameters(), 1e-3)
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            loss = served(*batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.clone() for p in served.parameters()], served.report

    def test_same_bits_in_60_percent(self):
        batches = texts(4)
        torch.manual_seed(1)
        want, weights, all_kept = self.steps(GPT(), batches)
        torch.manual_seed(1)
        got, others, report = self.steps(GPT(), batches, activation_budget="60%")
        self.assertEqual(got, want)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(weights, others, strict=True)))
        self.assertLessEqual(report.measured_peak, 0.6 * all_kept.measured_peak)
        self.assertEqual(report.measured_peak, report.promised_peak)
        self.assertGreater(report.overhead, 0)

    def test_how_weights_come(self):
        """What loading takes is promised by the mode's formula beside what it took, and weights have the same bits."""
        batches = texts(2)
        torch.manual_seed(1)
        want, _, streamed = self.steps(GPT(), batches)
        torch.manual_seed(1)
        got, _, report = self.steps(GPT(), batches, load_mode="eager")
        self.assertEqual(got, want)
        self.assertEqual((report.load["mode"], report.load["formula"]), ("eager", "2W + A + w"))
        self.assertEqual(report.load["promised"], report.load["measured"])
        self.assertGreater(report.load["promised"], 0)
        self.assertIn("while loading (eager: 2W + A + w): promised", str(report))
        self.assertNotIn("loading", str(streamed))

    def test_dropout_repeats_with_the_seed(self):
        served, _ = self.pair(ResNet(dropout=0.5))
        (x, y), *_ = pictures(1)

        def loss(seed):
            torch.manual_seed(seed)
            return F.cross_entropy(served(x), y).item()

        self.assertEqual(loss(1), loss(1))
        self.assertNotEqual(loss(1), loss(2))


if __name__ == "__main__":
    unittest.main()

"""Records the training steps of this folder again: python record.py [NAME…], with torch, torchvision, transformers and plugin/python on the path.

Tensors have no bytes while a step is recorded, so any machine records any size within seconds and gets the same file. Work space of
kernels is not in such a step. Losses are means over all that a model gives, so that a batch needs no labels.
"""

import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torchvision
import transformers
from torch import nn

from memopt.torch.ask.feasible import fake_recording

HERE = pathlib.Path(__file__).resolve().parent / "steps"


class UNet(nn.Module):
    """U-Net (Ronneberger et al., 2015) with padding and batch normalisation: 64 to 1024 channels, four levels."""

    def __init__(self, channels=64, levels=4, classes=2):
        super().__init__()
        widths = [channels << i for i in range(levels + 1)]
        self.down = nn.ModuleList(self.pair(a, b) for a, b in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(self.pair(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(channels, classes, 1)

    @staticmethod
    def pair(a, b):
        return nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
            nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x):
        skips = []
        for i, pair in enumerate(self.down):
            x = pair(x if i == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips[:-1])):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class LSTM(nn.Module):
    """A model of language of two layers of LSTM cells, unrolled."""

    def __init__(self, vocab=2000, width=512, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cells = nn.ModuleList(Cell(width) for _ in range(layers))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        states = [(torch.zeros(len(ids), self.embed.embedding_dim),) * 2 for _ in self.cells]
        outs = []
        for x in self.embed(ids).unbind(1):
            for i, cell in enumerate(self.cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
            outs.append(self.head(x))
        return torch.stack(outs, 1)


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input, self.hidden = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x, state):
        h, c = state
        i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def images(batch, size=224):
    return (torch.empty(batch, 3, size, size),), {}


def tokens(batch, length, **more):
    ids = torch.zeros(batch, length, dtype=torch.long)
    return (), {"input_ids": ids, "labels": ids, **more}


def mobilenet():
    # A recording of tensors without bytes takes ReLU6 in place, whose operand autograd clones, as an operator that may not run again.
    model = torchvision.models.mobilenet_v2()
    for module in model.modules():
        if isinstance(module, nn.ReLU6):
            module.inplace = False
    return model


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))


def t5():
    return transformers.T5ForConditionalGeneration(transformers.T5Config(use_cache=False, decoder_start_token_id=0))  # the defaults are T5-small


def llama():
    # TinyLlama's widths: 32 heads that share 4 keys and values.
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=32, num_key_value_heads=4, vocab_size=32000, use_cache=False,
    ))  # fmt: skip


def mamba():
    # The sequential scan, as nothing else runs on a processor: nodes for each token.
    return transformers.MambaForCausalLM(transformers.MambaConfig(vocab_size=8192, hidden_size=768, num_hidden_layers=4, use_cache=False))


STEPS = {
    "resnet50": (torchvision.models.resnet50, lambda: images(32)),
    "densenet121": (torchvision.models.densenet121, lambda: images(32)),
    "googlenet": (lambda: torchvision.models.googlenet(aux_logits=False, init_weights=False), lambda: images(32)),
    "inception": (lambda: torchvision.models.inception_v3(aux_logits=False, init_weights=False), lambda: images(16, 299)),
    "mobilenet": (mobilenet, lambda: images(32)),
    "unet": (UNet, lambda: images(8, 256)),
    "vit": (vit, lambda: ((), {"pixel_values": images(32)[0][0], "labels": torch.zeros(32, dtype=torch.long)})),
    "t5": (t5, lambda: tokens(8, 512)),
    "llama": (llama, lambda: tokens(8, 1024)),
    "lstm-lm": (LSTM, lambda: ((torch.zeros(64, 24, dtype=torch.long),), {})),
    "mamba": (mamba, lambda: tokens(16, 64)),
}


def loss(out):
    return out.loss if getattr(out, "loss", None) is not None else out.float().square().mean()


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or STEPS:
        build, batch = STEPS[name]
        with torch.device("meta"):
            model = build().train()
            args, kwargs = batch()
        step = fake_recording(model, args, kwargs, loss, "cpu")
        step.graph["model"] = name
        step.save(HERE / f"{name}.json.gz")
        print(f"{name}: {step}")


if __name__ == "__main__":
    main()

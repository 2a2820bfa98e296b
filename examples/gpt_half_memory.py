"""A GPT trained in half the memory that it takes: parameters, gradients, optimizer states and activations together.

    python examples/gpt_half_memory.py

Needs memopt and PyTorch. Runs on a processor in seconds; the losses are those of plain training, bit for bit.
"""

import torch
from torch import nn
from torch.nn import functional as F

import memopt


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        q, k, v = (y.view(rows, length, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(width, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(rows, length, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 256, length: int = 128, width: int = 128, heads: int = 4, layers: int = 6) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.token(tokens) + self.place.weight)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def train(budget: str | None, steps: int = 5) -> list[float]:
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(0, 256, (8, 129)) // 4  # a batch, the same again and again
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    if budget is not None:
        report = memopt.optimize(model, budget=budget, sample=(tokens, targets), optimizer=optimizer)  # the one line
        size = 2**20
        print(f"eager     {report.eager_peak / size:7.2f} MiB, {report.fixed / size:.2f} of them parameters and optimizer states")
        print(f"budget    {report.eager_peak / size / 2:7.2f} MiB")
        print(f"promised  {report.promised_peak / size:7.2f} MiB, for {report.overhead:.1%} more compute")
        print(f"measured  {report.measured_peak / size:7.2f} MiB")

    losses = []
    for _ in range(steps):
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.set_num_threads(1)
    plain, planned = train(None), train("50%")
    print("losses   ", *(f"{loss:.4f}" for loss in planned))
    assert planned == plain, plain
    print("the same as in eager mode, bit for bit")


if __name__ == "__main__":
    main()

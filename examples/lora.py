"""LoRA within a budget: the base model is frozen, and nothing that only its weights' gradients would need is kept.

    python examples/lora.py

Needs memopt, PyTorch, transformers and peft. Runs on a processor in seconds, with random weights and no network.
"""

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

import memopt

MIB = 2**20


def train(budget: str | None, steps: int = 4) -> list[float]:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=500, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=128
    )
    model = get_peft_model(Qwen3ForCausalLM(config), LoraConfig(r=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.1))
    model.train()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    tokens = torch.randint(0, 500, (8, 128))
    batch = {"input_ids": tokens, "labels": tokens}

    if budget is not None:
        report = memopt.optimize(model, budget=budget, sample=batch, optimizer=optimizer)
        print(f"eager     {report.eager_peak / MIB:7.2f} MiB, {report.fixed / MIB:.2f} of them parameters and optimizer states")
        print(f"budget    {float(budget[:-1]) / 100 * report.eager_peak / MIB:7.2f} MiB")
        print(f"promised  {report.promised_peak / MIB:7.2f} MiB, for {report.overhead:.1%} more compute")
        print(f"measured  {report.measured_peak / MIB:7.2f} MiB")

    losses = []
    for _ in range(steps):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.set_num_threads(1)
    plain, planned = train(None), train("50%")
    assert planned == plain, (planned, plain)
    print("losses    the same as without memopt, bit for bit")


if __name__ == "__main__":
    main()

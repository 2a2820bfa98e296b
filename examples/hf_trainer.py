"""A Llama trained by transformers.Trainer within a budget: one callback.

    python examples/hf_trainer.py

Needs memopt, PyTorch, transformers and accelerate. Runs on a processor in seconds, with random weights and no network.
"""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

import memopt

MIB = 2**20


class Text(torch.utils.data.Dataset):
    """Random text; take yours."""

    def __init__(self) -> None:
        self.tokens = torch.randint(0, 500, (64, 128), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


def train(callbacks: list) -> list[float]:
    set_seed(0)
    config = LlamaConfig(
        vocab_size=500, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=8, max_steps=5, logging_steps=1, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
            dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=Text(), callbacks=callbacks)
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main() -> None:
    torch.set_num_threads(1)
    plain = train([])
    callback = memopt.TrainerCallback(budget="60%")
    planned = train([callback])

    report = callback.report  # measured in the fourth step: the first is recorded, two more are checked against it
    print(f"eager     {report.eager_peak / MIB:7.2f} MiB, {report.fixed / MIB:.2f} of them parameters and optimizer states")
    print(f"budget    {0.6 * report.eager_peak / MIB:7.2f} MiB")
    print(f"promised  {report.promised_peak / MIB:7.2f} MiB, for {report.overhead:.1%} more compute")
    print(f"measured  {report.measured_peak / MIB:7.2f} MiB")
    assert planned == plain, (planned, plain)
    print("losses    the same as without memopt, bit for bit")


if __name__ == "__main__":
    main()

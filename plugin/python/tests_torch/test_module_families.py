"""memopt.Module on models of transformers with random weights: three steps each, as in PyTorch."""

from __future__ import annotations

import logging
import unittest

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, ViTConfig, ViTForImageClassification

from served import Served

logging.getLogger("transformers").setLevel(logging.ERROR)


class Families(Served):
    def three(self, model, batches):
        served, plain = self.pair(model)
        self.train(served, plain, [(b,) for b in batches], lambda m, b: m(**b).loss)
        return served

    def texts(self, **more):
        made = []
        for _ in range(3):
            ids = torch.randint(3, 99, (2, 16))
            made.append({"input_ids": ids, "labels": ids, **more})
        return made

    def test_gpt2(self):
        config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=99, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
        served = self.three(GPT2LMHeadModel(config), self.texts())
        out = served(**self.texts()[0])
        self.assertEqual(type(out).__name__, "CausalLMOutputWithCrossAttentions")
        self.assertEqual(out.logits.shape, (2, 16, 99))
        self.assertIsNone(out.past_key_values)

    def test_bert(self):
        config = BertConfig(
            num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64, vocab_size=99, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        mask = torch.ones(2, 16, dtype=torch.int64)
        mask[1, 10:] = 0
        self.three(BertForMaskedLM(config), self.texts(attention_mask=mask))

    def test_vit(self):
        config = ViTConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64, image_size=32, patch_size=8)
        self.three(ViTForImageClassification(config), [{"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])} for _ in range(3)])

    def test_llama(self):
        config = LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32, intermediate_size=64, vocab_size=99)
        self.three(LlamaForCausalLM(config), self.texts())


if __name__ == "__main__":
    unittest.main()

"""Configs of well-known models, written down here: `memopt fit --list`."""

from __future__ import annotations

from typing import Any


def _llama(hidden: int, ffn: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "dtype": "bfloat16", **more,
    }  # fmt: skip


def _qwen3(hidden: int, ffn: int, layers: int, heads: int, tied: bool) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads, "head_dim": 128,
        "num_key_value_heads": 8, "vocab_size": 151936, "max_position_embeddings": 40960, "rope_theta": 1000000.0, "tie_word_embeddings": tied, "dtype": "bfloat16",
    }  # fmt: skip


# By name: what it is, and its config as transformers or diffusers has it.
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-1b": ("Llama 3.2 of 1.2 B", _llama(2048, 8192, 16, 32, head_dim=64, tie_word_embeddings=True)),
    "llama-8b": ("Llama 3.1 of 8 B", _llama(4096, 14336, 32, 32)),
    "llama-70b": ("Llama 3.1 of 70 B", _llama(8192, 28672, 80, 64)),
    "llama-405b": ("Llama 3.1 of 405 B", _llama(16384, 53248, 126, 128)),
    "qwen3-0.6b": ("Qwen3 of 0.6 B", _qwen3(1024, 3072, 28, 16, True)),
    "qwen3-8b": ("Qwen3 of 8 B", _qwen3(4096, 12288, 36, 32, False)),
    "qwen3-32b": ("Qwen3 of 32 B", _qwen3(5120, 25600, 64, 64, False)),
    "mixtral-8x7b": ("Mixtral of 47 B, 8 experts, 2 a token", {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768, "rope_theta": 1000000.0, "dtype": "bfloat16",
    }),
    "gemma3-1b": ("Gemma 3 of 1 B, windows of 512", {
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144, "sliding_window": 512, "max_position_embeddings": 32768, "dtype": "bfloat16",
    }),
    "gemma2-9b": ("Gemma 2 of 9 B", {
        "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000, "sliding_window": 4096, "max_position_embeddings": 8192, "dtype": "bfloat16",
    }),
    "gpt2": ("GPT-2 of 124 M", {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257, "dtype": "float32"}),
    "bert-large": ("BERT of 335 M", {
        "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 30522,
        "max_position_embeddings": 512, "dtype": "float32",
    }),
    "t5-3b": ("T5 of 2.9 B", {
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 16384, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 32,
        "vocab_size": 32128, "decoder_start_token_id": 0, "dtype": "float32",
    }),
    "vit-g": ("ViT-g/14 of 1.0 B", {
        "architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 1408, "intermediate_size": 6144, "num_hidden_layers": 40, "num_attention_heads": 16,
        "image_size": 224, "patch_size": 14, "dtype": "float32",
    }),
    "whisper-large": ("Whisper large of 1.5 B", {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "encoder_attention_heads": 20,
        "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128, "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 51866,
        "decoder_start_token_id": 50258, "dtype": "float32",
    }),
    "sdxl-unet": ("a U-Net as SDXL's, of 2.6 B", {
        "_class_name": "UNet2DConditionModel", "sample_size": 128, "block_out_channels": [320, 640, 1280], "layers_per_block": 2, "cross_attention_dim": 2048,
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"], "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        "transformer_layers_per_block": [1, 2, 10], "attention_head_dim": [5, 10, 20], "use_linear_projection": True, "dtype": "float16",
    }),
}  # fmt: skip

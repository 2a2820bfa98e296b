"""What trainers' configs say that touches memory, as one list of switches: a table of their keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .config import Config, read
from .pipeline import schedule_of


@dataclass(frozen=True)
class Switch:
    """A setting that touches memory."""

    kind: str  # of KINDS
    key: str
    value: Any
    path: str = ""
    fields: dict[str, Any] = field(default_factory=dict)  # of a Request, as it says

    @property
    def text(self) -> str:
        return f"{self.key}={_shown(self.value)}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Kinds of switches. Those of SIZES say what a step is, and the others how it is made to fit.
SIZES = ("batch", "seq")
KINDS = (*SIZES, "accumulate", "precision", "optimizer", "checkpointing", "lora", "ranks", "shard", "states elsewhere", "weights elsewhere", "activations elsewhere", "fused loss", "kernels", "packing", "cache", "compile", "quantized")

_OPTIMIZERS = (
    (r"(adamw?|adam)_?(bnb_8bit|8bit|torch_8bit)|paged_adamw?_8bit|(paged)?adamw?8bit|bitsandbytes\.optim\.(paged)?adamw?8bit|torchao\.optim\.adamw8bit|adamw_torch_8bit", "adamw8bit"),
    (r"adamw_torch_fused|adamw_fused|fusedadam|torch\.optim\.adamw\(fused\)", "adamw-fused"),
    (r"adamw(_torch|_hf|_apex_fused)?|torch\.optim\.adamw|adamw_torch_xla", "adamw"),
    (r"adam|torch\.optim\.adam", "adam"),
    (r"adafactor", "adafactor"),
    (r"lion(_32bit)?", "lion"),
    (r"sgd|torch\.optim\.sgd", "sgd"),
)
_PRECISIONS = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "float16": "float16", "fp32": "float32", "float32": "float32", "no": None, "none": None, "auto": "bfloat16"}


_REPLICAS = "replicas"  # of the ranks that have the whole model together


def _whole(kind: str) -> Callable[[Config, str], dict[str, Any]]:
    return lambda c, key: {kind: c.whole(key)}


def _optimizer(c: Config, key: str) -> dict[str, Any]:
    if not isinstance(c.keys[key], str):
        raise c.wrong(key, "it is the name of an optimizer")
    name = c.keys[key].lower()
    return next(({"optimizer": found} for pattern, found in _OPTIMIZERS if re.fullmatch(pattern, name)), {})


def _autocast(dtype: str) -> Callable[[Config, str], dict[str, Any]]:
    """bf16: true, which calculates in it on weights of float32."""
    return lambda c, key: {"autocast": dtype} if c.keys[key] == "auto" or c.on(key) else {}


def _weights(dtype: str) -> Callable[[Config, str], dict[str, Any]]:
    """bf16: true, which has weights of it."""
    return lambda c, key: {"dtype": dtype} if c.keys[key] in ("auto", "full") or c.on(key) else {}


def _typed(into: str) -> Callable[[Config, str], dict[str, Any]]:
    def read(c: Config, key: str) -> dict[str, Any]:
        value = str(c.keys[key]).lower().removeprefix("torch.")
        if value not in _PRECISIONS:
            raise c.wrong(key, f"there are {', '.join(sorted(_PRECISIONS))}")
        return {into: _PRECISIONS[value]} if _PRECISIONS[value] else {}

    return read


def _zero(c: Config, key: str) -> dict[str, Any]:
    value = c.keys[key]
    stages: dict[Any, dict[str, Any]] = {0: {"shard": "ddp"}, 1: {"shard": "zero1"}, 2: {"shard": "zero2"}, 3: {"shard": "fsdp2"}}
    if isinstance(value, bool) or str(value) not in map(str, stages):
        raise c.wrong(key, "there are stages 0, 1, 2 and 3")
    return stages[int(value)]


_STRATEGIES = {"FULL_SHARD": "fsdp2", "HYBRID_SHARD": "fsdp2", "HYBRID_SHARD_ZERO2": "zero2", "SHARD_GRAD_OP": "zero2", "NO_SHARD": "ddp"}
_NUMBERED = {"1": "FULL_SHARD", "2": "SHARD_GRAD_OP", "3": "NO_SHARD", "4": "HYBRID_SHARD", "5": "HYBRID_SHARD_ZERO2"}  # as accelerate counts them


def _sharded(c: Config, key: str) -> dict[str, Any]:
    value = c.keys[key]
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        return {}
    words = [str(w) for w in value] if isinstance(value, list) else re.split(r"[ ,]+", str(value).strip())
    if key != "fsdp":
        words = [_NUMBERED.get(w, w) for w in words]
    others = ("AUTO_WRAP", "OFFLOAD") if key == "fsdp" else ()
    if not all(w.upper() in _STRATEGIES or w.upper() in others for w in words):
        known = ", ".join(w.lower() for w in (*_STRATEGIES, *others))
        raise c.wrong(key, f"there are {known}" + (", and true" if key == "fsdp" else ""))
    return next(({"shard": _STRATEGIES[w.upper()]} for w in words if w.upper() in _STRATEGIES), {})


def _schedule(c: Config, key: str) -> dict[str, Any]:
    try:
        return {"schedule": schedule_of(str(c.keys[key])).name}
    except ValueError as e:
        raise c.wrong(key, str(e).partition("; ")[2]) from None


def _elsewhere(c: Config, key: str) -> dict[str, Any]:
    return {}


_MODES = ("full", "selective", "memory_budget", "op", "offload", "offload_disk", "unsloth", "true", "false", "yes", "no", "on", "off")


def _checkpoints(c: Config, key: str) -> dict[str, Any]:
    value = c.keys[key]
    if not isinstance(value, bool) and not (isinstance(value, str) and (value.lower() in _MODES or value.isdigit())):
        raise c.wrong(key, "it is true, false, or a trainer's name of what is kept: " + ", ".join(_MODES[:7]))
    return {}


# (keys, kind, what a Request has of it). A key is a pattern of the dotted one.
_ROWS: tuple[tuple[str, str, Callable[[Config, str], dict[str, Any]]], ...] = (
    (r"per_device_train_batch_size|micro_batch_size|train_micro_batch_size_per_gpu|batch_size|training\.(local_)?batch_size", "batch", _whole("batch")),
    (r"max_length|max_seq_length|sequence_len|cutoff_len|tokenizer\.max_seq_len|training\.seq_len|max_seq_len", "seq", _whole("seq")),
    (r"gradient_accumulation_steps", "accumulate", _whole("accumulate")),
    (r"optim|optimizer|optimizer\._component_|optimizer\.name|optimizer\.type", "optimizer", _optimizer),
    (r"bf16\.enabled", "precision", _weights("bfloat16")), (r"fp16\.enabled", "precision", _weights("float16")),
    (r"bf16|bfloat16", "precision", _autocast("bfloat16")), (r"fp16|float16", "precision", _autocast("float16")),
    (r"mixed_precision", "precision", _typed("autocast")), (r"training\.mixed_precision_param", "precision", _typed("param_dtype")),
    (r"training\.mixed_precision_reduce", "precision", _typed("reduce_dtype")), (r"dtype|torch_dtype|training\.dtype", "precision", _typed("dtype")),
    (r"(gradient|activation)_checkpointing|activation_checkpoint\.mode|enable_activation_checkpointing|ac_mode|fsdp_config\.(fsdp_)?activation_checkpointing", "checkpointing", _checkpoints),
    (r"lora_r|model\.lora_rank", "lora", _whole("lora")),
    (r"num_processes", "ranks", _whole("ranks")), (r"parallelism\.data_parallel_shard_degree", "ranks", _whole(_REPLICAS)),
    (r"parallelism\.tensor_parallel_degree|tensor_parallel_size", "ranks", lambda c, key: {"tensor": c.whole(key)}),
    (r"parallelism\.pipeline_parallel_degree", "ranks", lambda c, key: {"pipeline": c.whole(key)}),
    (r"parallelism\.pipeline_parallel_schedule", "ranks", _schedule),
    (r"parallelism\.expert_parallel_degree", "ranks", lambda c, key: {"expert": c.whole(key)}),
    (r"zero_optimization\.stage|deepspeed_config\.zero_stage|zero_stage", "shard", _zero),
    (r"fsdp|fsdp_config\.fsdp_sharding_strategy", "shard", _sharded),
    (r"fsdp_config\.fsdp_version|fsdp_config\.(fsdp_)?reshard_after_forward", "shard", lambda c, key: {"shard": "fsdp2"} if str(c.keys[key]) in ("2", "True", "true", "FULL_SHARD") else {}),
    (r"zero_optimization\.offload_optimizer\.device|deepspeed_config\.offload_optimizer_device", "states elsewhere", _elsewhere),
    (r"zero_optimization\.offload_param\.device|deepspeed_config\.offload_param_device|fsdp_config\.(fsdp_)?offload_params|fsdp_cpu_offload|training\.enable_cpu_offload", "weights elsewhere", _elsewhere),
    (r"activation_offloading|enable_activation_offloading", "activations elsewhere", _elsewhere),
    (r"use_liger_kernel|liger_fused_linear_cross_entropy|cut_cross_entropy|loss\.num_output_chunks|liger_kernel_config\.fused_linear_cross_entropy", "fused loss", _elsewhere),
    (r"liger_(rope|rms_norm|layer_norm|glu_activation|swiglu)|liger_kernel_config\.\w+", "kernels", _elsewhere),
    (r"packing|sample_packing|dataset\.packed|group_by_length|pad_to_sequence_len", "packing", _elsewhere),
    (r"torch_empty_cache_steps", "cache", _elsewhere),
    (r"torch_compile|compile|compile\.enable|training\.compile", "compile", _elsewhere),
    (r"load_in_(4|8)bit|quantization|quantize\.\w+|adapter", "quantized", _elsewhere),
)
_COUNTS = ("accumulate", "ranks")  # kinds of which there is one at least
_OFF = (None, False, "false", "none", "no", "null", "", 0, "False")

# Keys whose values have keys of their own, each with what it may be.
_GROUPS = {
    "zero_optimization": '{"stage": 3}', "zero_optimization.offload_optimizer": '{"device": "cpu"}', "zero_optimization.offload_param": '{"device": "cpu"}', "deepspeed_config": '{"zero_stage": 3}',
    "training": '{"seq_len": 4096}', "parallelism": '{"tensor_parallel_degree": 2}', "fsdp_config": '{"fsdp_version": 2}', "activation_checkpoint": '{"mode": "full"}', "liger_kernel_config": '{"fused_linear_cross_entropy": true}',
}  # fmt: skip
_OPTIONS = {"fsdp": "it is true, or names as \"full_shard auto_wrap\"; what has keys of its own is \"fsdp_config\""}  # keys whose values have none

# Names that may matter to memory; what no row knows of them is told.
_MATTERS = re.compile(
    r"checkpointing|recomput|remat|offload|batch|seq_?len|max_len|(^|[._])(bf16|fp16|fp8|tf32)|precision|dtype|8bit|4bit|quant|optim|shard|fsdp|zero_|accum|pack|liger|attention|attn|cache|chunk|tile|tiling|"
    r"cross_entropy|lora|adapter|parallel|pipeline|buffer|bucket|compile|ema|expert|^deepspeed$"
)
_INERT = re.compile(
    r"eval|predict|adam_(beta|epsilon)|optim(izer)?(\.(lr|weight_decay|betas?\d?|eps|fused|implementation|params\..*)|_args)|dataset(?!\.packed)|dataloader|_kwargs(\.|$)|save|hub|log|pin_memory|lora_(alpha|dropout|target|modules)|lr_|warmup|"
    r"checkpoint\.(?!mode)|activation_checkpoint\.|ac_option|train_batch_size$|ddp_(timeout|backend|find|broadcast)|fsdp_config\.(fsdp_)?(auto_wrap|state_dict|transformer_layer|backward_prefetch|forward_prefetch|use_orig|sync|cpu_ram)|"
    r"zero_optimization\.(overlap|contiguous|reduce|allgather|round|sub_group|stage3_(gather|max_reuse|prefetch|param_pers))|(deepspeed|distributed)_config$|zero_optimization$|fsdp_config$|flash_attention|sdp_attention|attn_implementation|"
    r"zero_optimization\.offload_\w+(\.(pin_memory|buffer\w*|nvme_path|ratio|fast_init))?$|deepspeed_config\.(gradient_accumulation_steps|zero3_\w+)|enable_jit_checkpoint|torch_compile_(backend|mode)|(gradient|activation)_checkpointing_kwargs|restore_callback|local_rank|full_determinism"
)


def switches_of(configs: Sequence[Config]) -> list[Switch]:
    """What configs say that touches memory, and is on; sizes always. Of two that say the same the later one counts."""
    found: dict[tuple[str, str], Switch] = {}
    for c in configs:
        axolotl = "base_model" in c.keys
        for key, value in c.keys.items():
            if key in _GROUPS and not isinstance(value, dict) and value is not None:
                raise c.wrong(key, f"it has keys of its own, as {_GROUPS[key]}")
            row = next((r for r in _ROWS if re.fullmatch(r[0], key)), None)
            if row is None:
                continue
            if isinstance(value, dict):
                if key in _OPTIONS and value:
                    raise c.wrong(key, _OPTIONS[key])
                continue
            kind, fields = row[1], row[2]
            if kind == "quantized" and key == "adapter" and str(value) != "qlora":
                continue
            if value is None or value in _OFF and kind not in SIZES and not key.endswith("stage") and (kind not in _COUNTS or str(value) != "0"):
                continue
            if value == "auto" and kind in (*SIZES, "accumulate"):
                continue  # DeepSpeed's, of TrainingArguments
            if kind == "ranks" and value in (1, -1):
                continue
            if axolotl and key in ("bf16", "fp16", "bfloat16", "float16"):
                fields = _weights("bfloat16" if key.startswith("b") else "float16")
            made = Switch(kind, key, value, c.path, fields(c, key))
            other = next((s for s in found.values() if s.path == c.path and {s.key, key} == {"bf16", "fp16"} and s.fields and made.fields), None)
            if other is not None:
                raise c.wrong(key, f"{other.key} is, too, and a step calculates in one type")
            found[kind, key if kind not in SIZES else ""] = made
    return list(found.values())


def unknown_of(configs: Sequence[Config]) -> Iterator[str]:
    """Keys that may touch memory and that no row knows."""
    for c in configs:
        for key, value in c.keys.items():
            known = any(re.fullmatch(r[0], key) for r in _ROWS)
            if not known and value not in _OFF and not isinstance(value, dict) and _MATTERS.search(key) and not _INERT.search(key):
                yield f"{key}={_shown(value)}"


def configured(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Request, those of its config files among them where nothing else is given."""
    paths = given.get("config") or ()
    if isinstance(paths, str):
        paths = [p for p in paths.split(",") if p]
    fields: dict[str, Any] = {}
    for s in switches_of([read(p) for p in paths]):
        fields.update(s.fields)
    parts = fields.get("tensor", 1) * fields.get("pipeline", 1)
    least = parts * fields.pop(_REPLICAS, fields.get("expert", 1))
    if "ranks" in fields or least > 1:
        fields["ranks"] = max(fields.get("ranks", 1), least)
    return {**fields, **given, **({"config": tuple(paths)} if paths else {})}

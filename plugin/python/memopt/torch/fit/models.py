"""What MODEL names becomes a module on the meta device, and the inputs of its step."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..._visible import class_of
from ..step.sample import Loss, arguments
from .denoisers import KNOWN, inputs_of
from .experts import count_of
from .presets import PRESETS
from .request import ALONE, Request

META = torch.device("meta")
USUAL_SEQ = 2048  # tokens a row, where nothing says how many
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


@dataclass
class Model:
    """A module without bytes, and what its step reads."""

    name: str
    module: torch.nn.Module
    inputs: Callable[[int, int], tuple[tuple[Any, ...], dict[str, Any]]] = field(repr=False)  # of a batch and a length
    seq: int = 1  # tokens a row, as it is asked
    loss: Loss | None = None
    has_batch: bool = True  # it can be had of any batch
    has_seq: bool = True  # rows have lengths
    most_seq: int | None = None  # that it takes
    config: Mapping[str, Any] = field(repr=False, default_factory=dict)
    dtype: torch.dtype = torch.float32
    parameters: int = 0  # of the whole model, where this is a rank's part of it
    notes: list[str] = field(default_factory=list)  # what is not as the config says


def model_of(request: Request) -> Model:
    """The module that a request names."""
    name = request.model
    path, colon, function = name.rpartition(":")
    if colon and path.endswith(".py"):
        if request.tensor > 1 or request.pipeline > 1:
            raise ValueError(f"{name}: tensor and pipeline divide a config's model; give the function's module as one rank has it")
        return _from_file(request, path, function)
    if name in PRESETS:
        return _from_config(request, PRESETS[name][1], name, name)
    where = os.path.expanduser(name)
    if os.path.isdir(where):
        where = os.path.join(where, "config.json")
        if not os.path.exists(where):
            raise ValueError(f"{name} is a folder without a config.json: give the folder of a model as transformers or diffusers saves it")
    if not os.path.exists(where):
        raise ValueError(f"{name!r} is no file and no preset: give a config.json, its folder, file.py:function, or one of {', '.join(PRESETS)}")
    if where.endswith(".py"):
        raise ValueError(f"{name}: say which function makes the module and its batch, as in {name}:make")
    if where.lower().endswith((".onnx", ".gz")):
        raise ValueError(f"{name} is no config: memopt fit answers for ONNX files and recorded steps on the command line, and memopt.frontier from Python")
    folder, file = os.path.split(os.path.abspath(where))
    return _from_config(request, _read(where), where, os.path.basename(folder) or name if file == "config.json" else os.path.splitext(file)[0])


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8-sig") as f:
            found = json.loads(f.read(16 << 20))
    except UnicodeDecodeError as e:
        raise ValueError(f"{path}: is no text ({e}); give a config.json") from None
    except json.JSONDecodeError as e:
        raise ValueError(f"{path}:{e.lineno}:{e.colno}: is no JSON: {e.msg}") from None
    except RecursionError:
        raise ValueError(f"{path}: has more brackets within brackets than can be read; give a config.json") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: is no object of JSON, as a model's config is")
    return found


def _from_config(request: Request, given: Mapping[str, Any], where: str, name: str) -> Model:
    if (request.tensor > 1 or request.pipeline > 1) and "_class_name" not in given:
        whole = _from_config(replace(request, **ALONE, lora=0), given, where, name)
        _check_experts(request, whole.module, where, str(given.get("model_type")))
        part = _from_config(replace(request, **ALONE), _divided(request, given, whole, where), where, name)
        part.parameters = sum(p.numel() for p in whole.module.parameters())
        return part
    given = dict(given)
    dtype = _dtype(request, given, where)
    if "_class_name" in given:
        if request.tensor > 1 or request.pipeline > 1:
            raise ValueError(f"{where}: tensor and pipeline divide models of transformers, not of diffusers")
        return _diffusers(request, given, where, name, dtype)
    try:
        import transformers
    except ImportError as e:
        raise ValueError(f"{where}: a model's config needs transformers to become a module, and it is not installed ({e}); pip install transformers, or give file.py:function") from None
    transformers.utils.logging.set_verbosity_error()
    kind = given.get("model_type")
    if not isinstance(kind, str):
        raise ValueError(f"{where}: has no \"model_type\" (transformers) and no \"_class_name\" (diffusers), which say what model it is")
    _check_sizes(given, where)
    try:
        with _quiet():
            config = transformers.AutoConfig.for_model(kind, **{k: v for k, v in given.items() if k not in ("model_type", "dtype", "torch_dtype")}, dtype=str(dtype).removeprefix("torch."))
    except Exception as e:  # of whatever class: it is the file's
        raise ValueError(f"{where}: {_said(e, kind, given)}") from None
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for each in {id(config): config, id(text): text}.values():
        each.dtype = dtype  # which transformers heeds above the default
        if getattr(each, "use_cache", False):
            each.use_cache = False  # as trainers have it
    notes = _with_all_layers(config)
    quantized = given.get("quantization_config")
    if quantized:
        how = quantized.get("quant_method") if isinstance(quantized, Mapping) else None
        notes.append(f"\"quantization_config\"{f' ({how})' if isinstance(how, str) else ''} is not modelled: weights are counted whole, in {str(dtype).removeprefix('torch.')}")
    if request.attention:
        config._attn_implementation = request.attention
    cls = _class(transformers, given, config, where)
    if cls.__name__ not in (given.get("architectures") or ()):
        notes.append(f"the config names no class with a loss: this is a step of {cls.__name__}; \"architectures\" says another")
    if getattr(cls, "_can_set_experts_implementation", bool)():
        for each in {id(config): config, id(text): text}.values():
            if any(getattr(each, key, None) for key in ("num_local_experts", "num_experts", "n_routed_experts")):
                each._experts_implementation = "grouped_mm"  # whose sizes do not depend on what tokens say
    with _making(dtype):
        try:
            module = cls._from_config(config) if hasattr(cls, "_from_config") else cls.from_config(config)
        except Exception as e:
            raise ValueError(f"{where}: {cls.__name__} cannot be made of it: {_said(e, kind, given)}") from None
    module.train()
    if request.checkpointing:
        module.gradient_checkpointing_enable()
    if request.lora:
        module = _adapted(module, request.lora, dtype)
    most = next((n for key in ("max_position_embeddings", "n_positions", "max_target_positions") if isinstance(n := getattr(text, key, None), int) and n > 0), None)
    _check_experts(request, module, where, kind)
    main = getattr(module, "main_input_name", "input_ids")
    inputs, has_seq = _inputs(main, config, text, module, where, dtype)
    seq = request.seq or min(most or USUAL_SEQ, USUAL_SEQ)
    if has_seq and most is not None and seq > most and getattr(text, "rope_parameters", None) is None:
        raise ValueError(f"{where}: seq is {seq}, and the model has {most} positions: give at most --seq {most}")
    return Model(name, module, inputs, seq if has_seq else 1, None, has_seq=has_seq, most_seq=most, config=given, dtype=dtype, notes=notes)


def _with_all_layers(config: Any) -> list[str]:
    """Has no layer left out by chance, as some are in training: the step that has all of them takes the most."""
    found = []
    for key, value in list(vars(config).items()):
        if key.endswith(("layerdrop", "layer_drop")) and value:
            setattr(config, key, 0.0)
            found.append(f"\"{key}\" is {value}: steps leave out layers by chance; this is a step with all of them")
        elif hasattr(value, "model_type"):  # a config of a part
            found += _with_all_layers(value)
    return found


def _check_experts(request: Request, module: torch.nn.Module, where: str, kind: str) -> None:
    experts = count_of(module)
    if request.expert > 1 and (not experts or experts % request.expert):
        raise ValueError(f"{where}: expert={request.expert} divides a layer's experts, of which a {kind} has {experts or 'none'}")


def _divided(request: Request, given: Mapping[str, Any], whole: Model, where: str) -> dict[str, Any]:
    """The config of one rank's part: heads, widths and words divided among tensor-parallel ranks, layers among stages."""
    config: Any = whole.module.config
    found = dict(given)
    if request.tensor > 1:
        if not all(isinstance(getattr(config, key, None), int) for key in ("num_attention_heads", "num_key_value_heads", "intermediate_size", "head_dim")):
            raise ValueError(f"{where}: tensor={request.tensor} divides heads, and a {given['model_type']} does not say \"head_dim\", \"num_key_value_heads\" and \"intermediate_size\" apart from its width")
        found["head_dim"] = config.head_dim
        for key in ("num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size"):
            n = getattr(config, key)
            if n % request.tensor and not (key == "num_key_value_heads" and n < request.tensor):
                raise ValueError(f"{where}: \"{key}\" is {n}, which tensor={request.tensor} does not divide")
            found[key] = max(1, n // request.tensor)
        for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
            found[key] = None  # whose numbers are of all words
    if request.pipeline > 1:
        layers = getattr(config, "num_hidden_layers", None)
        if not isinstance(layers, int) or layers < request.pipeline or getattr(config, "is_encoder_decoder", False):
            raise ValueError(f"{where}: pipeline={request.pipeline} divides \"num_hidden_layers\", which is {layers}")
        found["num_hidden_layers"] = -(-layers // request.pipeline)
        if isinstance(found.get("layer_types"), list):
            found["layer_types"] = found["layer_types"][: found["num_hidden_layers"]]
    return found


def _dtype(request: Request, given: Mapping[str, Any], where: str) -> torch.dtype:
    said = request.made or given.get("dtype") or given.get("torch_dtype") or "float32"
    said = str(said).removeprefix("torch.")
    if said not in DTYPES:
        raise ValueError(f"{where}: \"dtype\" is {said!r}, in which no step is trained; there are {', '.join(DTYPES)}")
    return DTYPES[said]


def _said(e: Exception, kind: str, given: Mapping[str, Any]) -> str:
    text = " ".join(str(e).split())
    if isinstance(e, KeyError) and text == repr(kind) or "Unrecognized model identifier" in text or "is not a valid model" in text:
        from difflib import get_close_matches

        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

        near = get_close_matches(kind, CONFIG_MAPPING_NAMES, 3)
        return f"\"model_type\" is {kind!r}, which this transformers does not know" + (f"; near it are {', '.join(near)}" if near else "")
    if isinstance(e, KeyError):
        key = next(_with_value(given, e.args[0] if e.args else None), None)
        return f"\"{key}\" is {text[:400]}, which this transformers does not know" if key else f"it has no {text[:400]}"
    return text[:400]


def _with_value(given: Mapping[str, Any], value: Any) -> Iterator[str]:
    """The keys that have a value, those within others dotted."""
    for key, found in given.items():
        if isinstance(found, Mapping):
            yield from (f"{key}.{inner}" for inner in _with_value(found, value))
        elif found == value and type(found) is type(value):
            yield key


_SIZES = re.compile(r"(.*_)?(hidden_size|intermediate_size|vocab_size|head_dim|d_model|d_ff|d_kv|n_embd)|(n|num)_(.*_)?(layers?|heads?|experts|positions)|(encoder|decoder)_(layers|attention_heads|ffn_dim)|max_position_embeddings")
_NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "d_model", "num_layers", "num_heads", "n_embd", "n_layer", "n_head")
_MOST = {"layer": 10_000}  # by what a key counts
_MOST_SIZE = 1 << 32


def _check_sizes(given: Mapping[str, Any], where: str) -> None:
    """Sizes that no model has, by their keys."""
    for key, value in given.items():
        if isinstance(value, dict):
            _check_sizes(value, f"{where}: in {key!r}")
        elif isinstance(value, int) and not isinstance(value, bool) and _SIZES.fullmatch(key):
            least = 1 if key in _NEEDED else 0
            most = next((n for word, n in _MOST.items() if word in key), _MOST_SIZE)
            if not least <= value <= most:
                raise ValueError(f"{where}: \"{key}\" is {value}; it is a whole number from {least} to {most:,}")
    heads, groups = given.get("num_attention_heads"), given.get("num_key_value_heads")
    if isinstance(heads, int) and isinstance(groups, int) and groups and heads % groups:
        raise ValueError(f"{where}: \"num_attention_heads\" is {heads}, which \"num_key_value_heads\", {groups}, does not divide")


def _class(transformers: Any, given: Mapping[str, Any], config: Any, where: str) -> Any:
    """The class of the model with its loss."""
    names = given.get("architectures") or ()
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"{where}: \"architectures\" is {names!r}; it is a list of classes of transformers")
    named = []
    for name in names:
        found = getattr(transformers, name, None)
        if found is None:
            raise ValueError(f"{where}: \"architectures\" names {name!r}, which this transformers does not have")
        if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
            raise ValueError(f"{where}: \"architectures\" names {name!r}, which is no class of a model")
        if _has_loss(found):
            return found
        named.append(found)
    base = transformers.AutoModel._model_mapping
    bases = _classes(base[type(config)]) if type(config) in base else ()
    if bases and _of_pairs(bases[0]):  # its other classes leave out the half that reads words
        return bases[0]
    for cls in named:
        if cls not in bases:  # which may have any head
            raise ValueError(f"{where}: \"architectures\" names {cls.__name__!r}, which makes no loss of labels; name a class that does, or give file.py:function")
    both = ["Seq2SeqLM", "SpeechSeq2Seq"]
    words = ["CausalLM", "MaskedLM"] if getattr(config, "is_decoder", False) else ["MaskedLM", "CausalLM"]
    one = [*words, "ImageClassification", "AudioClassification", "SequenceClassification"]
    segments = transformers.AutoModelForSemanticSegmentation._model_mapping
    for auto in [*both, *one] if getattr(config, "is_encoder_decoder", False) else [*one, *both]:  # a decoder alone is another model
        found = getattr(transformers, f"AutoModelFor{auto}", None)
        if found is None or type(config) not in found._model_mapping:
            continue
        known = _classes(found._model_mapping[type(config)])[0]
        if auto == "ImageClassification" and type(config) in segments:
            others = _classes(segments[type(config)])[0]
            raise ValueError(f"{where}: a {given['model_type']} may be a {known.__name__} or a {others.__name__}, whose steps differ: say which, as in \"architectures\": [\"{known.__name__}\"]")
        return known
    raise ValueError(f"{where}: transformers has no model of {given['model_type']!r} that makes a loss of labels; give file.py:function")


def _classes(known: Any) -> tuple[Any, ...]:
    """What a mapping of transformers has of a config."""
    return tuple(known) if isinstance(known, (list, tuple)) else (known,)


def _has_loss(cls: Any) -> bool:
    return "labels" in inspect.signature(cls.forward).parameters or _of_pairs(cls)


def _of_pairs(cls: Any) -> bool:
    """Whether a class compares pictures with texts, and makes a loss of all pairs."""
    return {"input_ids", "pixel_values", "return_loss"} <= set(inspect.signature(cls.forward).parameters)


def _inputs(main: str, config: Any, text: Any, module: torch.nn.Module, where: str, dtype: torch.dtype) -> tuple[Callable[[int, int], tuple[tuple[Any, ...], dict[str, Any]]], bool]:
    """What makes the inputs, and whether rows have lengths."""
    names = inspect.signature(module.forward).parameters

    def ids(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.long, device=META)

    def tokens(batch: int, seq: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        named = {"input_ids": ids(batch, seq), "labels": ids(batch, seq)}
        if "token_type_ids" in names and "next_sentence_label" not in names or "attention_mask" in names and getattr(config, "is_encoder_decoder", False):
            named["attention_mask"] = ids(batch, seq)
        if type(module).__name__.endswith("ForSequenceClassification"):
            named["labels"] = ids(batch)
        return (), named

    def sound(batch: int, seq: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"input_features": torch.empty(batch, config.num_mel_bins, 2 * config.max_source_positions, dtype=dtype, device=META), "labels": ids(batch, seq)}

    def picture(batch: int, of: Any) -> torch.Tensor:
        size = getattr(of, "image_size", 224)
        sides = size if isinstance(size, (list, tuple)) else (size, size)
        return torch.empty(batch, getattr(of, "num_channels", 3), *sides, dtype=dtype, device=META)

    def pictures(batch: int, _: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        pixels = picture(batch, config)
        return (), {"pixel_values": pixels, "labels": ids(batch, *pixels.shape[2:]) if type(module).__name__.endswith("ForSemanticSegmentation") else ids(batch)}

    length = getattr(text, "max_position_embeddings", 77)  # to which texts beside pictures are padded

    def pairs(batch: int, _: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"input_ids": ids(batch, length), "attention_mask": ids(batch, length), "pixel_values": picture(batch, config.vision_config), "return_loss": True}

    if _of_pairs(type(module)):
        if "spatial_shapes" in names or not hasattr(config, "vision_config"):
            raise ValueError(f"{where}: a {type(module).__name__} reads pictures of many shapes, of which no batch is made here; give file.py:function, which returns the module and a batch")
        return pairs, False
    if main == "input_ids" or "inputs_embeds" in names and main not in ("pixel_values", "input_features"):
        return tokens, True
    if main == "input_features" and hasattr(config, "num_mel_bins"):
        return sound, True
    if main == "pixel_values":
        return pictures, False
    raise ValueError(f"{where}: {type(module).__name__} reads {main!r}, of which no batch is made here; give file.py:function, which returns the module and a batch")


def _diffusers(request: Request, given: dict[str, Any], where: str, name: str, dtype: torch.dtype) -> Model:
    try:
        import diffusers
    except ImportError as e:
        raise ValueError(f"{where}: a config with \"_class_name\" needs diffusers, and it is not installed ({e})") from None
    cls = getattr(diffusers, str(given["_class_name"]), None)
    if cls is None:
        raise ValueError(f"{where}: \"_class_name\" is {given['_class_name']!r}, which this diffusers does not have")
    kind = str(given["_class_name"])
    if kind not in KNOWN:
        raise ValueError(f"{where}: of {kind!r} no batch is made here; there are {', '.join(KNOWN)}; for others give file.py:function, which returns the module and a batch")
    with _making(dtype):
        try:
            module = cls.from_config({k: v for k, v in given.items() if k != "dtype"})
        except Exception as e:
            raise ValueError(f"{where}: {cls.__name__} cannot be made of it: {' '.join(str(e).split())[:400]}") from None
    module.train()
    if request.checkpointing:
        module.enable_gradient_checkpointing()
    inputs = inputs_of(kind, module.config, dtype, where)
    assert inputs is not None
    return Model(name, module, inputs, 1, lambda out: out[0].float().square().mean(), has_seq=False, config=given, dtype=dtype)


_GIVEN = ("batch", "seq")  # arguments of a file's function


def _from_file(request: Request, path: str, function: str) -> Model:
    where = os.path.expanduser(path)
    if not os.path.exists(where):
        raise ValueError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location("memopt_fit_model", where)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
    sys.modules[spec.name] = loaded
    first = (request.batch, request.seq or USUAL_SEQ)
    try:
        try:
            spec.loader.exec_module(loaded)
        except (Exception, SystemExit) as e:  # of whatever class: it is the file's
            raise _of_file(e, path, where, "cannot be loaded") from e
        make = getattr(loaded, function, None)
        if not callable(make):
            raise ValueError(f"{path} has no function {function!r}")
        takes = [k for k in _GIVEN if k in _parameters(make)]
        needs = [k for k, p in _parameters(make).items() if k not in _GIVEN and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if needs:
            raise ValueError(f"{path}:{function} needs {', '.join(needs)}, which nobody gives here: it may take batch and seq, and others have defaults")
        for name, given in (("batch", request.batch != 1), ("seq", request.seq is not None)):
            if given and name not in takes:
                raise ValueError(f"{path}:{function} takes no argument {name}, which is {getattr(request, name)}: give it one, or make the batch of that size in it")
        dtype = DTYPES[request.made] if request.made else torch.get_default_dtype()

        def made(batch: int, seq: int) -> Any:
            sizes = {k: v for k, v in zip(_GIVEN, (batch, seq), strict=True) if k in takes}
            try:
                with torch.device("meta"):
                    found = make(**sizes)
            except (Exception, SystemExit) as e:
                raise _of_file(e, path, where, f"{function} fails") from e
            if not isinstance(found, tuple) or len(found) not in (2, 3) or not isinstance(found[0], torch.nn.Module):
                what = f"a tuple of {', '.join(class_of(x) for x in found)}" if isinstance(found, tuple) else class_of(found)
                raise ValueError(f"{path}:{function} returns {what}; it is to return the module and its batch, and a loss of the module's output if that has none")
            if len(found) == 3 and not callable(found[2]):
                raise ValueError(f"{path}:{function} returns {class_of(found[2])} as its loss; it is a function of the module's output")
            _check_batch(found[1], f"{path}:{function}")
            return found

        with _making(dtype):
            module, batch, *loss = made(*first)
    finally:
        sys.path.pop(0)
    if request.made:
        module.to(dtype)
    else:
        dtype = next((p.dtype for p in module.parameters() if p.dtype in DTYPES.values()), dtype)
    if request.checkpointing:
        if not hasattr(module, "gradient_checkpointing_enable"):
            raise ValueError(f"{path}:{function} returns a {type(module).__name__}, which has no gradient checkpointing to switch on: do so in the function")
        module.gradient_checkpointing_enable()
    if request.lora:
        module = _adapted(module, request.lora, dtype)

    def inputs(n: int, seq: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        asked = n, seq if "seq" in takes else first[1]
        return arguments(batch if asked == first else made(*asked)[1])

    return Model(f"{os.path.basename(path)}:{function}", module, inputs, first[1] if "seq" in takes else 1, loss[0] if loss else None, "batch" in takes, "seq" in takes, dtype=dtype)


def _parameters(make: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(make).parameters
    except (TypeError, ValueError):  # of a class of C's
        return {}


def _of_file(e: BaseException, path: str, where: str, what: str) -> ValueError:
    """An error of a user's file, with its line."""
    at = [(e.filename, e.lineno)] if isinstance(e, SyntaxError) else [(f.filename, f.lineno) for f in reversed(traceback.extract_tb(e.__traceback__))]
    line = next((n for name, n in at if name and os.path.abspath(name) == os.path.abspath(where)), None)
    said = " ".join(str(e).split())[:400]
    return ValueError(f"{path}{f':{line}' if line else ''}: {what}: {type(e).__name__}{f': {said}' if said else ''}")


def _check_batch(batch: Any, where: str) -> None:
    """A batch is what one call of the module is given."""
    if isinstance(batch, Iterator) or isinstance(batch, torch.utils.data.DataLoader):
        raise ValueError(f"{where} returns {class_of(batch)} as its batch; give one batch of it, as next(iter(…)) does")
    if batch is None:
        raise ValueError(f"{where} returns no batch; it is a tensor, a tuple of what the module is given, or a dict of its arguments by name")


def _adapted(module: torch.nn.Module, rank: int, dtype: torch.dtype) -> torch.nn.Module:
    """A module with adapters, which alone are trained."""
    try:
        import peft
    except ImportError as e:
        raise ValueError(f"lora needs peft, and it is not installed ({e})") from None
    with _making(dtype):
        found: torch.nn.Module = peft.get_peft_model(module, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"), autocast_adapter_dtype=False)
    if any(getattr(m, "gradient_checkpointing", False) for m in module.modules()) and hasattr(module, "enable_input_require_grads"):
        module.enable_input_require_grads()  # as trainers do: nothing else before the first block has gradients
    return found


@contextlib.contextmanager
def _making(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"), _quiet():
            yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what libraries say of a config: what is wrong with it is said by us."""
    import logging
    import warnings

    logger = logging.getLogger("transformers")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)

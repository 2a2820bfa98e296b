"""The inputs of diffusers' models: what a step of each reads, by its config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..step.sample import Sample

META = torch.device("meta")
TEXT = 77  # tokens of a text beside a picture, as CLIP's encoders pad it
_LONG_TEXT = {"FluxTransformer2DModel": 512, "SD3Transformer2DModel": TEXT + 256, "PixArtTransformer2DModel": 300}  # as T5's pad it, behind CLIP's
_SIDE = {"FluxTransformer2DModel": 64, "AutoencoderKL": 1024, "VQModel": 256, "AutoencoderTiny": 512}  # of a picture, where the config has none: of 1,024 pixels, of latents of it, or what it is trained on
_MOST_SIDE = 1 << 16

Inputs = Callable[[int, int], Sample]


def inputs_of(name: str, config: Any, dtype: torch.dtype, where: str) -> Inputs | None:
    """What makes the inputs of a class with its config; None for a class of which no batch is known."""
    make = _MAKERS.get(name)
    if make is None:
        return None
    high, wide = _sides(name, config, where)

    def floats(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device=META)

    return lambda batch, _: make(_Batch(name, config, batch, high, wide, floats, where))


class _Batch:
    """A batch to be made."""

    def __init__(self, name: str, config: Any, rows: int, high: int, wide: int, floats: Callable[..., torch.Tensor], where: str) -> None:
        self.name, self.config, self.rows, self.high, self.wide, self.floats, self.where = name, config, rows, high, wide, floats, where

    def picture(self) -> torch.Tensor:
        return self.floats(self.rows, self.config.in_channels, self.high, self.wide)

    def numbers(self) -> torch.Tensor:
        """One whole number a row: its time, or its class."""
        return torch.empty(self.rows, dtype=torch.long, device=META)

    def text(self, width: int) -> torch.Tensor:
        return self.floats(self.rows, _LONG_TEXT.get(self.name, TEXT), width)

    def width(self, key: str) -> int:
        """A width that the config has."""
        return self.whole(key, getattr(self.config, key, None))

    def whole(self, key: str, value: Any) -> int:
        """The value of a key, which is a width."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{self.where}: \"{key}\" is {value!r}; it is a whole number from 1 on")
        return value


def _sides(name: str, config: Any, where: str) -> tuple[int, int]:
    size = getattr(config, "sample_size", None)
    size = _SIDE.get(name) if size is None else size
    sides: list[Any] = list(size) if isinstance(size, (list, tuple)) and len(size) == 2 else [size, size]
    if any(isinstance(s, bool) or not isinstance(s, int) or not 0 < s <= _MOST_SIDE for s in sides):
        raise ValueError(f"{where}: \"sample_size\" is {size!r}; it is a picture's side, or its height and width, up to {_MOST_SIDE:,}")
    return sides[0], sides[1]


def _unet(b: _Batch) -> Sample:
    c = b.config
    named: dict[str, Any] = {"return_dict": False}
    kind = c.class_embed_type
    if kind in ("projection", "simple_projection"):
        named["class_labels"] = b.floats(b.rows, b.width("projection_class_embeddings_input_dim"))
    elif kind == "identity":
        named["class_labels"] = b.floats(b.rows, 4 * c.block_out_channels[0])
    elif kind == "timestep" or c.num_class_embeds:
        named["class_labels"] = b.numbers()
    added = c.addition_embed_type
    if added == "text_time":  # a text's vector, and a picture's size, crop and target, each a vector
        vectors, each = b.width("projection_class_embeddings_input_dim"), b.width("addition_time_embed_dim")
        if vectors - 6 * each < 1:
            raise ValueError(f"{b.where}: \"projection_class_embeddings_input_dim\" is {vectors}, and six numbers take {6 * each} of it by \"addition_time_embed_dim\"")
        named["added_cond_kwargs"] = {"text_embeds": b.floats(b.rows, vectors - 6 * each), "time_ids": b.floats(b.rows, 6)}
    elif added not in (None, "text"):
        raise ValueError(f"{b.where}: \"addition_embed_type\" is {added!r}, of which no batch is made here; give file.py:function, which returns the module and a batch")
    width = c.cross_attention_dim
    if isinstance(width, (list, tuple)):
        width = width[0] if width else None
    if c.encoder_hid_dim_type == "text_proj" or c.encoder_hid_dim and c.encoder_hid_dim_type is None:
        width = c.encoder_hid_dim
    return Sample((b.picture(), b.numbers(), b.text(b.whole("cross_attention_dim", width))), named)


def _unconditional(b: _Batch) -> Sample:
    labels = {"class_labels": b.numbers()} if b.config.class_embed_type == "timestep" or b.config.num_class_embeds else {}
    return Sample((b.picture(), b.numbers()), {**labels, "return_dict": False})


def _coder(b: _Batch) -> Sample:
    return Sample((b.picture(),), {"return_dict": False})


def _dit(b: _Batch) -> Sample:
    return Sample((b.picture(),), {"timestep": b.numbers(), "class_labels": b.numbers(), "return_dict": False})


def _pixart(b: _Batch) -> Sample:
    sizes = {"resolution": b.floats(b.rows, 2), "aspect_ratio": b.floats(b.rows, 1)} if b.config.use_additional_conditions or b.config.use_additional_conditions is None and b.config.sample_size == 128 else {"resolution": None, "aspect_ratio": None}
    return Sample((b.picture(),), {"encoder_hidden_states": b.text(b.width("caption_channels")), "timestep": b.numbers(), "added_cond_kwargs": sizes, "return_dict": False})


def _sd3(b: _Batch) -> Sample:
    return Sample((b.picture(), b.text(b.width("joint_attention_dim")), b.floats(b.rows, b.width("pooled_projection_dim")), b.numbers()), {"return_dict": False})


def _flux(b: _Batch) -> Sample:
    text = b.text(b.width("joint_attention_dim"))
    places = {"img_ids": b.floats(b.high * b.wide, 3), "txt_ids": b.floats(text.shape[1], 3)}
    guided = {"guidance": b.floats(b.rows)} if b.config.guidance_embeds else {}
    picture = b.floats(b.rows, b.high * b.wide, b.config.in_channels)  # latents of 2 × 2 in one row
    return Sample((picture, text, b.floats(b.rows, b.width("pooled_projection_dim")), b.floats(b.rows)), {**places, **guided, "return_dict": False})


_MAKERS: dict[str, Callable[[_Batch], Sample]] = {
    "UNet2DConditionModel": _unet, "UNet2DModel": _unconditional, "AutoencoderKL": _coder, "AutoencoderTiny": _coder, "VQModel": _coder, "DiTTransformer2DModel": _dit,
    "PixArtTransformer2DModel": _pixart, "SD3Transformer2DModel": _sd3, "FluxTransformer2DModel": _flux,
}  # fmt: skip
KNOWN = tuple(_MAKERS)

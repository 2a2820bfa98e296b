"""The user's own saved-tensor hooks in a recorded step: which values they move out of memory, and what else they copy.

PyTorch calls the innermost pair of hooks alone. One that the module enters hides what autograd saves from a recording, and
one around the module sees nothing of it. A recording that is to price an offload runs both: its own pair, so that it has the step without the
offload, and the user's on a copy of each tensor, to see which of them it lets go of. Any other recording notes the names alone.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves

from .operators import Save, Value

_CHECKPOINTS = "torch.utils.checkpoint"  # whose hooks drop tensors to make them again
_BESIDE = "use_streams"  # what hooks of torchtune, TRL and others call it that their copies run beside operators
Pack = Callable[[torch.Tensor], Any]
Unpack = Callable[[Any], torch.Tensor]


@dataclass
class Sent:
    """What the user's hooks do with the saved tensors of a step."""

    within: dict[str, None] = field(default_factory=dict)  # names of hooks that the module enters
    around: str = ""  # of those around the forward pass
    moved: dict[Save, int] = field(default_factory=dict)  # saved tensors that leave memory, and their bytes
    beside: int = 0  # bytes of parameters and inputs that are copied, too
    seen: int = 0  # bytes that the hooks were given
    waits: bool = True  # operators wait for each copy

    @property
    def name(self) -> str:
        return ", ".join([*self.within, *([self.around] if self.around else [])])

    def values(self) -> dict[Value, int]:
        """The values that leave, and the bytes of all copies of each."""
        found: dict[Value, int] = {}
        for save, nbytes in self.moved.items():
            found[save.value] = found.get(save.value, 0) + nbytes
        return found


class Hooks:
    """Saved-tensor hooks of a recording, beside those of the user."""

    def __init__(self, sent: Sent, pack: Pack, unpack: Unpack, saved: Callable[[Any], Save | None], aside: Callable[[], contextlib.AbstractContextManager[Any]], prices: bool) -> None:
        """saved tells which saved tensor a handle of pack's is of; what runs in aside is none of the step's."""
        self.sent, self.pack, self.unpack, self.saved, self.aside, self.prices = sent, pack, unpack, saved, aside, prices

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Within, what autograd saves comes here."""
        around = torch._C._autograd._top_saved_tensors_default_hooks(True)
        ours: tuple[Pack, Unpack] = self.pack, self.unpack
        if around is not None and not _checkpoints(around[0]):
            self.sent.around = name_of(around[0])
            ours = self._both(*around) if self.prices else ours
        thread, plain = threading.get_ident(), saved_tensors_hooks.__enter__

        def enter(hooks: saved_tensors_hooks) -> None:
            if threading.get_ident() != thread or _checkpoints(hooks.pack_hook) or type(hooks).__module__ == _CHECKPOINTS:
                return plain(hooks)
            self.sent.within[_named(hooks)] = None
            pack, unpack = self._both(hooks.pack_hook, hooks.unpack_hook) if self.prices else (hooks.pack_hook, hooks.unpack_hook)
            torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)
            return None

        with saved_tensors_hooks(*ours):
            saved_tensors_hooks.__enter__ = enter  # type: ignore[method-assign]
            try:
                yield
            finally:
                saved_tensors_hooks.__enter__ = plain  # type: ignore[method-assign]

    def _both(self, pack: Pack, unpack: Unpack) -> tuple[Pack, Unpack]:
        """Our hooks and the user's, called in turn."""
        owner = _owner(pack)
        self.sent.waits = self.sent.waits and not getattr(owner, _BESIDE, False)

        def pack_both(t: torch.Tensor) -> Any:
            handle = self.pack(t)
            save = self.saved(handle)
            with self.aside():
                theirs, moved = _packed(pack, t, save is None or save.value.maker is None)
            nbytes = t.numel() * t.element_size()
            self.sent.seen += nbytes
            if moved and save is not None and save.value.maker is not None:
                self.sent.moved[save] = nbytes
            elif moved:
                self.sent.beside += nbytes
            return handle, theirs

        def unpack_both(both: Any) -> torch.Tensor:
            handle, theirs = both
            t = self.unpack(handle)
            with self.aside():
                unpack(theirs)
            return t

        return pack_both, unpack_both


def _packed(pack: Pack, t: torch.Tensor, stays: bool) -> tuple[Any, bool]:
    """What the user's hook makes of a tensor, and whether that lets go of its bytes. stays: the bytes are somebody else's, and the hook copies them or not."""
    if stays:
        theirs = pack(t)
        return theirs, any(x.device != t.device for x in tree_leaves(theirs) if isinstance(x, torch.Tensor))
    copy = t.detach().clone().requires_grad_(t.requires_grad)
    here = weakref.ref(copy.untyped_storage())
    theirs = pack(copy)
    kept = any(x.device == t.device for x in tree_leaves(theirs) if isinstance(x, torch.Tensor))  # rounded, or as it is
    del copy
    return theirs, not kept and here() is None


def _owner(pack: Any) -> Any:
    """The object whose method or closure a hook is."""
    if (owner := getattr(pack, "__self__", None)) is not None:
        return owner
    code = getattr(pack, "__code__", None)
    for name, cell in zip(code.co_freevars if code is not None else (), getattr(pack, "__closure__", None) or (), strict=False):
        if name == "self":
            with contextlib.suppress(ValueError):
                return cell.cell_contents
    return None


def name_of(pack: Any) -> str:
    """What a hook is called: the class that it is of, or the function."""
    owner = _owner(pack)
    if owner is not None:
        return type(owner).__name__
    name: str = getattr(pack, "__qualname__", type(pack).__name__)
    parts = [p for p in name.split(".") if p not in ("<locals>", "__init__", "<lambda>")]
    return parts[0] if parts else "saved_tensors_hooks"


def _named(hooks: saved_tensors_hooks) -> str:
    return type(hooks).__name__ if type(hooks) is not saved_tensors_hooks else name_of(hooks.pack_hook)


def _checkpoints(pack: Any) -> bool:
    return getattr(pack, "__module__", "") == _CHECKPOINTS

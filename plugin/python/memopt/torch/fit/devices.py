"""What a device holds, and what is taken of it before a step begins."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from ..._devices import CONTEXT, COPIES, MEMORY, NETWORK, SLACK


@dataclass(frozen=True)
class Device:
    """A device as a step on paper sees it."""

    name: str
    memory: int | None = None  # bytes that its driver gives out
    context: int = 0  # bytes of the driver and of libraries' kernels
    slack: float = 0.0  # of the step's bytes, that the allocator rounds up and cannot use
    foreach: bool = False  # optimizers update all parameters at once, if they can
    inside: float = 0.0  # bytes per nanosecond that a device sends to others of its node; 0: not known
    between: float = 0.0  # and to other nodes
    node: int = 8  # devices

    @property
    def link(self) -> float:
        """Bytes per nanosecond to the host's memory or back, whichever is slower."""
        return min(COPIES.get(self.name.lower(), COPIES[""]))

    @property
    def processor(self) -> bool:
        return not self.foreach


_PROCESSORS = ("torch-core", "xeon-core", "cpu")
PROCESSOR = Device(_PROCESSORS[0])


def device_of(name: str | None) -> Device:
    """The device of a profile's name, or of a file of memopt profile; a graphics processor of unknown memory where nothing is said."""
    if name is not None and name.lower() in _PROCESSORS:
        return Device(name.lower())
    if name is not None and os.path.isfile(where := os.path.expanduser(name)):
        return _measured(where)
    memory = MEMORY.get(name.lower()) if name is not None else None
    inside, between = NETWORK.get(name.lower(), (0.0, 0.0)) if name is not None else (0.0, 0.0)
    return Device(name or "gpu", memory, CONTEXT, SLACK, True, inside, between)


def _measured(path: str) -> Device:
    try:
        with open(path, encoding="utf-8") as f:
            said = json.loads(f.read(1 << 20))
    except (OSError, ValueError) as e:
        raise ValueError(f"for_device is {path}, which is no profile ({e}): memopt profile and python -m memopt profile-torch write one") from None
    if not isinstance(said, dict) or not isinstance(said.get("one_clock"), bool):
        raise ValueError(f"for_device is {path}, which has no \"one_clock\", as profiles have that memopt profile and python -m memopt profile-torch write")
    return Device(path) if said["one_clock"] else Device(path, None, CONTEXT, SLACK, True)


def profile_of(device: Device) -> str:
    """The profile that prices its time."""
    return "torch-core" if device.name == "cpu" else device.name

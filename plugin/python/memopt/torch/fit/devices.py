"""What a device holds, and what is taken of it before a step begins."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


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
    def processor(self) -> bool:
        return not self.foreach


# By the names of profiles. Memory is what drivers report; the context is of CUDA 12 and 13 with the kernels of PyTorch and cuBLAS loaded, about;
# slack is what we measured of the caching allocator at most, with room.
_CONTEXT, _SLACK = GIB // 2, 0.03
_MEMORY = {"a100": 79.15, "h100": 79.1, "h200": 139.8, "b200": 178.3, "4090": 23.5, "5090": 31.4, "mi300x": 191.9, "apple-m4-max": 96.0}
# NVLink, Infinity Fabric or PCIe one way, and the network of usual machines for each device, by data sheets.
_LINKS = {"a100": (300.0, 25.0), "h100": (450.0, 50.0), "h200": (450.0, 50.0), "b200": (900.0, 50.0), "4090": (25.0, 12.5), "5090": (50.0, 12.5), "mi300x": (448.0, 50.0)}
_PROCESSORS = ("torch-core", "xeon-core", "cpu")


def device_of(name: str | None) -> Device:
    """The device of a profile's name; a graphics processor of unknown memory where nothing is said."""
    if name is not None and name.lower() in _PROCESSORS:
        return Device(name.lower())
    memory = _MEMORY.get(name.lower()) if name is not None else None
    inside, between = _LINKS.get(name.lower(), (0.0, 0.0)) if name is not None else (0.0, 0.0)
    return Device(name or "gpu", int(memory * GIB) if memory is not None else None, _CONTEXT, _SLACK, True, inside, between)


def profile_of(device: Device) -> str:
    """The profile that prices its time."""
    return "torch-core" if device.name == "cpu" else device.name

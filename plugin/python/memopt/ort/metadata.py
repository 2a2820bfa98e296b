"""A session's description of its model: inputs, outputs and metadata."""

from __future__ import annotations

from typing import Any, NamedTuple


class NodeArg:
    """An input or output of a model. A dim is a number, a name, or None if unknown."""

    __slots__ = ("name", "shape", "type")

    def __init__(self, name: str, type: str, shape: list[int | str | None]) -> None:
        self.name = name
        self.type = type
        self.shape = shape

    def __str__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata(NamedTuple):
    """The metadata in a model's file: producer, description and others."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = {}  # noqa: RUF012

    @staticmethod
    def of(told: dict[str, Any]) -> ModelMetadata:
        """Parses the service's description."""
        return ModelMetadata(
            told.get("producer", ""),
            told.get("graph", ""),
            told.get("domain", ""),
            told.get("description", ""),
            told.get("graph_description", ""),
            int(told.get("version", 0)),
            dict(told.get("metadata") or {}),
        )


class OrtHardwareDevice(NamedTuple):
    """A device of this machine."""

    type: Any
    vendor: str
    vendor_id: int
    device_id: int
    metadata: dict[str, str]


class OrtEpDevice(NamedTuple):
    """A device of this machine, and the provider that runs models on it."""

    ep_name: str
    ep_vendor: str
    ep_metadata: dict[str, str]
    ep_options: dict[str, str]
    device: OrtHardwareDevice

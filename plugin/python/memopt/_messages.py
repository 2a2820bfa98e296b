"""The messages of memopt.proto, built at run time from a descriptor in a private pool.

No generated module is shipped: generated code does not load under a protobuf runtime older than its generator or two
major versions newer, and the user chooses the runtime. The private pool avoids conflicts of names.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ._schema import DESCRIPTOR_SET


class Method(NamedTuple):
    """A method of the service: its messages, and whether it streams responses."""

    request: Any
    response: Any
    streams: bool


def _build() -> tuple[dict[str, Any], dict[str, Method]]:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(DESCRIPTOR_SET))
    classes: dict[str, Any] = {}
    methods: dict[str, Method] = {}
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
        for message in file.message_type:
            descriptor = pool.FindMessageTypeByName(f"{file.package}.{message.name}")
            classes[message.name] = message_factory.GetMessageClass(descriptor)
        for service in file.service:
            for method in service.method:
                request, response = (classes[name.rsplit(".", 1)[1]] for name in (method.input_type, method.output_type))
                methods[f"/{file.package}.{service.name}/{method.name}"] = Method(request, response, method.server_streaming)
    return classes, methods


_classes, METHODS = _build()


def __getattr__(name: str) -> Any:
    if name not in _classes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _classes[name]

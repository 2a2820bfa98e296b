"""The messages of memopt.proto, built at run time from a descriptor in a private pool.

No generated module is shipped: generated code refuses to load under a protobuf runtime older than its generator or two
major versions newer, and the runtime is the user's choice. The private pool keeps our names out of everybody's way.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ._schema import DESCRIPTOR_SET


def _build() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(DESCRIPTOR_SET))
    classes: dict[str, Any] = {}
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
        for message in file.message_type:
            descriptor = pool.FindMessageTypeByName(f"{file.package}.{message.name}")
            classes[message.name] = message_factory.GetMessageClass(descriptor)
    return classes


_classes = _build()
InfoRequest = _classes["InfoRequest"]
InfoResponse = _classes["InfoResponse"]
PlanRequest = _classes["PlanRequest"]
PlanResponse = _classes["PlanResponse"]
Question = _classes["Question"]
Answer = _classes["Answer"]

"""The enumerations of ONNX Runtime's Python API, with the same names and numbers, which also compare equal to ints."""

from __future__ import annotations

from enum import IntEnum


class _Enum(IntEnum):
    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class GraphOptimizationLevel(_Enum):
    """How much the graph of a model is optimized before it runs."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Enum):
    """Whether nodes run sequentially."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Enum):
    """The order in which nodes run."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(_Enum):
    """Whether memory comes from an arena or from the device for each tensor."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(_Enum):
    """The purpose of a tensor's memory."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(_Enum):
    """Whether the host can access a device's memory."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(_Enum):
    """The kind of a device."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class ArenaExtendStrategy(_Enum):
    """How an arena grows: by doubling, or by the requested size."""

    kNextPowerOfTwo = 0
    kSameAsRequested = 1


class OrtSparseFormat(_Enum):
    """Formats of sparse tensors, which memopt's sessions do not support."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtHardwareDeviceType(_Enum):
    """The kind of a device of this machine."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtExecutionProviderDevicePolicy(_Enum):
    """The device that a session without providers prefers."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtDeviceVendorId(IntEnum):
    """The vendor of a device, by PCI vendor ID."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086

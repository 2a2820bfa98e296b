"""Devices and descriptions of memory, with the names used by programs for ONNX Runtime.

Programs name devices of other vendors' libraries; here all GPUs among them mean the Vulkan device, or the processor
if there is no Vulkan.
"""

from __future__ import annotations

from . import checks
from .enums import OrtAllocatorType, OrtDeviceMemoryType, OrtDeviceVendorId, OrtMemoryInfoDeviceType, OrtMemType

# Device type and vendor of each name.
_DEVICES = {
    "cpu": (0, OrtDeviceVendorId.NONE),
    "cuda": (1, OrtDeviceVendorId.NVIDIA),
    "dml": (1, OrtDeviceVendorId.MICROSOFT),
    "gpu": (1, OrtDeviceVendorId.NONE),
    "hip": (1, OrtDeviceVendorId.AMD),
    "rocm": (1, OrtDeviceVendorId.AMD),
    "vulkan": (1, OrtDeviceVendorId.NONE),
    "webgpu": (1, OrtDeviceVendorId.NONE),
    "cann": (3, OrtDeviceVendorId.HUAWEI),
    "npu": (3, OrtDeviceVendorId.NONE),
}


class OrtDevice:
    """A device: its kind, number and vendor."""

    __slots__ = ("_id", "_memory", "_name", "_type", "_vendor")

    def __init__(self, device_type: int, memory_type: int = 0, vendor_id: int = 0, device_id: int | None = None) -> None:
        if device_id is None:  # without a vendor there are three
            vendor_id, device_id = 0, vendor_id
        self._type, self._memory = checks.integer("device_type", device_type), checks.integer("memory_type", memory_type)
        self._vendor, self._id = checks.integer("vendor_id", vendor_id), checks.integer("device_id", device_id)
        self._name = {0: "cpu", 1: "gpu", 2: "fpga", 3: "npu"}.get(self._type, "cpu")

    @staticmethod
    def make(ort_device_name: str | OrtDevice, device_id: int, vendor_id: int | OrtDeviceVendorId = -1) -> OrtDevice:
        """The device of a name: cpu, or one of a GPU."""
        if isinstance(ort_device_name, OrtDevice):
            return ort_device_name
        if ort_device_name not in _DEVICES:
            raise Exception(f"Unsupported device type: {ort_device_name}")
        kind, vendor = _DEVICES[ort_device_name]
        made = OrtDevice(kind, 0, vendor if vendor_id < 0 else vendor_id, device_id)
        made._name = ort_device_name
        return made

    @property
    def name(self) -> str:
        """The name that it was created with."""
        return self._name

    def on_host(self) -> bool:
        """Whether it is the processor."""
        return self._type == 0

    def device_id(self) -> int:
        """Its number."""
        return self._id

    def device_type(self) -> int:
        """Its kind."""
        return self._type

    def device_vendor_id(self) -> int:
        """Its vendor."""
        return self._vendor

    vendor_id = device_vendor_id

    def device_mem_type(self) -> int:
        """The kind of its memory."""
        return self._memory

    mem_type = device_mem_type

    def _get_c_device(self) -> OrtDevice:
        return self

    @staticmethod
    def default_memory() -> int:
        """The kind of memory that devices have."""
        return 0

    @staticmethod
    def cpu() -> int:
        """The kind of the processor."""
        return 0

    @staticmethod
    def gpu() -> int:
        """The kind of a GPU."""
        return 1

    cuda = dml = webgpu = gpu

    @staticmethod
    def fpga() -> int:
        """The kind of an FPGA."""
        return 2

    @staticmethod
    def npu() -> int:
        """The kind of an NPU."""
        return 3

    cann = npu


# What OrtMemoryInfo takes by name: kind, vendor, and whether the host sees the memory.
_MEMORIES = {
    "Cpu": (OrtMemoryInfoDeviceType.CPU, 0, False),
    "Cuda": (OrtMemoryInfoDeviceType.GPU, OrtDeviceVendorId.NVIDIA, False),
    "CudaPinned": (OrtMemoryInfoDeviceType.GPU, OrtDeviceVendorId.NVIDIA, True),
    "DML": (OrtMemoryInfoDeviceType.GPU, OrtDeviceVendorId.MICROSOFT, False),
    "Hip": (OrtMemoryInfoDeviceType.GPU, OrtDeviceVendorId.AMD, False),
    "HipPinned": (OrtMemoryInfoDeviceType.GPU, OrtDeviceVendorId.AMD, True),
    "OpenVINO_GPU": (OrtMemoryInfoDeviceType.GPU, OrtDeviceVendorId.INTEL, False),
    "QnnHtpShared": (OrtMemoryInfoDeviceType.CPU, OrtDeviceVendorId.QUALCOMM, True),
    "Vulkan": (OrtMemoryInfoDeviceType.GPU, 0, False),
    "WebGPU_Buf": (OrtMemoryInfoDeviceType.GPU, 0, False),
    "WebGPU_Buffer": (OrtMemoryInfoDeviceType.GPU, 0, False),
    "WebNN_Ten": (OrtMemoryInfoDeviceType.GPU, 0, False),
    "WebNN_Tensor": (OrtMemoryInfoDeviceType.GPU, 0, False),
}


class OrtMemoryInfo:
    """The memory of an allocator."""

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType) -> None:
        if name not in _MEMORIES:
            raise RuntimeError(
                f"Specified device is not supported. Try CreateMemoryInfo_V2. {name!r} is none of {', '.join(_MEMORIES)}"
            )
        self.device_type, self.device_vendor_id, visible = _MEMORIES[name]
        self.name = name.replace("Buffer", "Buf").replace("Tensor", "Ten")
        self.device_id = checks.integer("device_id", device_id)
        self.mem_type = checks.instance("mem_type", mem_type, OrtMemType)
        self.allocator_type = checks.instance("allocator_type", allocator_type, OrtAllocatorType)
        self.device_mem_type = OrtDeviceMemoryType.HOST_ACCESSIBLE if visible else OrtDeviceMemoryType.DEFAULT

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """A description with a name chosen by the program. The alignment is at least this machine's."""
        checks.integer("alignment", alignment)
        made = OrtMemoryInfo.__new__(OrtMemoryInfo)
        made.name = name
        made.device_type = checks.instance("device_type", device_type, OrtMemoryInfoDeviceType)
        made.device_vendor_id = checks.integer("vendor_id", vendor_id)
        made.device_id = checks.integer("device_id", device_id)
        made.device_mem_type = checks.instance("device_mem_type", device_mem_type, OrtDeviceMemoryType)
        made.allocator_type = checks.instance("allocator_type", allocator_type, OrtAllocatorType)
        made.mem_type = OrtMemType.CPU_OUTPUT if made.device_mem_type == OrtDeviceMemoryType.HOST_ACCESSIBLE else OrtMemType.DEFAULT
        return made


// Package vk is the only place that knows Vulkan's calls: devices and what
// they can do, blocks of memory, pipelines, lists of commands recorded once
// and submitted many times. What it offers is small and plain; handles are
// numbers, sizes bytes.
//
// It stands on github.com/vulkan-go/vulkan for the instance, the device, memory
// and buffers, and on shim.c for everything else: the binding frees the C form
// of a slice of structs while Vulkan may still read it, and ends at Vulkan
// 1.1.88. What is newer is in part.h, cut out of Vulkan-Headers.
//
// The rules that the binding asks for, each of which has cost somebody a crash:
//
//   - The loader is found here (MEMOPT_VULKAN_LIBRARY, libvulkan.so.1,
//     libvulkan.so): the binding only knows the last name, which machines that
//     do not compile programs lack.
//   - A struct of the binding is made for one call and freed after it: it
//     remembers its C form, and leaks it.
//   - Out-parameters are plain local variables. Results are read after Deref.
//   - A handle is turned into a number at once: layers give numbers that look
//     like pointers, and Go's memory must not hold such.
//   - Strings end in a NUL of their own.
//   - What an extension brings is asked for by its name, never by whether its
//     function can be found.
//
// Without cgo, or elsewhere than on Linux, the package builds and every call
// says why there are no devices.
package vk

import (
	"errors"
	"fmt"
)

// ErrNone says that there is no Vulkan to be had here.
var ErrNone = errors.New("no Vulkan")

// The failures that a caller may want to tell apart. Errors of this package
// wrap them.
var (
	ErrHostMemory   = errors.New("out of host memory")
	ErrDeviceMemory = errors.New("out of device memory")
	ErrDeviceLost   = errors.New("device lost")
	ErrTimeout      = errors.New("did not finish in time")
	ErrImport       = errors.New("host memory cannot be imported")
)

// Error is a call that failed.
type Error struct {
	Call string
	Code int32
}

var codes = map[int32]struct {
	name string
	is   error
}{
	1: {"VK_NOT_READY", nil}, 2: {"VK_TIMEOUT", ErrTimeout},
	-1: {"VK_ERROR_OUT_OF_HOST_MEMORY", ErrHostMemory}, -2: {"VK_ERROR_OUT_OF_DEVICE_MEMORY", ErrDeviceMemory},
	-3: {"VK_ERROR_INITIALIZATION_FAILED", nil}, -4: {"VK_ERROR_DEVICE_LOST", ErrDeviceLost},
	-5: {"VK_ERROR_MEMORY_MAP_FAILED", nil}, -6: {"VK_ERROR_LAYER_NOT_PRESENT", nil},
	-7: {"VK_ERROR_EXTENSION_NOT_PRESENT", nil}, -8: {"VK_ERROR_FEATURE_NOT_PRESENT", nil},
	-9: {"VK_ERROR_INCOMPATIBLE_DRIVER", nil}, -10: {"VK_ERROR_TOO_MANY_OBJECTS", nil},
	-12: {"VK_ERROR_FRAGMENTED_POOL", nil}, -13: {"VK_ERROR_UNKNOWN", nil},
	-1000069000: {"VK_ERROR_OUT_OF_POOL_MEMORY", nil}, -1000072003: {"VK_ERROR_INVALID_EXTERNAL_HANDLE", ErrImport},
}

func (e *Error) Error() string {
	if c, ok := codes[e.Code]; ok {
		if c.is != nil {
			return fmt.Sprintf("%s: %v (%s)", e.Call, c.is, c.name)
		}
		return e.Call + ": " + c.name
	}
	return fmt.Sprintf("%s: Vulkan's result %d", e.Call, e.Code)
}

func (e *Error) Unwrap() error { return codes[e.Code].is }

// Kind is what a device is made of.
type Kind uint8

// The kinds, with Vulkan's numbers.
const (
	Other Kind = iota
	Integrated
	Discrete
	Virtual
	CPU
)

var kindNames = [...]string{"other", "integrated", "discrete", "virtual", "cpu"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Other]
}

// The flags of memory and of heaps that are looked at.
const (
	DeviceLocal  = 1
	HostVisible  = 2
	HostCoherent = 4
	HostCached   = 8
)

// Heap is one of a device's memories.
type Heap struct {
	Size          uint64
	Flags         uint32 // DeviceLocal or not
	Budget, Usage uint64 // as the driver sees this process; zero if it does not say
}

// MemoryType is a way to use a heap.
type MemoryType struct{ Heap, Flags uint32 }

// Subgroup operations, with Vulkan's bits.
const (
	SubgroupBasic      = 1
	SubgroupArithmetic = 4
	SubgroupBallot     = 8
)

// Physical is a device as the driver describes it.
type Physical struct {
	Index              int
	Name, Driver       string
	API                [3]int // version
	Kind               Kind
	Vendor, Device     uint32
	Subgroup           int
	SubgroupOperations uint32
	MaxGroups          [3]uint32
	MaxInvocations     int
	MaxPush            int // bytes of push constants
	SharedBytes        int
	StorageBuffers     int    // of a shader
	MaxRange           uint64 // of a storage buffer
	MaxAllocation      uint64
	MaxAllocations     int
	Alignment          uint64 // of a storage buffer's offset
	Int64, Int8        bool   // arithmetic
	Storage8           bool   // in buffers
	Storage16, Float16 bool
	Addresses          bool // of buffers, for kernels that take those
	MemoryBudget       bool // the driver says how much is left
	// ImportAlignment is what the address and the size of host memory are multiples of that the device imports; 0 where it
	// imports none (VK_EXT_external_memory_host).
	ImportAlignment uint64
	// Matrices are the rows, columns and terms of what a subgroup multiplies at
	// once: float16 matrices, summed in float32 (VK_KHR_cooperative_matrix).
	Matrices [][3]int
	Heaps    []Heap
	Types    []MemoryType

	timestampPeriod float32
	timestampBits   uint32
	family          int
	handle          uint64
}

// Unfit says why the device cannot be used, or is empty.
func (p *Physical) Unfit() string {
	switch need := uint32(SubgroupBasic | SubgroupArithmetic | SubgroupBallot); {
	case p.API[0] == 1 && p.API[1] < 2:
		return fmt.Sprintf("it has Vulkan %d.%d; 1.2 is needed", p.API[0], p.API[1])
	case p.family < 0:
		return "it has no queue that computes"
	case p.SubgroupOperations&need != need || p.Subgroup < 8:
		return fmt.Sprintf("its subgroups of %d lack basic, arithmetic or ballot operations; 8 lanes and those are needed", p.Subgroup)
	case p.Alignment > MaxAlignment:
		return fmt.Sprintf("it wants offsets of buffers in multiples of %d bytes; plans have %d", p.Alignment, MaxAlignment)
	}
	return ""
}

// MaxAlignment is the multiple that offsets in plans are of.
const MaxAlignment = 64

// Unified reports whether the processor and the device share one memory.
func (p *Physical) Unified() bool {
	for _, h := range p.Heaps {
		if h.Flags&DeviceLocal == 0 {
			return false
		}
	}
	return true
}

// CommandKind is what a command does.
type CommandKind uint32

// The kinds of commands.
const (
	Dispatch CommandKind = iota
	Barrier
	Copy
	Fill
	Time
	Reset
)

// Command is one of a list. Fields that its kind does not name are zero.
type Command struct {
	Kind     CommandKind
	Groups   [3]uint32 // Dispatch
	Pipeline *Pipeline // Dispatch
	Set      uint64    // Dispatch: of NewSets
	Push     []uint32  // Dispatch
	From, To *Block    // Copy; Fill has To
	FromAt   int64     // Copy
	ToAt     int64     // Copy, Fill
	Bytes    int64     // Copy, Fill
	Value    uint32    // Fill: the word; Time: the query; Reset: how many
	Host     bool      // Barrier: also towards the host
}

// WholeWords is what so many bytes take: fills and copies go by words, and blocks
// have room for that.
func WholeWords(bytes int64) int64 { return (bytes + 3) &^ 3 }

// Binding is a range of a block that a shader sees.
type Binding struct {
	Block     *Block
	At, Bytes int64
}

// Usage is the memory that a device's blocks take, in bytes of the driver.
type Usage struct {
	Calls       int // of vkAllocateMemory
	Bytes, Peak int64
	Imported    int64 // of the host's memory, which is in neither
}

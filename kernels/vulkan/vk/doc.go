// Package vk makes all calls of Vulkan: devices and their properties, blocks of
// memory, pipelines, and command buffers (lists) that are recorded once and submitted
// many times. Handles are integers, sizes bytes.
//
// It uses github.com/vulkan-go/vulkan for the instance, the device, memory and buffers,
// and shim.c for everything else: the binding frees the C form of a slice of structs
// while Vulkan may still read it, and ends at Vulkan 1.1.88. Newer declarations are in
// part.h, an excerpt of Vulkan-Headers.
//
// Rules for using the binding, each of which has been the cause of a crash:
//
//   - This package finds the loader (MEMOPT_VULKAN_LIBRARY, libvulkan.so.1,
//     libvulkan.so): the binding only knows the last name, which exists only with
//     development packages.
//   - Make a struct of the binding for one call and free it afterwards: it caches its C
//     form, and leaks it.
//   - Out-parameters are local variables. Call Deref before reading results.
//   - Convert handles to integers at once: layers return integers that look like
//     pointers, which the Go garbage collector must not see.
//   - Terminate strings with a NUL.
//   - Check for an extension by its name, not by whether its function can be loaded.
//
// Without cgo, or on systems other than Linux, the package builds and every call
// returns an error that says why there are no devices.
package vk

import (
	"errors"
	"fmt"
)

// ErrNone is the error if Vulkan is not available.
var ErrNone = errors.New("no Vulkan")

// Failures that callers may distinguish. Errors of this package wrap them.
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
	return fmt.Sprintf("%s: VkResult %d", e.Call, e.Code)
}

func (e *Error) Unwrap() error { return codes[e.Code].is }

// Kind is the type of a device.
type Kind uint8

// The kinds, with the values of VkPhysicalDeviceType.
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

// Flags of memory types and heaps, with Vulkan's values.
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
	Budget, Usage uint64 // of this process, as the driver reports them; 0 if it does not
}

// MemoryType is a memory type of a heap.
type MemoryType struct{ Heap, Flags uint32 }

// Subgroup operations, with Vulkan's values.
const (
	SubgroupBasic      = 1
	SubgroupArithmetic = 4
	SubgroupBallot     = 8
)

// Physical is a physical device and its properties.
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
	StorageBuffers     int    // for a shader
	MaxRange           uint64 // of a storage buffer
	MaxAllocation      uint64
	MaxAllocations     int
	Alignment          uint64 // of a storage buffer's offset
	Int64, Int8        bool   // arithmetic
	Storage8           bool   // in buffers
	Storage16, Float16 bool
	Addresses          bool // bufferDeviceAddress
	MemoryBudget       bool // VK_EXT_memory_budget
	PushDescriptors    int  // how many bindings of a dispatch can be pushed (VK_KHR_push_descriptor)
	// ImportAlignment is the required alignment of address and size of imported host memory (VK_EXT_external_memory_host);
	// 0 if import is not supported.
	ImportAlignment uint64
	// Matrices and BFloat16Matrices are the shapes (M, N, K) of cooperative matrices of float16 and of bfloat16 with float32
	// accumulators (VK_KHR_cooperative_matrix, VK_KHR_shader_bfloat16).
	Matrices, BFloat16Matrices [][3]int
	Heaps                      []Heap
	Types                      []MemoryType

	timestampPeriod float32
	timestampBits   uint32
	family          int
	transfer        int // family of queues that only copy; -1 if there is none
	transferQueues  int
	handle          uint64
}

// CopyQueues is how many queues there are that only copy.
func (p *Physical) CopyQueues() int { return p.transferQueues }

// Lane is work that a device does in order. Lanes run beside each other where the device has queues that only copy; where it
// has none, they share the one queue, and only their order differs.
type Lane uint8

// The lanes.
const (
	Work  Lane = iota
	Out        // copies to the host's memory
	Home       // and back
	Lanes      // how many there are
)

// Batch is a list in its lane.
type Batch struct {
	List *List
	Lane Lane
	// Waits is, by lane, how many of its batches must have ended before this one begins.
	Waits [Lanes]int
}

// Unfit is why the device cannot be used; "" if it can.
func (p *Physical) Unfit() string {
	switch need := uint32(SubgroupBasic | SubgroupArithmetic | SubgroupBallot); {
	case p.API[0] == 1 && p.API[1] < 2:
		return fmt.Sprintf("it has Vulkan %d.%d; 1.2 is needed", p.API[0], p.API[1])
	case p.family < 0:
		return "it has no compute queue"
	case p.SubgroupOperations&need != need || p.Subgroup < 8:
		return fmt.Sprintf("it needs subgroups of at least 8 lanes with basic, arithmetic and ballot operations, but has %d lanes or lacks operations", p.Subgroup)
	case p.Alignment > MaxAlignment:
		return fmt.Sprintf("it requires buffer offsets in multiples of %d bytes; plans have %d", p.Alignment, MaxAlignment)
	}
	return ""
}

// MaxAlignment is the alignment of offsets in plans.
const MaxAlignment = 64

// Unified reports whether the device shares the host's memory.
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

// Command is a command of a list. Fields that its kind does not use are zero.
type Command struct {
	Kind     CommandKind
	Groups   [3]uint32 // Dispatch
	Pipeline *Pipeline // Dispatch
	Set      uint64    // Dispatch: of NewSets
	Bindings []Binding // Dispatch: instead of a set, of a pipeline whose bindings are pushed
	Push     []uint32  // Dispatch
	From, To *Block    // Copy; Fill has To
	FromAt   int64     // Copy
	ToAt     int64     // Copy, Fill
	Bytes    int64     // Copy, Fill
	Value    uint32    // Fill: the word; Time: the query; Reset: number of queries
	Host     bool      // Barrier: includes host accesses
}

// WholeWords rounds a size up to 4 bytes: fills and copies work on words, and blocks have room for
// that.
func WholeWords(bytes int64) int64 { return (bytes + 3) &^ 3 }

// Binding is a range of a block that is bound to a shader.
type Binding struct {
	Block     *Block
	At, Bytes int64
}

// Usage is the memory of a device's blocks, as allocated by the driver.
type Usage struct {
	Calls       int // of vkAllocateMemory
	Bytes, Peak int64
	Imported    int64 // host memory, not included in the others
}

//go:build cgo && linux

package vk

/*
#cgo CFLAGS: -std=c11 -O2 -Wall
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include <malloc.h>
#include "shim.h"

// trim has glibc give back what its heaps hold and nobody uses.
static void trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"
)

// libraryVariable is the path of the loader, if it is not in the default place.
const libraryVariable = "MEMOPT_VULKAN_LIBRARY"

const validationLayer = "VK_LAYER_KHRONOS_validation"

// Instance is a loaded Vulkan instance. There is one in a process: the binding has a
// global table of functions.
type Instance struct {
	get      unsafe.Pointer
	instance vulkan.Instance
	listens  bool
}

var loading struct {
	sync.Mutex
	instance *Instance
	err      error
}

// Load loads Vulkan and makes the process's instance; later calls return the same one. validate
// enables the validation layer, whose messages Messages returns.
func Load(validate bool) (*Instance, error) {
	loading.Lock()
	defer loading.Unlock()
	if loading.instance == nil && loading.err == nil {
		loading.instance, loading.err = load(validate)
	}
	return loading.instance, loading.err
}

func load(validate bool) (*Instance, error) {
	names := []string{"libvulkan.so.1", "libvulkan.so"}
	if given := os.Getenv(libraryVariable); given != "" {
		names = []string{given}
	}
	i := &Instance{listens: validate}
	for _, name := range names {
		c := C.CString(name)
		i.get = C.mo_load(c)
		C.free(unsafe.Pointer(c))
		if i.get != nil {
			break
		}
	}
	if i.get == nil {
		return nil, fmt.Errorf("%w: its loader %s is not installed (libvulkan1 on Debian and Ubuntu, vulkan-loader on Fedora)", ErrNone, names[0])
	}
	vulkan.SetGetInstanceProcAddr(i.get)
	if err := vulkan.Init(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNone, err)
	}
	info := vulkan.InstanceCreateInfo{
		SType: vulkan.StructureTypeInstanceCreateInfo,
		PApplicationInfo: &vulkan.ApplicationInfo{
			SType: vulkan.StructureTypeApplicationInfo, PApplicationName: "memopt\x00", PEngineName: "memopt\x00",
			ApiVersion: 1<<22 | 2<<12,
		},
	}
	if validate {
		info.EnabledLayerCount, info.PpEnabledLayerNames = 1, []string{validationLayer + "\x00"}
		info.EnabledExtensionCount, info.PpEnabledExtensionNames = 1, []string{"VK_EXT_debug_utils\x00"}
	}
	var instance vulkan.Instance
	r := vulkan.CreateInstance(&info, nil, &instance)
	runtime.KeepAlive(&info)
	info.Free()
	if err := check("vkCreateInstance", int32(r)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err := vulkan.InitInstance(instance); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNone, err)
	}
	i.instance = instance
	if validate {
		if err := check("vkCreateDebugUtilsMessengerEXT", int32(C.mo_listen(i.get, unsafe.Pointer(instance)))); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func check(call string, r int32) error {
	if r == 0 {
		return nil
	}
	return &Error{call, r}
}

// Messages returns the validation layer's messages since the last call, one a line.
func (i *Instance) Messages() string {
	if !i.listens {
		return ""
	}
	buf := make([]byte, 1<<16)
	n := C.mo_messages((*C.char)(unsafe.Pointer(&buf[0])), C.uint32_t(len(buf)))
	return string(buf[:n])
}

// Devices lists the physical devices.
func (i *Instance) Devices() ([]*Physical, error) {
	var n uint32
	if err := check("vkEnumeratePhysicalDevices", int32(vulkan.EnumeratePhysicalDevices(i.instance, &n, nil))); err != nil {
		return nil, err
	}
	handles := make([]vulkan.PhysicalDevice, n)
	if n > 0 {
		if err := check("vkEnumeratePhysicalDevices", int32(vulkan.EnumeratePhysicalDevices(i.instance, &n, handles))); err != nil {
			return nil, err
		}
	}
	var all []*Physical
	for k, h := range handles[:n] {
		var c C.mo_physical
		C.mo_describe(i.get, unsafe.Pointer(i.instance), unsafe.Pointer(h), &c)
		p := describe(&c)
		p.Index, p.handle = k, uint64(uintptr(unsafe.Pointer(h)))
		all = append(all, p)
	}
	return all, nil
}

func describe(c *C.mo_physical) *Physical {
	p := &Physical{
		Name: C.GoString(&c.name[0]), API: [3]int{int(c.api >> 22), int(c.api >> 12 & 0x3ff), int(c.api & 0xfff)},
		Driver: strings.TrimSpace(C.GoString(&c.driver[0]) + " " + C.GoString(&c.driver_info[0])),
		Kind:   Kind(c._type), Vendor: uint32(c.vendor), Device: uint32(c.device),
		Subgroup: int(c.subgroup), SubgroupOperations: uint32(c.subgroup_operations),
		MaxInvocations: int(c.max_invocations), MaxPush: int(c.max_push), SharedBytes: int(c.shared_bytes),
		StorageBuffers: int(c.storage_buffers), MaxRange: uint64(c.max_range),
		MaxAllocation: uint64(c.max_allocation), MaxAllocations: int(c.max_allocations), Alignment: uint64(c.storage_alignment),
		Int64: c.int64 != 0, Int8: c.int8 != 0, Storage8: c.storage8 != 0, Storage16: c.storage16 != 0, Float16: c.float16 != 0, Addresses: c.addresses != 0,
		MemoryBudget: c.has_budget != 0, ImportAlignment: uint64(c.import_alignment), timestampPeriod: float32(c.timestamp_period), timestampBits: uint32(c.timestamp_bits), family: int(c.family),
		PushDescriptors: min(int(c.most_pushed), C.MO_PUSHED),
		transfer:        int(c.transfer), transferQueues: int(c.transfer_queues),
	}
	for k := range p.MaxGroups {
		p.MaxGroups[k] = uint32(c.max_groups[k])
	}
	p.Matrices, p.BFloat16Matrices = shapesOf(c.shape[:c.shapes]), shapesOf(c.bfloat16_shape[:c.bfloat16_shapes])
	p.Heaps = heapsOf(c)
	for _, t := range c.memory[:c.types] {
		p.Types = append(p.Types, MemoryType{uint32(t.heap), uint32(t.flags)})
	}
	return p
}

func shapesOf(all []C.mo_shape) (shapes [][3]int) {
	for _, m := range all {
		shapes = append(shapes, [3]int{int(m.m), int(m.n), int(m.k)})
	}
	return shapes
}

func heapsOf(c *C.mo_physical) (all []Heap) {
	for _, h := range c.heap[:c.heaps] {
		all = append(all, Heap{uint64(h.size), uint32(h.flags), uint64(h.budget), uint64(h.usage)})
	}
	return all
}

// Device is an open device. It must be used by one goroutine at a time.
type Device struct {
	Physical *Physical
	device   vulkan.Device
	// Faults is for tests: it is called before memory is allocated and lists are
	// submitted; a result other than 0 replaces the call.
	Faults func(call string) int32
	// Hidden is for tests: device memory is not mapped, as on discrete GPUs.
	Hidden bool
	// Addressed: blocks have device addresses. It must be set before the first block is
	// made, and only if the device supports it.
	Addressed bool

	c       *C.mo_device
	pool    C.uint64_t
	copies  C.uint64_t // the pool of lists of lanes for copies; 0 before MakeLanes
	live    int
	usage   Usage
	handles []C.uint64_t // of the lists being submitted
	batches []C.mo_batch // being submitted
}

func (d *Device) fault(call string) int32 {
	if d.Faults == nil {
		return 0
	}
	return d.Faults(call)
}

// Usage returns the memory of the device's blocks.
func (d *Device) Usage() Usage { return d.usage }

// Open opens a device with all features that kernels can use.
func (i *Instance) Open(p *Physical) (*Device, error) {
	if why := p.Unfit(); why != "" {
		return nil, fmt.Errorf("%s cannot be used: %s", p.Name, why)
	}
	physical := *(*vulkan.PhysicalDevice)(unsafe.Pointer(&p.handle))
	var c C.mo_physical
	C.mo_describe(i.get, unsafe.Pointer(i.instance), unsafe.Pointer(physical), &c)
	features := C.mo_features(&c)
	defer C.free(features)
	queues := []vulkan.DeviceQueueCreateInfo{{
		SType: vulkan.StructureTypeDeviceQueueCreateInfo, QueueFamilyIndex: uint32(p.family), QueueCount: 1, PQueuePriorities: []float32{1},
	}}
	if n := min(p.transferQueues, 2); p.transfer >= 0 {
		queues = append(queues, vulkan.DeviceQueueCreateInfo{
			SType: vulkan.StructureTypeDeviceQueueCreateInfo, QueueFamilyIndex: uint32(p.transfer), QueueCount: uint32(n), PQueuePriorities: []float32{1, 1}[:n],
		})
	}
	info := vulkan.DeviceCreateInfo{
		SType: vulkan.StructureTypeDeviceCreateInfo, PNext: features, QueueCreateInfoCount: uint32(len(queues)), PQueueCreateInfos: queues,
	}
	if p.MemoryBudget {
		info.PpEnabledExtensionNames = append(info.PpEnabledExtensionNames, "VK_EXT_memory_budget\x00")
	}
	if c.has_host_memory != 0 {
		info.PpEnabledExtensionNames = append(info.PpEnabledExtensionNames, "VK_EXT_external_memory_host\x00")
	}
	if c.has_push != 0 {
		info.PpEnabledExtensionNames = append(info.PpEnabledExtensionNames, "VK_KHR_push_descriptor\x00")
	}
	if c.has_matrices != 0 {
		info.PpEnabledExtensionNames = append(info.PpEnabledExtensionNames, "VK_KHR_cooperative_matrix\x00", "VK_EXT_subgroup_size_control\x00")
	}
	if c.has_bfloat16 != 0 {
		info.PpEnabledExtensionNames = append(info.PpEnabledExtensionNames, "VK_KHR_shader_bfloat16\x00")
	}
	info.EnabledExtensionCount = uint32(len(info.PpEnabledExtensionNames))
	var device vulkan.Device
	r := vulkan.CreateDevice(physical, &info, nil, &device)
	runtime.KeepAlive(&info)
	info.Free()
	if err := check("vkCreateDevice", int32(r)); err != nil {
		return nil, err
	}
	d := &Device{Physical: p, device: device}
	d.c = C.mo_attach(i.get, unsafe.Pointer(i.instance), unsafe.Pointer(physical), unsafe.Pointer(device), &c)
	if d.c == nil {
		vulkan.DestroyDevice(device, nil)
		return nil, fmt.Errorf("%s lacks functions of Vulkan 1.0", p.Name)
	}
	if err := check("vkCreateCommandPool", int32(C.mo_make_pool(d.c, 0, &d.pool))); err != nil {
		C.mo_detach(d.c)
		vulkan.DestroyDevice(device, nil)
		return nil, err
	}
	return d, nil
}

// Close closes the device. Everything made on it must be freed before.
func (d *Device) Close() {
	C.mo_free_pool(d.c, d.pool)
	if d.copies != 0 {
		C.mo_free_pool(d.c, d.copies)
	}
	C.mo_detach(d.c)
	vulkan.DestroyDevice(d.device, nil)
	d.c = nil
	C.trim() // drivers compile on many threads, whose malloc arenas would keep their peak size
}

// Heaps returns the device's heaps with their current budget and usage.
func (d *Device) Heaps() []Heap {
	var c C.mo_physical
	C.mo_budget(d.c, &c)
	return heapsOf(&c)
}

// Heap returns the heap of a place, with its current budget and usage.
func (d *Device) Heap(place Place) Heap {
	kind, _, _ := d.Physical.choose(place, math.MaxUint32)
	return d.Heaps()[d.Physical.Types[kind].Heap]
}

// Live is the number of objects made on the device and not freed yet.
func (d *Device) Live() int { return d.live }

// Block is a buffer with memory of its own.
type Block struct {
	Bytes   int64 // requested
	Granted int64 // as rounded up by the driver

	buffer, memory uint64
	mapped         unsafe.Pointer
	address        uint64
	imported       bool
}

// Imported reports whether the block is imported host memory.
func (b *Block) Imported() bool { return b.imported }

// Address is the device address of the block, if the device is Addressed.
func (b *Block) Address() uint64 { return b.address }

// Mapped is the host address of the block, or nil.
func (b *Block) Mapped() unsafe.Pointer { return b.mapped }

// shaderAddress is VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, which the binding lacks.
const shaderAddress = 0x20000

// NewBlock allocates a block. Sizes beyond the device's limits or the driver's budget fail before
// the driver is called: some drivers allocate more than there is, and lose the device later.
func (d *Device) NewBlock(bytes int64, place Place) (*Block, error) {
	b := &Block{Bytes: bytes}
	bytes = WholeWords(max(bytes, 1))
	if p := d.Physical; uint64(bytes) > p.MaxAllocation {
		return nil, fmt.Errorf("%w: an allocation of %d bytes exceeds the limit of %s, %d", ErrDeviceMemory, bytes, p.Name, p.MaxAllocation)
	}
	buffer, err := d.buffer(b, bytes, nil)
	if err != nil {
		return nil, err
	}
	if err := d.back(b, buffer, place); err != nil {
		d.Free(b)
		return nil, err
	}
	return b, nil
}

// buffer makes a block's buffer; next is the pNext chain.
func (d *Device) buffer(b *Block, bytes int64, next unsafe.Pointer) (vulkan.Buffer, error) {
	info := vulkan.BufferCreateInfo{
		SType: vulkan.StructureTypeBufferCreateInfo, PNext: next, Size: vulkan.DeviceSize(bytes), SharingMode: vulkan.SharingModeExclusive,
		Usage: vulkan.BufferUsageFlags(vulkan.BufferUsageStorageBufferBit | vulkan.BufferUsageTransferSrcBit | vulkan.BufferUsageTransferDstBit),
	}
	if d.Addressed {
		info.Usage |= shaderAddress
	}
	if d.copies != 0 && d.Physical.transfer >= 0 { // else each copy would hand its bytes from family to family and back
		info.SharingMode, info.QueueFamilyIndexCount = vulkan.SharingModeConcurrent, 2
		info.PQueueFamilyIndices = []uint32{uint32(d.Physical.family), uint32(d.Physical.transfer)}
	}
	var buffer vulkan.Buffer
	r := vulkan.CreateBuffer(d.device, &info, nil, &buffer)
	runtime.KeepAlive(&info)
	info.Free()
	if err := check("vkCreateBuffer", int32(r)); err != nil {
		return nil, err
	}
	b.buffer = uint64(uintptr(unsafe.Pointer(buffer)))
	d.live++
	return buffer, nil
}

// Import makes a block of host memory, which must outlive it: nothing is copied, and both sides see each other's writes.
// Misaligned pointers and sizes are refused here, as some drivers accept them and fail later.
func (d *Device) Import(host unsafe.Pointer, bytes int64) (*Block, error) {
	p := d.Physical
	switch align := p.ImportAlignment; {
	case align == 0:
		return nil, fmt.Errorf("%w: %s has no VK_EXT_external_memory_host", ErrImport, p.Name)
	case bytes <= 0 || host == nil:
		return nil, fmt.Errorf("%w: the memory is empty (%d bytes) or nil", ErrImport, bytes)
	case uint64(uintptr(host))%align != 0 || uint64(bytes)%align != 0:
		return nil, fmt.Errorf("%w: address (remainder %d) and size (remainder %d) must be multiples of %d bytes on %s",
			ErrImport, uint64(uintptr(host))%align, uint64(bytes)%align, align, p.Name)
	case uint64(bytes) > p.MaxAllocation:
		return nil, fmt.Errorf("%w: %d bytes exceed the largest allocation of %s, %d", ErrImport, bytes, p.Name, p.MaxAllocation)
	}
	b := &Block{Bytes: bytes}
	buffer, err := d.buffer(b, bytes, C.mo_external())
	if err != nil {
		return nil, err
	}
	if err := d.backImported(b, buffer, host); err != nil {
		d.Free(b)
		return nil, fmt.Errorf("%w: %w", ErrImport, err)
	}
	return b, nil
}

// backImported binds host memory to a buffer, with a memory type that both allow.
func (d *Device) backImported(b *Block, buffer vulkan.Buffer, host unsafe.Pointer) error {
	size, allowed := d.needs(buffer)
	if int64(size) > b.Bytes {
		return fmt.Errorf("a buffer of %d bytes needs %d bytes of memory", b.Bytes, size)
	}
	var types C.uint32_t
	if err := check("vkGetMemoryHostPointerPropertiesEXT", int32(C.mo_host_types(d.c, host, &types))); err != nil {
		return err
	}
	kind, _, ok := d.Physical.choose(Host, allowed&uint32(types))
	if !ok {
		return fmt.Errorf("no host-coherent memory type is allowed by both buffers (%#x) and the pointer (%#x)", allowed, uint32(types))
	}
	addressed := C.uint32_t(0)
	if d.Addressed {
		addressed = 1
	}
	next := C.mo_import(host, addressed)
	defer C.free(next)
	if err := d.allocate(b, vulkan.DeviceSize(b.Bytes), kind, next, " of host memory"); err != nil {
		return err
	}
	b.imported, b.mapped = true, host
	d.usage.Imported += b.Bytes
	return d.bind(b, buffer)
}

// needs returns the size of a buffer's memory, and the memory types that it allows.
func (d *Device) needs(buffer vulkan.Buffer) (size vulkan.DeviceSize, allowed uint32) {
	var needs vulkan.MemoryRequirements
	vulkan.GetBufferMemoryRequirements(d.device, buffer, &needs)
	needs.Deref()
	size, allowed = needs.Size, needs.MemoryTypeBits
	needs.Free()
	return size, allowed
}

// allocate allocates memory of a type for a block; next is the pNext chain, and what is added to error messages.
func (d *Device) allocate(b *Block, bytes vulkan.DeviceSize, kind int, next unsafe.Pointer, what string) error {
	info := vulkan.MemoryAllocateInfo{SType: vulkan.StructureTypeMemoryAllocateInfo, PNext: next, AllocationSize: bytes, MemoryTypeIndex: uint32(kind)}
	var memory vulkan.DeviceMemory
	r := d.fault("vkAllocateMemory" + what)
	if r == 0 {
		r = int32(vulkan.AllocateMemory(d.device, &info, nil, &memory))
	}
	runtime.KeepAlive(&info)
	info.Free()
	if err := check(fmt.Sprintf("vkAllocateMemory of %d bytes%s", bytes, what), r); err != nil {
		return err
	}
	b.memory = uint64(uintptr(unsafe.Pointer(memory)))
	d.live++
	return nil
}

// bind binds a block's memory to its buffer.
func (d *Device) bind(b *Block, buffer vulkan.Buffer) error {
	if err := check("vkBindBufferMemory", int32(vulkan.BindBufferMemory(d.device, buffer, b.deviceMemory(), 0))); err != nil {
		return err
	}
	if d.Addressed {
		b.address = uint64(C.mo_address(d.c, C.uint64_t(b.buffer)))
	}
	return nil
}

func (b *Block) deviceMemory() vulkan.DeviceMemory {
	return *(*vulkan.DeviceMemory)(unsafe.Pointer(&b.memory))
}

// back allocates memory for a buffer and binds it.
func (d *Device) back(b *Block, buffer vulkan.Buffer, place Place) error {
	size, allowed := d.needs(buffer)
	kind, mapped, ok := d.Physical.choose(place, allowed)
	if !ok {
		return fmt.Errorf("%s has no memory type for buffers", d.Physical.Name)
	}
	if heap := d.Heaps()[d.Physical.Types[kind].Heap]; heap.Budget > 0 && uint64(size) > heap.Budget-min(heap.Budget, heap.Usage) {
		return fmt.Errorf("%w: %d bytes requested, but the driver's budget has %d left for this process", ErrDeviceMemory, size, heap.Budget-min(heap.Budget, heap.Usage))
	}
	var next unsafe.Pointer
	if d.Addressed {
		next = C.mo_addressed()
	}
	d.usage.Calls++
	if err := d.allocate(b, size, kind, next, ""); err != nil {
		return err
	}
	b.Granted = int64(size)
	d.usage.Bytes += b.Granted
	d.usage.Peak = max(d.usage.Peak, d.usage.Bytes)
	if err := d.bind(b, buffer); err != nil {
		return err
	}
	if mapped && !(d.Hidden && place == Near) {
		var at unsafe.Pointer
		if err := check("vkMapMemory", int32(vulkan.MapMemory(d.device, b.deviceMemory(), 0, size, 0, &at))); err != nil {
			return err
		}
		b.mapped = at
	}
	return nil
}

// Free frees a block, which may be nil.
func (d *Device) Free(b *Block) {
	if b == nil {
		return
	}
	if b.buffer != 0 {
		vulkan.DestroyBuffer(d.device, *(*vulkan.Buffer)(unsafe.Pointer(&b.buffer)), nil)
		d.live--
	}
	if b.memory != 0 {
		vulkan.FreeMemory(d.device, b.deviceMemory(), nil)
		d.live--
		if d.usage.Bytes -= b.Granted; b.imported {
			d.usage.Imported -= b.Bytes
		}
	}
	*b = Block{}
}

// Pipeline is a shader with its constants, ready to run.
type Pipeline struct {
	c        C.mo_pipeline
	bindings int
	pushed   bool
}

// Pushed reports whether commands push the bindings of a pipeline: it takes no descriptor set.
func (p *Pipeline) Pushed() bool { return p.pushed }

// NewPipeline compiles SPIR-V with specialization constants 0, 1, …, for shaders with storage
// buffers at bindings 0, 1, … of set 0. Where push is true and the device can, commands push the bindings.
func (d *Device) NewPipeline(code []byte, spec []uint32, bindings, pushBytes int, push bool) (*Pipeline, error) {
	// Vulkan requires word-aligned code.
	words := make([]uint32, len(code)/4)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(code)), code)
	p := &Pipeline{bindings: bindings, pushed: push && bindings <= d.Physical.PushDescriptors}
	pushed := C.uint32_t(0)
	if p.pushed {
		pushed = 1
	}
	var special *C.uint32_t
	if len(spec) > 0 {
		special = (*C.uint32_t)(unsafe.Pointer(&spec[0]))
	}
	err := check("vkCreateComputePipelines", int32(C.mo_make_pipeline(d.c, (*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(words))), C.uint64_t(len(code)),
		special, C.uint32_t(len(spec)), C.uint32_t(bindings), C.uint32_t(pushBytes), pushed, &p.c)))
	d.live++
	if err != nil {
		d.FreePipeline(p)
		return nil, err
	}
	return p, nil
}

// KeepPipelines has the driver keep what it compiles from now on, beginning with what KeptPipelines returned on the same
// device and driver; a driver ignores what another has kept.
func (d *Device) KeepPipelines(saved []byte) error {
	return check("vkCreatePipelineCache", int32(C.mo_keep_pipelines(d.c, unsafe.Pointer(unsafe.SliceData(saved)), C.uint64_t(len(saved)))))
}

// KeptPipelines is what the driver has kept.
func (d *Device) KeptPipelines() ([]byte, error) {
	var n C.uint64_t
	if err := check("vkGetPipelineCacheData", int32(C.mo_kept_pipelines(d.c, nil, &n))); err != nil || n == 0 {
		return nil, err
	}
	to := make([]byte, n)
	err := check("vkGetPipelineCacheData", int32(C.mo_kept_pipelines(d.c, unsafe.Pointer(&to[0]), &n)))
	return to[:n], err
}

// FreePipeline frees a pipeline.
func (d *Device) FreePipeline(p *Pipeline) {
	C.mo_free_pipeline(d.c, &p.c)
	d.live--
}

// Sets are descriptor sets.
type Sets struct {
	Handles []uint64
	pool    C.uint64_t
}

// NewSets makes a set for each pipeline, with its bindings.
func (d *Device) NewSets(pipelines []*Pipeline, bindings [][]Binding) (*Sets, error) {
	s := &Sets{Handles: make([]uint64, len(pipelines))}
	if len(pipelines) == 0 {
		return s, nil
	}
	layouts := make([]uint64, len(pipelines))
	n := 0
	for i, p := range pipelines {
		layouts[i] = uint64(p.c.set_layout)
		n += p.bindings
	}
	err := check("vkAllocateDescriptorSets", int32(C.mo_make_sets(d.c, (*C.uint64_t)(unsafe.Pointer(&layouts[0])), C.uint32_t(len(layouts)),
		C.uint32_t(max(n, 1)), &s.pool, (*C.uint64_t)(unsafe.Pointer(&s.Handles[0])))))
	d.live++
	if err != nil {
		d.FreeSets(s)
		return nil, err
	}
	all := make([]C.mo_binding, 0, n)
	for i, bs := range bindings {
		for k, b := range bs {
			all = append(all, bound(s.Handles[i], k, b))
		}
	}
	if len(all) > 0 {
		C.mo_bind(d.c, &all[0], C.uint32_t(len(all)))
	}
	return s, nil
}

func bound(set uint64, k int, b Binding) C.mo_binding {
	return C.mo_binding{set: C.uint64_t(set), buffer: C.uint64_t(b.Block.buffer), at: C.uint64_t(b.At), bytes: C.uint64_t(b.Bytes), binding: C.uint32_t(k)}
}

// FreeSets frees descriptor sets.
func (d *Device) FreeSets(s *Sets) {
	if s.pool != 0 {
		C.mo_free_sets(d.c, s.pool)
	}
	if len(s.Handles) > 0 {
		d.live--
	}
}

// List is a recorded command buffer.
type List struct {
	Commands int
	handle   C.uint64_t
	pool     C.uint64_t
	copies   bool // has no dispatches
}

// Record records a list; commands Time and Reset use the queries.
func (d *Device) Record(commands []Command, q *Queries) (*List, error) {
	return d.record(commands, q, Work)
}

// RecordFor records a list for a lane.
func (d *Device) RecordFor(l Lane, commands []Command) (*List, error) {
	return d.record(commands, nil, l)
}

func (d *Device) record(commands []Command, q *Queries, lane Lane) (*List, error) {
	cs := make([]C.mo_command, len(commands), len(commands)+1)
	var push []uint32
	var bindings []C.mo_binding
	for i, c := range commands {
		to := &cs[i]
		to.kind, to.value, to.bytes = C.uint32_t(c.Kind), C.uint32_t(c.Value), C.uint64_t(c.Bytes)
		to.from_at, to.to_at = C.uint64_t(c.FromAt), C.uint64_t(c.ToAt)
		if c.Host {
			to.host = 1
		}
		if c.From != nil {
			to.from = C.uint64_t(c.From.buffer)
		}
		if c.To != nil {
			to.to = C.uint64_t(c.To.buffer)
		}
		if c.Pipeline != nil {
			to.pipeline, to.layout, to.set = c.Pipeline.c.pipeline, c.Pipeline.c.layout, C.uint64_t(c.Set)
			if c.Pipeline.pushed {
				to.bind_at, to.bindings = C.uint32_t(len(bindings)), C.uint32_t(len(c.Bindings))
				for k, b := range c.Bindings {
					bindings = append(bindings, bound(0, k, b))
				}
			}
			to.push_at, to.push_bytes = C.uint32_t(4*len(push)), C.uint32_t(4*len(c.Push))
			push = append(push, c.Push...)
			for k, g := range c.Groups {
				to.groups[k] = C.uint32_t(g)
			}
		}
	}
	push = append(push, 0)
	var queries C.uint64_t
	if q != nil {
		queries = q.handle
	}
	l := &List{Commands: len(commands), pool: d.pool, copies: !slices.ContainsFunc(commands, func(c Command) bool { return c.Kind == Dispatch })}
	copies := C.uint32_t(0)
	if lane != Work {
		l.pool, copies = d.copies, 1
	}
	err := check("recording commands", int32(C.mo_record(d.c, l.pool, unsafe.SliceData(cs), C.uint32_t(len(cs)),
		(*C.uint8_t)(unsafe.Pointer(&push[0])), unsafe.SliceData(bindings), queries, copies, &l.handle)))
	if l.handle != 0 {
		d.live++
	}
	if err != nil {
		d.FreeList(l)
		return nil, err
	}
	return l, nil
}

// FreeList frees a list.
func (d *Device) FreeList(l *List) {
	if l.handle != 0 {
		C.mo_free_list(d.c, l.pool, l.handle)
		l.handle = 0
		d.live--
	}
}

// Queries are timestamp queries.
type Queries struct {
	handle C.uint64_t
	n      int
}

// NewQueries makes n queries; nil if the device has no timestamps.
func (d *Device) NewQueries(n int) (*Queries, error) {
	if d.Physical.timestampBits == 0 || n == 0 {
		return nil, nil
	}
	q := &Queries{n: n}
	if err := check("vkCreateQueryPool", int32(C.mo_make_queries(d.c, C.uint32_t(n), &q.handle))); err != nil {
		return nil, err
	}
	d.live++
	return q, nil
}

// Times reads the queries, as durations since the first.
func (d *Device) Times(q *Queries) ([]time.Duration, error) {
	ticks := make([]uint64, q.n)
	if err := check("vkGetQueryPoolResults", int32(C.mo_read_queries(d.c, q.handle, C.uint32_t(q.n), (*C.uint64_t)(unsafe.Pointer(&ticks[0]))))); err != nil {
		return nil, err
	}
	mask := ^uint64(0) >> (64 - min(64, d.Physical.timestampBits))
	out := make([]time.Duration, q.n)
	for i, t := range ticks {
		out[i] = time.Duration(float64((t-ticks[0])&mask) * float64(d.Physical.timestampPeriod))
	}
	return out, nil
}

// FreeQueries frees queries, which may be nil.
func (d *Device) FreeQueries(q *Queries) {
	if q != nil {
		C.mo_free_queries(d.c, q.handle)
		d.live--
	}
}

// Submit runs lists in order, each in its own submission, and waits for the last.
func (d *Device) Submit(lists []*List, timeout time.Duration) error {
	d.handles = d.handles[:0]
	for _, l := range lists {
		d.handles = append(d.handles, l.handle)
	}
	if len(d.handles) == 0 {
		return nil
	}
	call := "vkQueueSubmit"
	if lists[0].copies {
		call = "vkQueueSubmit of copies"
	}
	if r := d.fault(call); r != 0 {
		return check("running commands", r)
	}
	return check("running commands", int32(C.mo_submit(d.c, &d.handles[0], C.uint32_t(len(d.handles)), C.uint64_t(timeout))))
}

// MakeLanes readies lanes. It must be called before the first block is made.
func (d *Device) MakeLanes() error {
	if d.copies != 0 {
		return nil
	}
	if err := check("vkCreateSemaphore", int32(C.mo_make_lanes(d.c))); err != nil {
		return err
	}
	return check("vkCreateCommandPool", int32(C.mo_make_pool(d.c, 1, &d.copies)))
}

// Laned reports whether the device has lanes.
func (d *Device) Laned() bool { return d.copies != 0 }

// SubmitLanes runs batches, each when those that it waits for and those before it in its lane have ended, and waits for all.
func (d *Device) SubmitLanes(all []Batch, timeout time.Duration) error {
	if len(all) == 0 {
		return nil
	}
	if r := d.fault("vkQueueSubmit"); r != 0 {
		return check("running commands", r)
	}
	d.batches = d.batches[:0]
	for _, b := range all {
		to := C.mo_batch{list: b.List.handle, lane: C.uint32_t(b.Lane)}
		for k, n := range b.Waits {
			to.waits[k] = C.uint64_t(n)
		}
		d.batches = append(d.batches, to)
	}
	return check("running commands", int32(C.mo_submit_lanes(d.c, &d.batches[0], C.uint32_t(len(d.batches)), C.uint64_t(timeout))))
}

//go:build !cgo || !linux

package vk

import (
	"fmt"
	"time"
	"unsafe"
)

// Instance is a loaded Vulkan instance.
type Instance struct{}

// Load returns ErrNone.
func Load(bool) (*Instance, error) {
	return nil, fmt.Errorf("%w: this program was built without it (it needs cgo, on Linux)", ErrNone)
}

// Devices returns ErrNone.
func (*Instance) Devices() ([]*Physical, error) { return nil, ErrNone }

// Messages returns the validation layer's messages since the last call.
func (*Instance) Messages() string { return "" }

// Open opens a device.
func (*Instance) Open(*Physical) (*Device, error) { return nil, ErrNone }

// Device is an open device.
type Device struct {
	Physical  *Physical
	Faults    func(call string) int32
	Hidden    bool
	Addressed bool
}

// Usage returns the memory of the device's blocks.
func (*Device) Usage() Usage { return Usage{} }

// Close closes the device.
func (*Device) Close() {}

// Heaps returns the device's heaps with their current budget and usage.
func (d *Device) Heaps() []Heap { return nil }

// Heap returns the heap of a place.
func (d *Device) Heap(Place) Heap { return Heap{} }

// Live is the number of objects that are not freed yet.
func (*Device) Live() int { return 0 }

// Block is a buffer with memory of its own.
type Block struct{ Bytes, Granted int64 }

// NewBlock allocates a block.
func (*Device) NewBlock(int64, Place) (*Block, error) { return nil, ErrNone }

// Import makes a block of host memory.
func (*Device) Import(unsafe.Pointer, int64) (*Block, error) { return nil, ErrNone }

// Imported reports whether the block is imported host memory.
func (*Block) Imported() bool { return false }

// Mapped is the host address of the block, or nil.
func (*Block) Mapped() unsafe.Pointer { return nil }

// Address is the device address of the block.
func (*Block) Address() uint64 { return 0 }

// Free frees a block.
func (*Device) Free(*Block) {}

// Pipeline is a shader with its constants, ready to run.
type Pipeline struct{}

// NewPipeline compiles SPIR-V.
func (*Device) NewPipeline([]byte, []uint32, int, int, bool) (*Pipeline, error) { return nil, ErrNone }

// KeepPipelines has the driver keep what it compiles.
func (*Device) KeepPipelines([]byte) error { return ErrNone }

// KeptPipelines is what the driver has kept.
func (*Device) KeptPipelines() ([]byte, error) { return nil, ErrNone }

// FreePipeline frees a pipeline.
func (*Device) FreePipeline(*Pipeline) {}

// Sets are descriptor sets.
type Sets struct{ Handles []uint64 }

// NewSets makes a set for each pipeline, with its bindings.
func (*Device) NewSets([]*Pipeline, [][]Binding) (*Sets, error) { return nil, ErrNone }

// FreeSets frees descriptor sets.
func (*Device) FreeSets(*Sets) {}

// List is a recorded command buffer.
type List struct{ Commands int }

// Record records a list.
func (*Device) Record([]Command, *Queries) (*List, error) { return nil, ErrNone }

// FreeList frees a list.
func (*Device) FreeList(*List) {}

// Queries are timestamp queries.
type Queries struct{}

// NewQueries makes n queries.
func (*Device) NewQueries(int) (*Queries, error) { return nil, ErrNone }

// Times reads the queries.
func (*Device) Times(*Queries) ([]time.Duration, error) { return nil, ErrNone }

// FreeQueries frees queries.
func (*Device) FreeQueries(*Queries) {}

// Submit runs lists in order and waits.
func (*Device) Submit([]*List, time.Duration) error { return ErrNone }

// RecordFor records a list for a lane.
func (*Device) RecordFor(Lane, []Command) (*List, error) { return nil, ErrNone }

// MakeLanes readies lanes.
func (*Device) MakeLanes() error { return ErrNone }

// SubmitLanes runs batches and waits.
func (*Device) SubmitLanes([]Batch, time.Duration) error { return ErrNone }

// Laned reports whether the device has lanes.
func (*Device) Laned() bool { return false }

// Pushed reports whether commands push the bindings of a pipeline.
func (*Pipeline) Pushed() bool { return false }

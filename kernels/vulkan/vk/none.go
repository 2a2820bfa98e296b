//go:build !cgo || !linux

package vk

import (
	"fmt"
	"time"
	"unsafe"
)

// Instance is a loaded Vulkan.
type Instance struct{}

// Load says that there is none.
func Load(bool) (*Instance, error) {
	return nil, fmt.Errorf("%w: this program was built without it (it needs cgo, on Linux)", ErrNone)
}

// Devices lists what there is.
func (*Instance) Devices() ([]*Physical, error) { return nil, ErrNone }

// Messages are those of the validation layers since the last call.
func (*Instance) Messages() string { return "" }

// Open makes a device ready.
func (*Instance) Open(*Physical) (*Device, error) { return nil, ErrNone }

// Device is a device ready for work.
type Device struct {
	Physical  *Physical
	Faults    func(call string) int32
	Hidden    bool
	Addressed bool
}

// Usage says what the driver was asked for.
func (*Device) Usage() Usage { return Usage{} }

// Close gives the device back.
func (*Device) Close() {}

// Heaps are the device's, with what the driver says of them now.
func (d *Device) Heaps() []Heap { return nil }

// Heap is the one that blocks of a place come from.
func (d *Device) Heap(Place) Heap { return Heap{} }

// Live is the number of objects that are not freed yet.
func (*Device) Live() int { return 0 }

// Block is a buffer with memory of its own.
type Block struct{ Bytes, Granted int64 }

// NewBlock allocates a block.
func (*Device) NewBlock(int64, Place) (*Block, error) { return nil, ErrNone }

// Import makes a block of memory that the host has.
func (*Device) Import(unsafe.Pointer, int64) (*Block, error) { return nil, ErrNone }

// Imported reports whether the block's memory is the host's own.
func (*Block) Imported() bool { return false }

// Mapped is where the host sees the block, or nil.
func (*Block) Mapped() unsafe.Pointer { return nil }

// Address is where kernels find the block.
func (*Block) Address() uint64 { return 0 }

// Free gives a block back.
func (*Device) Free(*Block) {}

// Pipeline is a shader with its constants, ready to run.
type Pipeline struct{}

// NewPipeline compiles SPIR-V.
func (*Device) NewPipeline([]byte, []uint32, int, int) (*Pipeline, error) { return nil, ErrNone }

// FreePipeline gives a pipeline back.
func (*Device) FreePipeline(*Pipeline) {}

// Sets are what shaders see of blocks.
type Sets struct{ Handles []uint64 }

// NewSets makes a set for each pipeline, with its bindings.
func (*Device) NewSets([]*Pipeline, [][]Binding) (*Sets, error) { return nil, ErrNone }

// FreeSets gives sets back.
func (*Device) FreeSets(*Sets) {}

// List is so many commands, recorded once.
type List struct{ Commands int }

// Record makes a list.
func (*Device) Record([]Command, *Queries) (*List, error) { return nil, ErrNone }

// FreeList gives a list back.
func (*Device) FreeList(*List) {}

// Queries are points in time.
type Queries struct{}

// NewQueries makes n of them.
func (*Device) NewQueries(int) (*Queries, error) { return nil, ErrNone }

// Times reads them.
func (*Device) Times(*Queries) ([]time.Duration, error) { return nil, ErrNone }

// FreeQueries gives them back.
func (*Device) FreeQueries(*Queries) {}

// Submit runs lists in order and waits.
func (*Device) Submit([]*List, time.Duration) error { return ErrNone }

package memopt

import (
	"math"
	"unsafe"

	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/memopt/loader"
)

// loadDevices open devices as plain memory, by kind.
var loadDevices = map[string]func(which string) (loader.Device, error){
	"cpu": func(string) (loader.Device, error) { return loader.NewHost(), nil },
	"vulkan": func(which string) (loader.Device, error) {
		p, err := vulkan.Choose(which)
		if err != nil {
			return nil, err
		}
		s, err := vulkan.OpenStore(p)
		if err != nil {
			return nil, err
		}
		return vulkanStore{s}, nil
	},
}

// vulkanStore is a Vulkan device's memory for the loader.
type vulkanStore struct{ *vulkan.Store }

// vulkanBlock is a block of a vulkanStore.
type vulkanBlock struct {
	*vk.Block
	store *vulkan.Store
}

// Bytes is the block's memory as mapped to the processor, or nil.
func (b vulkanBlock) Bytes() []byte {
	if b.Mapped() == nil {
		return nil
	}
	return unsafe.Slice((*byte)(b.Mapped()), b.Block.Bytes)
}

// Granted is the size that the driver allocated.
func (b vulkanBlock) Granted() int64 { return b.Block.Granted }

// Free frees the block.
func (b vulkanBlock) Free() { b.store.Free(b.Block) }

// Take allocates device-local memory.
func (s vulkanStore) Take(n int64) (loader.Memory, error) {
	b, err := s.Near(n)
	if err != nil {
		return nil, err
	}
	return vulkanBlock{b, s.Store}, nil
}

// Stage allocates host-visible memory.
func (s vulkanStore) Stage(n int64) (loader.Memory, error) {
	b, err := s.Staging(n)
	if err != nil {
		return nil, err
	}
	return vulkanBlock{b, s.Store}, nil
}

// Copy carries out the moves.
func (s vulkanStore) Copy(moves []loader.Move) error {
	commands := make([]vk.Command, len(moves))
	for i, m := range moves {
		commands[i] = vk.Command{Kind: vk.Copy, From: m.From.(vulkanBlock).Block, FromAt: m.FromAt, To: m.To.(vulkanBlock).Block, ToAt: m.ToAt, Bytes: vk.WholeWords(m.Bytes)}
	}
	return s.Store.Copy(commands)
}

// Driver is the driver's report of the heap.
func (s vulkanStore) Driver() (usage, budget int64, ok bool) {
	h := s.Heap()
	return int64(min(h.Usage, math.MaxInt64)), int64(min(h.Budget, math.MaxInt64)), h.Budget > 0
}

package vulkan

import (
	"fmt"
	"os"
	"time"
	"unsafe"

	"memopt/internal/loader"
	"memopt/kernels/vulkan/vk"
)

// Store is a device's memory without a schedule, for loading weights.
type Store struct {
	gpu  *vk.Device
	name string
}

// OpenStore opens a device for its memory.
func OpenStore(p *vk.Physical) (*Store, error) {
	i, err := load()
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	gpu, err := i.Open(p)
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	gpu.Hidden = os.Getenv(hiddenVariable) != ""
	return &Store{gpu, fmt.Sprintf("vulkan:%d %s (%s, %s)", p.Index, p.Name, p.Kind, p.Driver)}, nil
}

// Name describes the device.
func (s *Store) Name() string { return s.name }

// Unified reports whether the device shares the host's memory.
func (s *Store) Unified() bool { return s.gpu.Physical.Unified() }

// block is a block of memory, for the loader.
type block struct {
	*vk.Block
	free func(*vk.Block)
}

// Bytes is the block's memory as mapped to the processor, or nil.
func (b block) Bytes() []byte {
	if b.Mapped() == nil {
		return nil
	}
	return unsafe.Slice((*byte)(b.Mapped()), b.Block.Bytes)
}

// Granted is the size that the driver allocated.
func (b block) Granted() int64 { return b.Block.Granted }

// Free frees the block.
func (b block) Free() { b.free(b.Block) }

// Take allocates device-local memory.
func (s *Store) Take(n int64) (loader.Memory, error) { return s.take(n, vk.Near) }

// Stage allocates host-visible memory that the device copies from.
func (s *Store) Stage(n int64) (loader.Memory, error) { return s.take(n, vk.Host) }

func (s *Store) take(n int64, place vk.Place) (loader.Memory, error) {
	b, err := s.gpu.NewBlock(n, place)
	if err != nil {
		return nil, err
	}
	return block{b, s.gpu.Free}, nil
}

// Copy carries out the moves, and waits for them.
func (s *Store) Copy(moves []loader.Move) error {
	l, err := s.gpu.Record(copies(moves), nil)
	if err != nil {
		return err
	}
	defer s.gpu.FreeList(l)
	return s.gpu.Submit([]*vk.List{l}, 10*time.Minute)
}

// copies is the commands of moves, between barriers.
func copies(moves []loader.Move) []vk.Command {
	all := []vk.Command{{Kind: vk.Barrier, Host: true}}
	for _, m := range moves {
		all = append(all, vk.Command{Kind: vk.Copy, From: m.From.(block).Block, FromAt: m.FromAt, To: m.To.(block).Block, ToAt: m.ToAt, Bytes: vk.WholeWords(m.Bytes)})
	}
	return append(all, vk.Command{Kind: vk.Barrier, Host: true})
}

// Driver is the driver's report of the heap of device memory.
func (s *Store) Driver() (usage, budget int64, ok bool) { return driver(s.gpu) }

// Live is the number of objects of the device that are not freed.
func (s *Store) Live() int { return s.gpu.Live() }

// Close closes the device.
func (s *Store) Close() error {
	if n := s.gpu.Live(); n != 0 {
		return fmt.Errorf("vulkan: %d objects were not freed before the device", n)
	}
	s.gpu.Close()
	return nil
}

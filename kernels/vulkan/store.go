package vulkan

import (
	"fmt"
	"os"
	"time"

	"memopt/kernels/vulkan/vk"
)

// Store is a device's memory without a schedule, for weights that only have to get there.
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

// Unified says that all its memory is the machine's own.
func (s *Store) Unified() bool { return s.gpu.Physical.Unified() }

// Near and Staging are blocks: where kernels find them, and where the processor sees them.
func (s *Store) Near(bytes int64) (*vk.Block, error) { return s.gpu.NewBlock(bytes, vk.Near) }

// Staging is a block that the processor writes and the device copies from.
func (s *Store) Staging(bytes int64) (*vk.Block, error) { return s.gpu.NewBlock(bytes, vk.Host) }

// Free gives a block back.
func (s *Store) Free(b *vk.Block) { s.gpu.Free(b) }

// Copy carries copies out and waits for them.
func (s *Store) Copy(copies []vk.Command) error {
	all := append([]vk.Command{{Kind: vk.Barrier, Host: true}}, copies...)
	l, err := s.gpu.Record(append(all, vk.Command{Kind: vk.Barrier, Host: true}), nil)
	if err != nil {
		return err
	}
	defer s.gpu.FreeList(l)
	return s.gpu.Submit([]*vk.List{l}, 10*time.Minute)
}

// Heap is what the driver says of the memory near the device.
func (s *Store) Heap() vk.Heap { return s.gpu.Heap(vk.Near) }

// Live is how many objects of the device are not freed.
func (s *Store) Live() int { return s.gpu.Live() }

// Close gives the device back.
func (s *Store) Close() error {
	if n := s.gpu.Live(); n != 0 {
		return fmt.Errorf("vulkan: %d objects are left at the end", n)
	}
	s.gpu.Close()
	return nil
}

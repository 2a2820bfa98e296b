package vulkan

import (
	"fmt"
	"os"
	"time"

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

// Near allocates a block of device memory.
func (s *Store) Near(bytes int64) (*vk.Block, error) { return s.gpu.NewBlock(bytes, vk.Near) }

// Staging allocates a host-visible block that the device copies from.
func (s *Store) Staging(bytes int64) (*vk.Block, error) { return s.gpu.NewBlock(bytes, vk.Host) }

// Free frees a block.
func (s *Store) Free(b *vk.Block) { s.gpu.Free(b) }

// Copy executes copies and waits for them.
func (s *Store) Copy(copies []vk.Command) error {
	all := append([]vk.Command{{Kind: vk.Barrier, Host: true}}, copies...)
	l, err := s.gpu.Record(append(all, vk.Command{Kind: vk.Barrier, Host: true}), nil)
	if err != nil {
		return err
	}
	defer s.gpu.FreeList(l)
	return s.gpu.Submit([]*vk.List{l}, 10*time.Minute)
}

// Heap returns the state of the heap of device memory.
func (s *Store) Heap() vk.Heap { return s.gpu.Heap(vk.Near) }

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

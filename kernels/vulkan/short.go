package vulkan

import (
	"errors"

	"memopt/kernels/vulkan/vk"
)

// MemoryError is an out-of-memory error with the memory that the device held.
type MemoryError struct {
	error
	Need   int64   // bytes of the schedule, without what it shares with other devices
	Held   int64   // bytes of all blocks at the time
	Owners []Owned // by purpose
	// Has is the bytes that the heap can provide in total; with Counted according to the driver's budget.
	Has     int64
	Counted bool
}

func (e *MemoryError) Unwrap() error { return e.error }

// short turns out-of-memory errors into a MemoryError.
func (d *Device) short(err error) error {
	if !errors.Is(err, vk.ErrDeviceMemory) && !errors.Is(err, vk.ErrHostMemory) {
		return err
	}
	heap := d.gpu.Heap(vk.Near)
	e := &MemoryError{error: err, Held: d.gpu.Usage().Bytes, Owners: d.memory.Owners, Has: int64(min(heap.Size, 1<<62)),
		Need: d.schedule.Arena + d.schedule.State + d.schedule.Staging}
	if heap.Budget > 0 {
		left := heap.Budget - min(heap.Budget, heap.Usage)
		e.Has, e.Counted = int64(min(left, 1<<62))+e.Held, true
	}
	return e
}

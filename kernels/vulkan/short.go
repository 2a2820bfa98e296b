package vulkan

import (
	"errors"

	"memopt/kernels/vulkan/vk"
)

// MemoryError says what a device held when it, or its driver, had no memory for more.
type MemoryError struct {
	error
	Need   int64   // bytes that the schedule takes, as far as they are this device's alone
	Held   int64   // bytes that all blocks took by then
	Owners []Owned // whose they are
	// Has is what the heap can give in all; of the driver's own count where it has one, which it then is.
	Has     int64
	Counted bool
}

func (e *MemoryError) Unwrap() error { return e.error }

// short adds to an error of memory what the device holds.
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

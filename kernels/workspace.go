package kernels

import (
	"sync"
	"unsafe"
)

// workspace lends blocks that operators work in for a moment and no plan
// places: one for each that is under way at one time. It keeps what it has, so
// that it can say how much that is.
type workspace[T any] struct {
	lock sync.Mutex
	free []*T
	made int
}

func (w *workspace[T]) get() *T {
	w.lock.Lock()
	defer w.lock.Unlock()
	last := len(w.free) - 1
	if last < 0 {
		w.made++
		return new(T)
	}
	b := w.free[last]
	w.free = w.free[:last]
	return b
}

func (w *workspace[T]) put(b *T) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.free = append(w.free, b)
}

func (w *workspace[T]) bytes() int64 {
	w.lock.Lock()
	defer w.lock.Unlock()
	return int64(w.made) * int64(unsafe.Sizeof(*new(T)))
}

// Workspace is the bytes that operators of this process work in beside what
// plans place: packed blocks of products, which all devices share.
func Workspace() int64 { return blocks.bytes() + tapRows.bytes() }

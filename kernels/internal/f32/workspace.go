package f32

import (
	"sync"
	"unsafe"
)

// workspace is a pool of blocks for temporary use. It never frees them, so that their total size is
// known.
type workspace[T any] struct {
	lock sync.Mutex
	free []*T
	made int
}

func (w *workspace[T]) Get() *T {
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

func (w *workspace[T]) Put(b *T) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.free = append(w.free, b)
}

func (w *workspace[T]) Bytes() int64 {
	w.lock.Lock()
	defer w.lock.Unlock()
	return int64(w.made) * int64(unsafe.Sizeof(*new(T)))
}

// WorkspaceBytes is the total size of the pools of this process.
func WorkspaceBytes() int64 { return blocks.Bytes() + tapRows.Bytes() }

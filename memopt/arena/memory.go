package arena

import "sync/atomic"

var (
	mapped atomic.Int64
	fault  atomic.Pointer[func(n int64) error]
)

// Map is n zero bytes outside the Go heap, or an error if there are none to be had. As a part of the heap they would
// count as what lives, and the collector would let as much garbage pile up beside them.
func Map(n int64) ([]byte, error) { return had(n, pages) }

// Reserve is n bytes of address space, which nobody may touch before Commit; Unmap ends them.
func Reserve(n int64) ([]byte, error) { return had(n, addresses) }

// Commit has a range of what was reserved hold zeros, in whole pages, and tells how many bytes these are.
func Commit(b []byte, from, to int64) (int64, error) {
	if err := faulty(to - from); err != nil {
		return 0, err
	}
	return touchable(b, from, to)
}

// Unmap ends what was mapped or reserved. Nothing may look at it any more.
func Unmap(b []byte) {
	mapped.Add(-int64(len(b)))
	unmap(b)
}

// Mapped is the bytes that are mapped or reserved now.
func Mapped() int64 { return mapped.Load() }

// Fault is for tests: f is asked before memory is had, of how many bytes, and its error is what comes of it. Nil ends that.
func Fault(f func(n int64) error) {
	if f == nil {
		fault.Store(nil)
		return
	}
	fault.Store(&f)
}

func faulty(n int64) error {
	if f := fault.Load(); f != nil && n > 0 {
		return (*f)(n)
	}
	return nil
}

func had(n int64, get func(int64) ([]byte, error)) ([]byte, error) {
	if err := faulty(n); err != nil {
		return nil, err
	}
	b, err := get(n)
	if err == nil {
		mapped.Add(int64(len(b)))
	}
	return b, err
}

package arena

import "sync/atomic"

var (
	mapped atomic.Int64
	fault  atomic.Pointer[func(n int64) error]
)

// Map allocates n zero bytes outside the Go heap, or returns an error. In the heap they would count
// as live, and the collector would let as much garbage accumulate.
func Map(n int64) ([]byte, error) { return had(n, pages) }

// Reserve reserves n bytes of address space, which must not be accessed before Commit. Unmap
// releases them.
func Reserve(n int64) ([]byte, error) { return had(n, addresses) }

// Commit makes whole pages around a reserved range accessible, filled with zeros, and returns their
// bytes.
func Commit(b []byte, from, to int64) (int64, error) {
	if err := faulty(to - from); err != nil {
		return 0, err
	}
	return touchable(b, from, to)
}

// Unmap releases mapped or reserved memory, which must not be accessed any more.
func Unmap(b []byte) {
	mapped.Add(-int64(len(b)))
	unmap(b)
}

// Release gives the system the pages back that lie whole in a part of mapped memory. What was in them is lost.
func Release(b []byte) { release(b) }

// Mapped is the bytes mapped or reserved now.
func Mapped() int64 { return mapped.Load() }

// Fault is for tests: f is called with the bytes of each request, and its error makes the request
// fail. Nil ends this.
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

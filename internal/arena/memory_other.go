//go:build !unix

package arena

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// pages is n zero bytes, or an error, as far as Go reports a lack of memory.
func pages(n int64) (b []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	switch {
	case n == 0:
		return []byte{}, nil
	case n < 0 || n > math.MaxInt-8:
		return nil, errors.New("cannot allocate memory")
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n), nil
}

// unmap leaves the bytes to the garbage collector.
func unmap([]byte) {}

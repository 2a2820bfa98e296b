//go:build unix

package arena

import (
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addresses reserves n bytes that cannot be accessed.
func addresses(n int64) ([]byte, error) {
	switch {
	case n == 0:
		return []byte{}, nil
	case n < 0 || n > math.MaxInt:
		return nil, unix.ENOMEM
	}
	return unix.Mmap(-1, 0, int(n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

// Resident is the bytes of mapped or reserved memory that are in physical memory; all of them if
// the system does not say.
func Resident(b []byte) int64 {
	if len(b) == 0 {
		return 0
	}
	n, page := int64(0), os.Getpagesize()
	there := make([]byte, (len(b)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&there[0]))); errno != 0 {
		return int64(len(b))
	}
	for _, p := range there {
		n += int64(p & 1)
	}
	return n * int64(page)
}

// touchable makes whole pages around a range accessible, filled with zeros.
func touchable(b []byte, from, to int64) (int64, error) {
	if from >= to {
		return 0, nil
	}
	page := int64(os.Getpagesize())
	from, to = from/page*page, min((to+page-1)/page*page, int64(len(b)))
	if err := unix.Mprotect(b[from:to], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return 0, err
	}
	return (to - from + page - 1) / page * page, nil
}

func release(b []byte) {
	if len(b) == 0 {
		return
	}
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(&b[0]))
	from, to := (begin+page-1)/page*page, (begin+uintptr(len(b)))/page*page
	if from < to {
		_ = unix.Madvise(b[from-begin:to-begin], unix.MADV_DONTNEED) // pages that stay do no harm
	}
}

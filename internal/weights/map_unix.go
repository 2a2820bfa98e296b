//go:build unix

package weights

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openNonblock prevents an open from blocking if the path has become a pipe.
const openNonblock = unix.O_NONBLOCK

// mapFile maps size bytes of h, privately and read-only, so that its pages stay
// clean and the system can take them back. Of a file that was given a size and no
// bytes it maps zeros: on a tmpfs, reading the file would allocate all of it.
func mapFile(h *os.File, size int) ([]byte, error) {
	if isHole(h) {
		return mapZeros(size)
	}
	return unix.Mmap(int(h.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
}

// outOfSpace reports whether a mapping failed for lack of memory or address space.
func outOfSpace(err error) bool { return err == unix.ENOMEM }

// mapZeros maps n bytes that read as zero. Read-only anonymous pages all show the
// system's one page of zeros: they cost address space and page tables only.
func mapZeros(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// unmap gives back a mapping of mapFile or mapZeros.
func unmap(b []byte) error { return unix.Munmap(b) }

// dropPages tells the system that the pages of b, part of a file mapping, will
// not be read again soon. Whole pages are dropped, neighbours' bytes included: they
// are clean, and come back from the file when they are read.
func dropPages(b []byte) {
	page := uintptr(os.Getpagesize())
	p := unsafe.Pointer(unsafe.SliceData(b))
	head := uintptr(p) % page
	whole := unsafe.Slice((*byte)(unsafe.Add(p, -int(head))), len(b)+int(head))
	_ = unix.Madvise(whole, unix.MADV_DONTNEED) // a hint: refused, the pages merely stay
}

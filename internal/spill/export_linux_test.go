package spill

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cached is how many pages of a file are in the system's cache.
func Cached(f *File) (n int) {
	b, err := unix.Mmap(int(f.file.Fd()), 0, int(f.bytes), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return -1
	}
	defer unix.Munmap(b)
	there := make([]byte, (len(b)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&there[0]))); errno != 0 {
		return -1
	}
	for _, p := range there {
		n += int(p & 1)
	}
	return n
}

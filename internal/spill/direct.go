package spill

import (
	"os"
	"sync"
	"unsafe"
)

// Block is what addresses, offsets and sizes are multiples of that pass the system's cache. Ranges that begin and end with
// blocks are written fastest: a part of one is read, changed and written back.
const Block = 4096

// bounce is the size of buffers through which memory at other addresses passes.
const bounce = 1 << 20

// direct reads and writes a file past the system's cache, so that copies take no time of the processors that run operators.
type direct struct {
	file  *os.File
	parts [64]sync.Mutex // by block: of its parts that are written
	free  sync.Mutex
	idle  [][]byte // buffers, as many as there were copies at once
}

// whole is bytes of whole blocks.
func whole(bytes int64) int64 { return (bytes + Block - 1) / Block * Block }

// aligned is memory at the address of a block.
func aligned(bytes int) []byte {
	b := make([]byte, bytes+Block)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) % Block)
	return b[skip : skip+bytes : skip+bytes]
}

func (d *direct) take() []byte {
	d.free.Lock()
	defer d.free.Unlock()
	if n := len(d.idle); n > 0 {
		b := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return b
	}
	return aligned(bounce)
}

func (d *direct) put(b []byte) {
	d.free.Lock()
	defer d.free.Unlock()
	d.idle = append(d.idle, b)
}

// each goes over the pieces of a range that one call moves: parts of blocks, and whole blocks.
func each(b []byte, at int64, move func(b []byte, at int64, part bool) error) (n int, err error) {
	for n < len(b) && err == nil {
		here := at + int64(n)
		skip, size := here%Block, min(int64(len(b)-n), bounce)
		part := skip > 0 || size < Block
		if part {
			size = min(size, Block-skip)
		} else {
			size = size / Block * Block
		}
		if err = move(b[n:n+int(size)], here, part); err == nil {
			n += int(size)
		}
	}
	return n, err
}

func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Block == 0 }

// WriteAt writes bytes to the disk.
func (d *direct) WriteAt(b []byte, at int64) (int, error) {
	buffer := d.take()
	defer d.put(buffer)
	return each(b, at, func(b []byte, at int64, part bool) error {
		if part {
			return d.change(buffer[:Block], b, at)
		}
		if !isAligned(b) {
			b = buffer[:copy(buffer, b)]
		}
		_, err := d.file.WriteAt(b, at)
		return err
	})
}

// change writes a part of a block.
func (d *direct) change(block, b []byte, at int64) error {
	from := at / Block * Block
	one := &d.parts[at/Block%int64(len(d.parts))]
	one.Lock()
	defer one.Unlock()
	if _, err := d.file.ReadAt(block, from); err != nil {
		return err
	}
	copy(block[at-from:], b)
	_, err := d.file.WriteAt(block, from)
	return err
}

// ReadAt reads bytes that were written.
func (d *direct) ReadAt(b []byte, at int64) (int, error) {
	buffer := d.take()
	defer d.put(buffer)
	return each(b, at, func(b []byte, at int64, part bool) error {
		from, into := at/Block*Block, b
		if part {
			into = buffer[:Block]
		} else if !isAligned(b) {
			into = buffer[:len(b)]
		}
		if _, err := d.file.ReadAt(into, from); err != nil {
			return err
		}
		copy(b, into[at-from:])
		return nil
	})
}

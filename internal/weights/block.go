package weights

import (
	"fmt"
	"io"
	"sync"
	"unsafe"
)

// Kind is where the bytes of a block are.
type Kind uint8

// The kinds of block.
const (
	KindMapped Kind = iota // pages of a mapped file, read-only
	KindHeap               // memory of the Go heap

	kinds = iota
)

var kindNames = [kinds]string{"mapped", "heap"}

// String returns the word for the kind: mapped or heap.
func (k Kind) String() string { return kindNames[k] }

// Block is reference-counted bytes. It starts with one use; dropping the last use
// frees the bytes, and using the block after that panics.
type Block struct {
	kind   Kind
	length int64
	file   *File // of a block cut from a file
	off    int64 // its place in the file

	mu      sync.Mutex
	uses    int
	data    []byte
	aligned []byte // heap copy made by Aligned
}

// newBlock adds the first use of b and counts it in the statistics.
func newBlock(b *Block) *Block {
	b.uses = 1
	countBlocks(1)
	return b
}

// Heap returns a block that owns b. The caller must not write to b any more.
func Heap(b []byte) *Block {
	hold(KindHeap, int64(len(b)))
	return newBlock(&Block{kind: KindHeap, length: int64(len(b)), data: b})
}

// Kind returns where the bytes are.
func (b *Block) Kind() Kind { return b.kind }

// Len returns the number of bytes.
func (b *Block) Len() int64 { return b.length }

// Retain adds a use.
func (b *Block) Retain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustLive("Retain")
	b.uses++
}

// Drop ends a use; the last one frees the bytes. A further one panics.
func (b *Block) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustLive("Drop")
	b.uses--
	if b.uses > 0 {
		return
	}
	countBlocks(-1)
	if b.aligned != nil {
		hold(KindHeap, -int64(cap(b.aligned)))
	}
	b.data, b.aligned = nil, nil
	if b.file == nil {
		hold(b.kind, -b.length)
	} else if err := b.file.release(); err != nil {
		panic(err) // only ever a mapping that is not ours
	}
}

// Bytes returns a view for reading, valid until the last Drop. The view of a
// mapped block is the file's pages, with what File.Bytes says of them.
func (b *Block) Bytes() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustLive("Bytes")
	arm()
	return b.data, nil
}

// Aligned returns a view whose address is a multiple of align, a power of two, and whether
// it is the block's own. Unaligned bytes are copied to the heap once, counted as
// CopiedUnaligned, and the copy is kept until the last Drop.
func (b *Block) Aligned(align int) (_ []byte, own bool, err error) {
	defer Guard(&err)()
	if align <= 0 || align&(align-1) != 0 {
		panic(fmt.Sprintf("weights: alignment %d is not a power of two", align))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustLive("Aligned")
	arm()
	data := b.data
	if isAligned(data, align) {
		return data, true, nil
	}
	if b.aligned != nil && isAligned(b.aligned, align) {
		return b.aligned, false, nil
	}
	room := make([]byte, len(data)+align-1)
	skip := 0
	for !isAligned(room[skip:], align) {
		skip++
	}
	fresh := room[skip:][:len(data)]
	copy(fresh, data)
	// A reader may still have an earlier, less aligned copy. It is no longer counted,
	// and the garbage collector frees it.
	hold(KindHeap, int64(cap(fresh)-cap(b.aligned)))
	countUnaligned(int64(len(data)))
	b.aligned = fresh
	return fresh, false, nil
}

// isAligned reports whether b may be read with the alignment. No bytes always may.
func isAligned(b []byte, align int) bool {
	return len(b) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(align) == 0
}

// ReadAt implements io.ReaderAt, to copy a block in pieces of a staging buffer's
// size. A page that is gone is its error.
func (b *Block) ReadAt(p []byte, off int64) (n int, err error) {
	defer Guard(&err)()
	data, err := b.Bytes()
	switch {
	case err != nil:
		return 0, err
	case off < 0:
		return 0, fmt.Errorf("read at offset %d of %s", off, b.describe())
	case off > b.length:
		return 0, io.EOF
	}
	n = copy(p, data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReleasePages tells the system that it may drop the block's pages, so that reading a
// whole file does not fill memory. The bytes stay readable: they are read from the file
// again. For other kinds it does nothing.
func (b *Block) ReleasePages() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustLive("ReleasePages")
	if b.kind == KindMapped && len(b.data) > 0 {
		dropPages(b.data)
	}
}

// describe names the block in a message.
func (b *Block) describe() string {
	if b.file != nil {
		return fmt.Sprintf("%d %s bytes at offset %d of %s", b.length, b.kind, b.off, b.file.name)
	}
	return fmt.Sprintf("%d %s bytes", b.length, b.kind)
}

// mustLive panics if the last use was dropped.
func (b *Block) mustLive(what string) {
	if b.uses <= 0 {
		panic("weights: " + what + " of " + b.describe() + " after its last Drop")
	}
}

package weights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
)

// File is one file of weights, mapped whole when it is opened. It is alive while
// it is open or any of its blocks is, and unmapped after that.
type File struct {
	name   string
	data   []byte
	mapped bool     // false when data is a heap copy
	opened identity // of the file when it was opened

	mu     sync.Mutex
	uses   int // the opener and each block
	closed bool
}

// OpenFile maps the regular file at path for reading. Anything else (a folder, a
// device, a pipe) is refused without being opened, so it cannot block. Where the
// file system does not support mapping, the file is read into the heap instead and
// Snapshot counts it as CopiedUnmapped.
func OpenFile(path string) (*File, error) { return openFile(path, mapFile) }

func openFile(path string, mapFile func(*os.File, int) ([]byte, error)) (*File, error) {
	// A pipe without a writer would block the open; asking first does not.
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, info.Mode())
	}
	h, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, pathError(path, err)
	}
	return mapOpened(h, path, mapFile)
}

// mapOpened maps a file that was opened, and closes it.
func mapOpened(h *os.File, path string, mapFile func(*os.File, int) ([]byte, error)) (*File, error) {
	defer h.Close()
	// Check the handle, as the name may be another file's by now.
	info, err := h.Stat()
	if err != nil {
		return nil, pathError(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, info.Mode())
	}
	if info.Size() > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes do not fit this machine's address space", path, info.Size())
	}
	f := &File{name: path, uses: 1, opened: identityOf(info)}
	if info.Size() == 0 {
		return f, nil // mmap refuses empty mappings
	}
	if f.data, err = mapFile(h, int(info.Size())); err == nil {
		f.mapped = true
		f.register()
		hold(KindMapped, f.Size())
		return f, nil
	}
	if outOfSpace(err) { // the heap would not have room either
		return nil, fmt.Errorf("%s: its %d bytes cannot be mapped: %w; a limit of address space (ulimit -v) may be too low", path, info.Size(), err)
	}
	if f.data, err = readAll(h, info.Size()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	hold(KindHeap, f.Size())
	countUnmapped(f.Size())
	return f, nil
}

// readAll reads a file that could not be mapped. It does not allocate size bytes
// in advance, as the size may be wrong.
func readAll(h *os.File, size int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(h, size))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != size {
		return nil, fmt.Errorf("read %d of %d bytes", len(data), size)
	}
	return data, nil
}

// Name returns the path the file was opened by.
func (f *File) Name() string { return f.name }

// Size returns the length of the file in bytes.
func (f *File) Size() int64 { return int64(len(f.data)) }

// Bytes returns the whole file. The pages are read-only, writing to them is a
// fault, and they are gone once the file is closed and its last block dropped. A page
// that another process took away is a panic of the calling goroutine, which Guard turns
// into an error; goroutines that get the bytes from this one call stop.Go for that.
func (f *File) Bytes() []byte {
	arm()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		panic("weights: Bytes of " + f.name + " after Close")
	}
	return f.data
}

// Block returns the length bytes at off as a block with one use. The block keeps
// the mapping alive when the file is closed.
func (f *File) Block(off, length int64) (*Block, error) {
	if off < 0 || length < 0 || off > f.Size() || length > f.Size()-off {
		return nil, fmt.Errorf("%s: %d bytes at offset %d do not fit into its %d bytes", f.name, length, off, f.Size())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fmt.Errorf("%s: %w", f.name, os.ErrClosed)
	}
	f.uses++
	kind := KindMapped
	if !f.mapped {
		kind = KindHeap
	}
	return newBlock(&Block{kind: kind, file: f, off: off, length: length, data: f.data[off : off+length : off+length]}), nil
}

// Close ends the opener's use. Closing twice does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	closed := f.closed
	f.closed = true
	f.mu.Unlock()
	if closed {
		return nil
	}
	return f.release()
}

// release ends one use and unmaps after the last.
func (f *File) release() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses--
	if f.uses > 0 || len(f.data) == 0 {
		return nil
	}
	data := f.data
	if f.mapped {
		f.unregister()
	}
	f.data = nil
	if !f.mapped {
		hold(KindHeap, -int64(len(data)))
		return nil
	}
	hold(KindMapped, -int64(len(data)))
	if err := unmap(data); err != nil {
		return fmt.Errorf("%s: unmap: %w", f.name, err)
	}
	return nil
}

// notRegular is the error that path is not a regular file.
func notRegular(path string, mode fs.FileMode) error {
	return fmt.Errorf("%s: is %s, need a regular file", path, modeName(mode))
}

// modeName names the type of a path other than a regular file.
func modeName(mode fs.FileMode) string {
	for _, m := range modeNames {
		if mode&m.bit != 0 {
			return m.name
		}
	}
	return "not a file"
}

var modeNames = []struct {
	bit  fs.FileMode
	name string
}{
	{fs.ModeDir, "a folder"},
	{fs.ModeNamedPipe, "a pipe"},
	{fs.ModeSocket, "a socket"},
	{fs.ModeDevice, "a device"},
}

// pathError removes the name of the system call from an error.
func pathError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

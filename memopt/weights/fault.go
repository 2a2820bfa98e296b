package weights

import (
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"
)

// ChangedError is the error of a file that was truncated, rewritten or replaced
// while it was in use, or whose bytes the file system could not deliver.
type ChangedError struct{ Path, How string }

// Error names the file and what became of it.
func (e *ChangedError) Error() string { return e.Path + ": " + e.How }

// identity is compared to detect that a file was replaced or modified.
type identity struct {
	info    fs.FileInfo
	changed time.Time // of the inode; zero where the system does not tell it
}

func identityOf(info fs.FileInfo) identity { return identity{info, changeTime(info)} }

// Unchanged checks that the file with f's name still has the inode, length and times
// of the one that was opened. Call it after reading and before using the results: a
// mapping of a file that was modified meanwhile shows partly old and partly new bytes.
func (f *File) Unchanged() error {
	info, err := os.Stat(f.name)
	now, was := identityOf(info), f.opened
	switch {
	case err != nil:
		return &ChangedError{f.name, fmt.Sprintf("the file is gone since it was opened: %v", cause(err))}
	case !os.SameFile(now.info, was.info):
		return &ChangedError{f.name, "another file took its place while it was read"}
	case now.info.Size() != was.info.Size():
		return &ChangedError{f.name, fmt.Sprintf("the file changed while it was read: it had %d bytes and has %d now", was.info.Size(), now.info.Size())}
	case !now.info.ModTime().Equal(was.info.ModTime()) || !now.changed.Equal(was.changed):
		return &ChangedError{f.name, "the file was written to while it was read"}
	}
	return nil
}

// Intact is Unchanged for callers that only use the mapping: it ignores that the file was replaced or removed.
func (f *File) Intact() error {
	info, err := os.Stat(f.name)
	if err != nil || !os.SameFile(info, f.opened.info) {
		return nil
	}
	return f.Unchanged()
}

// Unchanged checks the block's file; other blocks never change.
func (b *Block) Unchanged() error {
	if b.file == nil {
		return nil
	}
	return b.file.Unchanged()
}

// Guard turns a fault on a page of a mapped file that cannot be read, because the
// file was truncated or its file system fails, into the error of a function:
//
//	func read() (err error) {
//		defer weights.Guard(&err)()
//
// It covers the calling goroutine. Defer it after the call that unmaps the file, as the
// file of an address is known only while it is mapped.
func Guard(err *error) (end func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			wrong := Fault(r)
			if wrong == nil {
				panic(r)
			}
			*err = wrong
		}
	}
}

// Fault is the error for a recovered panic, if it is a fault in a mapped file.
func Fault(recovered any) error {
	fault, ok := recovered.(interface {
		error
		Addr() uintptr
	})
	if !ok {
		return nil
	}
	f, at := mappedAt(fault.Addr())
	if f == nil {
		return nil
	}
	if err := f.Unchanged(); err != nil {
		return err
	}
	return &ChangedError{f.name, fmt.Sprintf("the file system cannot read it at byte %d", at)}
}

// mappings lists the mapped files.
var mappings struct {
	sync.Mutex
	files map[*File]bool
}

func (f *File) register() {
	mappings.Lock()
	defer mappings.Unlock()
	if mappings.files == nil {
		mappings.files = map[*File]bool{}
	}
	mappings.files[f] = true
}

func (f *File) unregister() {
	mappings.Lock()
	defer mappings.Unlock()
	delete(mappings.files, f)
}

// mappedAt finds the file that is mapped at an address, and the byte of it there.
func mappedAt(address uintptr) (f *File, at int64) {
	mappings.Lock()
	defer mappings.Unlock()
	for f := range mappings.files {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
		if address >= base && address-base < uintptr(len(f.data)) {
			return f, int64(address - base)
		}
	}
	return nil, 0
}

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

// identity tells a file from another one, and from itself after a write.
type identity struct {
	info    fs.FileInfo
	changed time.Time // of the inode; zero where the system does not tell it
}

func identityOf(info fs.FileInfo) identity { return identity{info, changeTime(info)} }

// Unchanged compares the file that has f's name now with the one that was
// opened: the same inode, length and times. Whoever makes something of a file's
// bytes asks at the end of reading, before the result is used: a mapping shows
// bytes as they are now, and those of a file that was written to meanwhile are
// partly old and partly new.
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

// Intact is Unchanged for those who go on with the mapping: another file in the place of f's, or none, is no matter to it.
func (f *File) Intact() error {
	info, err := os.Stat(f.name)
	if err != nil || !os.SameFile(info, f.opened.info) {
		return nil
	}
	return f.Unchanged()
}

// Unchanged is that of the block's file; blocks of no file never change.
func (b *Block) Unchanged() error {
	if b.file == nil {
		return nil
	}
	return b.file.Unchanged()
}

// Guard turns a page of a mapped file that cannot be had, because the file was
// truncated or its file system fails, into the error of a function that reads
// mapped bytes:
//
//	func read() (err error) {
//		defer weights.Guard(&err)()
//
// It covers the goroutine it is called on, and is deferred after what unmaps the
// file, since an address says only of mapped files whose it is.
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

// mappings are the files that are mapped now.
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

package weights

import (
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// ChangedError is the error of a file that was truncated, rewritten or replaced
// while it was in use, or whose bytes the file system could not deliver.
type ChangedError struct{ Path, How string }

// Error names the file and what became of it.
func (e *ChangedError) Error() string { return e.Path + ": " + e.How }

// ExitCode is that of bad input, wherever the error comes out.
func (e *ChangedError) ExitCode() int { return 2 }

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
// It covers the calling goroutine. Whoever gets mapped bytes from a File or a Block has
// such a fault as a panic, guarded or not; Guard says at which function it ends, and
// programs have one at the end of every command and call.
func Guard(err *error) (end func()) {
	arm()
	return func() {
		if r := recover(); r != nil {
			wrong := Fault(r)
			if wrong == nil {
				panic(r)
			}
			*err = wrong
		}
	}
}

// arm makes faults of this goroutine panics, for good: without that they end the
// process. Every function that hands out mapped bytes calls it.
func arm() { debug.SetPanicOnFault(true) }

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

// mappings lists the mapped files, and those that were unmapped last: a panic unwinds
// through the calls that close its file before it comes to a Guard.
var mappings struct {
	sync.Mutex
	files map[*File]span
	gone  []unmapped // the last one at the end
}

type span struct{ base, bytes uintptr }

type unmapped struct {
	f *File
	span
}

// mostGone limits the files that are remembered.
const mostGone = 64

func (f *File) register() {
	mappings.Lock()
	defer mappings.Unlock()
	if mappings.files == nil {
		mappings.files = map[*File]span{}
	}
	mappings.files[f] = span{uintptr(unsafe.Pointer(unsafe.SliceData(f.data))), uintptr(len(f.data))}
}

func (f *File) unregister() {
	mappings.Lock()
	defer mappings.Unlock()
	if len(mappings.gone) == mostGone {
		mappings.gone = mappings.gone[:copy(mappings.gone, mappings.gone[1:])]
	}
	mappings.gone = append(mappings.gone, unmapped{f, mappings.files[f]})
	delete(mappings.files, f)
}

// mappedAt finds the file that is mapped at an address, or was, and the byte of it there.
func mappedAt(address uintptr) (f *File, at int64) {
	mappings.Lock()
	defer mappings.Unlock()
	for f, s := range mappings.files {
		if address >= s.base && address-s.base < s.bytes {
			return f, int64(address - s.base)
		}
	}
	for _, u := range slices.Backward(mappings.gone) {
		if address >= u.base && address-u.base < u.bytes {
			return u.f, int64(address - u.base)
		}
	}
	return nil, 0
}

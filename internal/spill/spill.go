// Package spill keeps bytes that had to leave memory in a file that no process but this one
// can open. The file has no name from the moment it is made, so the system removes it when
// the process ends, in whatever way. Its blocks are taken from the disk at once, so that a
// full disk is an error of Open and not of a step; and its pages do not stay in the
// system's cache, or memory would only be counted elsewhere. File systems that can read
// and write past the cache do: copies through it take the processors' time from operators.
//
//	f, err := spill.Open(folder, bytes)
//	_, err = f.WriteAt(b, at)     // on the disk, and in no cache, when it returns
//	_, err = f.ReadAt(b, at)
//	f.Close()
package spill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"memopt/internal/bytesize"
)

// File is a spill file. Its ranges may be read and written at the same time.
type File struct {
	file   *os.File
	direct *direct // nil: through the cache
	folder string
	bytes  int64
}

// Folder is where spill files are made if nobody says so: where the environment or the system keeps
// large files that are not wanted for long, as /tmp is often in memory.
func Folder() string {
	const large = "/var/tmp"
	if os.Getenv("TMPDIR") == "" {
		if at, err := os.Stat(large); err == nil && at.IsDir() {
			return large
		}
	}
	return os.TempDir()
}

// Open makes a file of so many bytes in a folder; "" is Folder.
func Open(folder string, bytes int64) (*File, error) {
	if folder == "" {
		folder = Folder()
	}
	folder = filepath.Clean(folder)
	f := &File{folder: folder, bytes: bytes}
	fail := func(err error) (*File, error) {
		if f.file != nil {
			f.file.Close()
		}
		return nil, fmt.Errorf("cannot keep %s in folder %s: %w", bytesize.Exact(bytes), folder, cause(err))
	}
	var err error
	if f.file, err = nameless(folder); err != nil {
		return fail(err)
	}
	if err := allocate(f.file, whole(bytes)); err != nil {
		return fail(err)
	}
	if bytes > 0 && pastCache(f.file) {
		d := &direct{file: f.file}
		if _, err := d.WriteAt(aligned(Block), 0); err == nil {
			f.direct = d
		} else {
			throughCache(f.file) // blocks of this disk are larger
		}
	}
	return f, nil
}

// Bytes is the size of the file.
func (f *File) Bytes() int64 { return f.bytes }

// Folder is where the file is.
func (f *File) Folder() string { return f.folder }

// InMemory reports whether the file's folder is itself in memory, where a file saves nothing.
func (f *File) InMemory() bool { return inMemory(f.file) }

// WriteAt writes bytes to the disk.
func (f *File) WriteAt(b []byte, at int64) (n int, err error) {
	if f.direct != nil {
		n, err = f.direct.WriteAt(b, at)
		return n, f.failed(err)
	}
	if n, err = f.file.WriteAt(b, at); err == nil {
		err = written(f.file, at, int64(len(b)))
	}
	return n, f.failed(err)
}

// ReadAt reads bytes that were written.
func (f *File) ReadAt(b []byte, at int64) (n int, err error) {
	if f.direct != nil {
		n, err = f.direct.ReadAt(b, at)
		return n, f.failed(err)
	}
	if n, err = f.file.ReadAt(b, at); err == nil {
		dropped(f.file, at, int64(len(b)))
	}
	return n, f.failed(err)
}

func (f *File) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the spill file of %s in folder %s: %w", bytesize.Exact(f.bytes), f.folder, cause(err))
}

// Close gives the file's blocks back.
func (f *File) Close() error { return f.file.Close() }

// unnamed is a new file whose name is taken away.
func unnamed(folder string) (*os.File, error) {
	file, err := os.CreateTemp(folder, ".memopt-spill-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// cause is an error without the path and the name of the call, which say nothing of a file without a name.
func cause(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

package whole

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Open opens a regular file for reading. Anything else is refused and cannot
// block. Errors do not name the file.
func Open(path string) (f *os.File, size int64, err error) {
	defer func() { err = bare(err) }()
	// Opening a pipe without a writer would block, so check first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("is not a regular file but %s", kind(info.Mode()))
	}
	if f, err = os.OpenFile(path, os.O_RDONLY|nonblock, 0); err != nil {
		return nil, 0, err
	}
	// Check the handle, as the name may be another file's by now.
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("is not a regular file but %s", kind(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Read reads a regular file of at most most bytes, even if it grows meanwhile. Errors
// do not name the file; they call it what, such as "a profile".
func Read(path, what string, most int64) ([]byte, error) {
	tooLarge := func() error { return fmt.Errorf("more than the %d bytes %s may have", most, what) }
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, tooLarge()
	}
	data := make([]byte, 0, size+1)
	for {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > most:
			return nil, tooLarge()
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, bare(err)
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}

// kind names the type of a path other than a regular file.
func kind(mode fs.FileMode) string {
	for _, k := range []struct {
		bit  fs.FileMode
		name string
	}{{fs.ModeDir, "a folder"}, {fs.ModeNamedPipe, "a pipe"}, {fs.ModeSocket, "a socket"}, {fs.ModeDevice, "a device"}} {
		if mode&k.bit != 0 {
			return k.name
		}
	}
	return "no file"
}

// Among reports whether a path is one of some files, by whatever name.
func Among(path string, files []string) bool {
	info, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(files, func(file string) bool {
		read, err := os.Stat(file)
		return err == nil && os.SameFile(info, read)
	})
}

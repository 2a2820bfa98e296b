package tensorfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// open opens a file that has a size: reading a pipe could wait for ever.
func open(path string) (f *os.File, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	if f, err = os.Open(path); err != nil {
		return nil, 0, reason(err)
	}
	return f, info.Size(), nil
}

// named gives an error the file's name.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tensorfile: %s: %w", path, err)
}

// reason is what went wrong with a file, without its name, which named gives.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// readAt fills b from offset.
func readAt(r io.ReaderAt, b []byte, offset int64) error {
	n, err := r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	return short(reason(err))
}

// short says in our words that a file ended before its end.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the data ends early")
	}
	return err
}

// replace writes a file beside path and renames it.
func replace(path string, write func(io.Writer) error) (err error) {
	f, err := temporary(path)
	if err != nil {
		return reason(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = reason(err)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// A checkpoint takes the place of an older one, so its bytes are on the disk
	// before its name is.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		var le *os.LinkError
		if errors.As(err, &le) {
			return le.Err
		}
		return err
	}
	return nil
}

// temporary makes a new file in the folder of path, with the rights that any file
// gets (os.CreateTemp would make it private).
func temporary(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for i := 0; ; i++ {
		name := filepath.Join(dir, "."+base+"."+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || i == 1000 {
			return f, err
		}
	}
}

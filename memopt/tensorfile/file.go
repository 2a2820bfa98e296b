package tensorfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	return fmt.Errorf("%s: %w", path, err)
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

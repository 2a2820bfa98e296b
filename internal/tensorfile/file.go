package tensorfile

import (
	"errors"
	"fmt"
	"io"

	"memopt/internal/weights"
	"memopt/internal/whole"
)

// read maps a file and parses it. Tensors are views of the mapping until the set is
// closed.
func read(path string, parse func([]byte) (*Set, error)) (s *Set, err error) {
	f, err := weights.OpenFile(path)
	if err != nil {
		return nil, err
	}
	s, err = guarded(f.Bytes(), parse)
	var changed *weights.ChangedError
	switch now := f.Unchanged(); {
	case now != nil:
		err = now
	case errors.As(err, &changed): // its pages cannot be read
	case err != nil:
		err = named(path, err)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s.file = f
	return s, nil
}

func guarded(b []byte, parse func([]byte) (*Set, error)) (s *Set, err error) {
	defer weights.Guard(&err)()
	return parse(b)
}

// replace writes a file and renames it to path. If a mapped file that it reads from
// changes meanwhile, nothing is replaced.
func replace(path string, write func(io.Writer) error) error {
	err := whole.Write(path, func(w io.Writer) (err error) {
		defer weights.Guard(&err)()
		return write(w)
	})
	var changed *weights.ChangedError
	if errors.As(err, &changed) {
		return changed
	}
	return named(path, err)
}

// named prefixes an error with the file's name.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// short replaces io's errors about a truncated file by a clearer one.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the data ends early")
	}
	return err
}

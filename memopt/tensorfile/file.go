package tensorfile

import (
	"errors"
	"fmt"
	"io"

	"memopt/memopt/weights"
	"memopt/memopt/whole"
)

// read maps a file and has its bytes read. They are shown where they are as long as
// the set is not closed.
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
	case errors.As(err, &changed): // its pages cannot be had
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

// replace writes a file over what is at path. Numbers may come from a file that is
// mapped: if that changes meanwhile, nothing is replaced.
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

// named gives an error the file's name.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// short says in our words that a file ended before its end.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the data ends early")
	}
	return err
}

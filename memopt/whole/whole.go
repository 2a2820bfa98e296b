// Package whole writes files that are there whole or not at all: the bytes go
// to a new file in the same folder, reach the disk, and take the name last. A
// reader of the old file keeps what it reads.
package whole

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Write puts what write writes at path, over what is there. Its errors do not
// name a file: the one that failed may be one that the caller never chose.
func Write(path string, write func(io.Writer) error) (err error) {
	f, err := temporary(path)
	if err != nil {
		return bare(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = bare(err)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// What takes the place of a checkpoint must not be lost with the power.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Bytes is Write of bytes that are there already.
func Bytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// temporary makes a file in path's folder, with the permissions that a new file
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

// bare is an error of the file system without the names in it.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}

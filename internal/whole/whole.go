// Package whole reads and writes whole files.
//
// A file is written whole or not at all: the bytes go to a new file in the same
// folder, reach the disk, and take the name last. A reader of the old file keeps
// what it reads. The new file has the permissions and, where the system allows,
// the owner of the one that it takes the place of; where the name is a link, the
// file that it leads to is replaced and the link stays, unless another user made it.
// Hard links and access control lists are not kept.
//
// Only regular files are read, up to a size: a pipe could keep the reader waiting
// for ever, a device has no end.
//
// The Python package has the same rules in _whole.py, and the tests of this one run
// against both.
package whole

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Write writes the output of write to path, replacing any file there. Its errors do not
// name a file, as the one that failed may be a temporary one.
func Write(path string, write func(io.Writer) error) error {
	return WriteContext(context.Background(), path, write)
}

// WriteContext is Write that stops, and leaves no file, if its context ends before the
// rename. If a second call for the same path starts after the first one's context has
// ended, the second one's file stays. A nil context does not end.
func WriteContext(ctx context.Context, path string, write func(io.Writer) error) (err error) {
	defer func() { err = bare(err) }()
	if ctx == nil {
		ctx = context.Background()
	}
	path, err = Target(path)
	if err != nil {
		return err
	}
	was, err := os.Stat(path)
	if err == nil && !was.Mode().IsRegular() {
		return errors.New(kind(was.Mode()) + " cannot be replaced by a file")
	}
	f, err := temporary(path, was)
	if err != nil {
		return err
	}
	p := pending{f, path}
	kept := false // it has its name, or somebody else sees to that
	defer func() {
		if !kept {
			p.drop()
		}
	}()
	w := bufio.NewWriterSize(until{ctx, f}, 1<<18)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// What takes the place of a checkpoint must not be lost with the power.
	if err := flush(ctx, f); err != nil {
		return err
	}
	if b, _ := ctx.Value(batchKey{}).(*batch); b != nil {
		b.files, kept = append(b.files, p), true
		return nil
	}
	if err := name(ctx, p); err != nil {
		return err
	}
	kept = true
	return nil
}

// Bytes is Write of bytes that are there already.
func Bytes(path string, data []byte) error {
	return BytesContext(context.Background(), path, data)
}

// BytesContext is WriteContext of bytes that are there already.
func BytesContext(ctx context.Context, path string, data []byte) error {
	return WriteContext(ctx, path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Try is whether Write could make a file at path.
func Try(path string) error {
	path, err := Target(path)
	if err != nil {
		return err
	}
	f, err := temporary(path, nil)
	if err != nil {
		return err
	}
	pending{f, path}.drop()
	return nil
}

// Target is the path of the file that Write would replace or make: the end of a
// chain of links, or path itself. Links that another user than this one and the system's
// made are not followed: they could lead a write to a file of this user's.
func Target(path string) (string, error) {
	const most = 40 // as Linux follows
	for range most {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		if user, is := owner(info); is && user != 0 && user != os.Geteuid() {
			return "", fmt.Errorf("%s is a link that user %d made, not this one (%d)", path, user, os.Geteuid())
		}
		// The system may refuse to follow it: in a folder that everybody writes to,
		// a link may be a trap.
		if _, err := os.Stat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) { // not cleaned: the folder may be a link, and .. its parent
			to = filepath.Dir(path) + string(filepath.Separator) + to
		}
		path = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many links")}
}

// prefix begins the names of temporary files. The rest is short whatever the
// file is called that they become, for names have at most 255 bytes.
const prefix = ".memopt-"

// temporary makes a file in path's folder, locked while it is open. It has the
// permissions of what was there, or those that a new file gets (os.CreateTemp
// would make it private). What dead processes have left there is removed. Its name
// cannot be told in advance, so nobody can take it first, and none is used twice: a
// sweep that takes long would remove another file.
func temporary(path string, was fs.FileInfo) (*os.File, error) {
	dir := filepath.Dir(path)
	sweep(dir)
	mode := fs.FileMode(0o666)
	if was != nil {
		mode = 0o600 // until it has the owner
	}
	for i := 0; ; i++ {
		name := filepath.Join(dir, prefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatUint(rand.Uint64(), 10))
		f, err := create(name, mode)
		if errors.Is(err, fs.ErrExist) && i < 10 {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !lock(f) { // a sweep took it for left behind
			pending{f: f}.drop()
			continue
		}
		if was != nil {
			if err := resemble(f, was); err != nil {
				pending{f: f}.drop()
				return nil, err
			}
		}
		return f, nil
	}
}

// bare is an error of the file system without the names in it.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		err = le.Err
	}
	if err == syscall.EFBIG {
		return errors.New("the file would be larger than the limit for files (ulimit -f) allows")
	}
	return err
}

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package whole

import (
	"io/fs"
	"os"
)

// nonblock is 0 on systems without O_NONBLOCK.
const nonblock = 0

// lock has no locks; nothing is swept either.
func lock(*os.File) bool { return true }

func sweep(string) {}

// owner is unknown.
func owner(fs.FileInfo) (int, bool) { return 0, false }

// rename closes the file first: an open one keeps its name on some systems.
func rename(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return nil
}

// resemble keeps whether a file may be written.
func resemble(f *os.File, was fs.FileInfo) error { return f.Chmod(was.Mode().Perm()) }

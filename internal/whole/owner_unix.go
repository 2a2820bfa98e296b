//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package whole

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock prevents an open from blocking if the path has become a pipe.
const nonblock = unix.O_NONBLOCK

// lock marks a file as that of a live process: the system releases the lock when
// the process ends, in any container. It returns false if the file was removed
// meanwhile. On a file system without locks it does nothing, and sweep, which cannot
// lock either, leaves the file alone.
func lock(f *os.File) bool {
	for {
		switch unix.Flock(int(f.Fd()), unix.LOCK_EX) {
		case nil:
			return named(f)
		case unix.EINTR:
		default:
			return true
		}
	}
}

// named reports whether the file still has its name.
func named(f *os.File) bool {
	now, err := os.Lstat(f.Name())
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(info, now)
}

// owner is the owner of a file.
func owner(info fs.FileInfo) (user int, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

func rename(f *os.File, path string) error { return os.Rename(f.Name(), path) }

var temporaryName = regexp.MustCompile(`^` + regexp.QuoteMeta(prefix) + `[0-9]+-[0-9]+$`)

// sweep removes our temporary files of processes that have ended.
func sweep(dir string) {
	folder, err := os.Open(dir)
	if err != nil {
		return
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	for _, name := range names {
		if temporaryName.MatchString(name) {
			removeStale(filepath.Join(dir, name))
		}
	}
}

func removeStale(name string) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() || s.Nlink != 1 {
		return
	}
	// With the lock nobody else removes it, so the name stays what it is.
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && named(f) {
		os.Remove(name)
	}
}

// resemble copies permissions and, if the system allows, owner and group from another
// file. If the group cannot be set, it gets no more rights than others.
func resemble(f *os.File, was fs.FileInfo) error {
	mode := was.Mode().Perm()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	of, ok := was.Sys().(*syscall.Stat_t)
	is, known := info.Sys().(*syscall.Stat_t)
	if ok && known && (of.Uid != is.Uid || of.Gid != is.Gid) {
		if f.Chown(int(of.Uid), int(of.Gid)) != nil && of.Gid != is.Gid && f.Chown(-1, int(of.Gid)) != nil {
			mode &^= 0o070 &^ (mode & 0o007 << 3)
		}
	}
	return f.Chmod(mode)
}

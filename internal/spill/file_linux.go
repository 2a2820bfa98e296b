package spill

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nameless is a new file without a name. File systems that cannot make one have its name taken away.
func nameless(folder string) (*os.File, error) {
	file, err := os.OpenFile(folder, unix.O_TMPFILE|os.O_RDWR|unix.O_EXCL, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return unnamed(folder)
	}
	return file, err
}

// pastCache has reads and writes go past the system's cache, and reports whether the file system can.
func pastCache(file *os.File) bool { return setDirect(file, true) == nil }

// throughCache has them go through it.
func throughCache(file *os.File) { _ = setDirect(file, false) }

func setDirect(file *os.File, on bool) error {
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags &^= unix.O_DIRECT; on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETFL, flags)
	return err
}

// allocate takes the blocks of a file; file systems that do not know how take them as they are written. One with too few
// is left alone: it would hand out all that it has before it says so, and others would find it full meanwhile.
func allocate(file *os.File, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &s); err == nil && uint64(bytes) > s.Bavail*uint64(s.Bsize) {
		return unix.ENOSPC
	}
	for {
		switch err := unix.Fallocate(int(file.Fd()), 0, 0, bytes); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return file.Truncate(bytes)
		default:
			return err
		}
	}
}

// written brings a range to the disk and takes it out of the cache, which keeps pages that are not on the disk.
func written(file *os.File, at, bytes int64) error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	if err := unix.SyncFileRange(int(file.Fd()), at, bytes, all); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ESPIPE) {
		return err
	}
	dropped(file, at, bytes)
	return nil
}

// dropped takes a range out of the cache.
func dropped(file *os.File, at, bytes int64) {
	_ = unix.Fadvise(int(file.Fd()), at, bytes, unix.FADV_DONTNEED) // advice
}

func inMemory(file *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &s) == nil && (int64(s.Type) == unix.TMPFS_MAGIC || int64(s.Type) == unix.RAMFS_MAGIC)
}

package weights

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime is the inode's ctime, which programs cannot set.
func changeTime(info fs.FileInfo) time.Time {
	if info == nil {
		return time.Time{}
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return time.Time{}
}

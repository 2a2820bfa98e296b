package weights

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime is when the inode changed last, which no program can set back.
func changeTime(info fs.FileInfo) time.Time {
	if info == nil {
		return time.Time{}
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return time.Time{}
}

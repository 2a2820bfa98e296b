//go:build !linux

package weights

import (
	"io/fs"
	"time"
)

// changeTime is not asked for here.
func changeTime(fs.FileInfo) time.Time { return time.Time{} }

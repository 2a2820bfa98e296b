// Package machine knows what memory this process has and can still get, and says which request is too large for it.
package machine

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"memopt/configs"
	"memopt/internal/arena"
)

// memoryLimit is the limit that LimitMemory set; 0 is none.
var memoryLimit atomic.Int64

// Limit makes Fits refuse requests that would take this process's anonymous memory above a limit, and makes
// the garbage collector keep to it, until lift is called. A percentage refers to the memory available to the process now.
func Limit(most configs.Budget) (lift func()) {
	bytes := most.Bytes
	if most.Percent > 0 {
		bytes = int64(float64(Memory()) * most.Percent / 100)
	}
	if bytes <= 0 {
		return func() {}
	}
	had, collector := memoryLimit.Swap(bytes), debug.SetMemoryLimit(bytes)
	return func() {
		memoryLimit.Store(had)
		debug.SetMemoryLimit(collector)
	}
}

// Fits refuses a request for more memory than the machine or the limit has left: an early error is better than a
// killed process. what is the subject of the message, and help is appended to it.
func Fits(bytes int64, what, help string) error {
	if most := memoryLimit.Load(); most > 0 {
		if held := AnonymousMemory(); bytes > most-held {
			return &MemoryError{Err: fmt.Errorf("%s takes %s of memory, and of the %s that service_budget allows %s are in use%s",
				what, configs.FormatBytes(bytes), configs.FormatBytes(most), configs.FormatBytes(held), help),
				Short: arena.OutOfMemory{Requested: bytes, For: what, InUse: held, Reserved: held, Limit: most}, Room: max(most-held, 0)}
		}
	}
	if most := Memory(); most > 0 && bytes > most {
		return &MemoryError{Err: fmt.Errorf("%s takes %s of memory, and this process can have %s%s",
			what, configs.FormatBytes(bytes), configs.FormatBytes(most), help),
			Short: arena.OutOfMemory{Requested: bytes, For: what}, Room: most}
	}
	return nil
}

package memopt

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"memopt/configs"
	"memopt/internal/arena"
)

// memoryLimit is the limit that LimitMemory set; 0 is none.
var memoryLimit atomic.Int64

// LimitMemory makes Fits refuse requests that would take this process's anonymous memory above a limit, and makes
// the garbage collector keep to it. A percentage refers to the memory available to the process now.
func LimitMemory(most configs.Budget) {
	bytes := most.Bytes
	if most.Percent > 0 {
		bytes = int64(float64(machineMemory()) * most.Percent / 100)
	}
	if bytes > 0 {
		memoryLimit.Store(bytes)
		debug.SetMemoryLimit(bytes)
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
	if most := machineMemory(); most > 0 && bytes > most {
		return &MemoryError{Err: fmt.Errorf("%s takes %s of memory, and this process can have %s%s",
			what, configs.FormatBytes(bytes), configs.FormatBytes(most), help),
			Short: arena.OutOfMemory{Requested: bytes, For: what}, Room: most}
	}
	return nil
}

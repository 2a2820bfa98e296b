package memopt

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"memopt/configs"
	"memopt/memopt/arena"
)

// memoryLimit is what LimitMemory was given; 0 is none.
var memoryLimit atomic.Int64

// LimitMemory has Fits refuse what would take this process's anonymous memory above a
// limit, and the collector work harder below it. A share is of what the process can have now.
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

// Fits refuses what the machine has no memory for, or the limit no room: better a line
// now than a process that is killed later. What is the subject of the line, and help says
// what would fit.
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

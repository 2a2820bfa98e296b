package machine

import (
	"errors"
	"syscall"

	"memopt/internal/arena"
	"memopt/memopt/exit"
	"memopt/planner"
)

// MemoryError says that a request needs more memory than there is, and what would fit.
type MemoryError struct {
	Err   error             // from the limit, the arena or the device that refused
	Short arena.OutOfMemory // the numbers of Err
	Room  int64             // bytes available to the whole request; −1 if unknown
	// Changes would make the request fit, each of them alone. Each was planned or run dry.
	Changes []planner.Change
	Note    string // what was not computed, and why
}

// Error is the message with all changes, on one line.
func (e *MemoryError) Error() string {
	msg := e.Err.Error()
	for i, c := range e.Changes {
		if i == 0 {
			msg += "; would fit: "
		} else {
			msg += ", or "
		}
		msg += c.Text
	}
	if e.Note != "" {
		msg += "; " + e.Note
	}
	return msg
}

// Named reports whether Err names the largest owners of memory.
func (e *MemoryError) Named() bool {
	var said *arena.OutOfMemory
	return errors.As(e.Err, &said)
}

// Unwrap returns Err.
func (e *MemoryError) Unwrap() error { return e.Err }

// ExitCode is the code of a request that cannot be met.
func (e *MemoryError) ExitCode() int { return exit.CodeCannot }

// AsMemoryError converts a memory error to a MemoryError; it returns nil for other errors.
func AsMemoryError(err error) *MemoryError {
	var short *arena.OutOfMemory
	if errors.As(err, &short) {
		e := &MemoryError{Err: err, Short: *short, Room: -1}
		var of *MemoryError
		switch {
		case errors.As(short.Cause, &of) && of.Room >= 0: // the process's limit, or the machine's memory
			e.Room = short.Reserved + of.Room
		case errors.Is(short.Cause, syscall.ENOMEM):
			if most := Memory(); most > 0 && most < short.Requested {
				e.Room = short.Reserved + most
			}
		case short.Cause == nil && short.Limit > 0:
			e.Room = short.Limit
		}
		return e
	}
	var e *MemoryError
	if errors.As(err, &e) {
		copied := *e
		return &copied
	}
	return nil
}

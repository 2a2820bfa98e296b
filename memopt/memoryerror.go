package memopt

import (
	"errors"
	"syscall"

	"memopt/memopt/arena"
	"memopt/planner"
)

// MemoryError says that there is less memory than a request takes, and what would fit.
type MemoryError struct {
	Err   error             // of the limit, the arena or the device that refused
	Short arena.OutOfMemory // the same in numbers
	Room  int64             // bytes that can be had for all of the request; −1 where nobody says
	// Changes would make the request fit, each alone. Every one was planned, or run dry.
	Changes []planner.Change
	Note    string // what was not computed, and why
}

// Error is all of it on one line.
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

// Named reports whether what was refused says who holds most.
func (e *MemoryError) Named() bool {
	var said *arena.OutOfMemory
	return errors.As(e.Err, &said)
}

// Unwrap is what was refused.
func (e *MemoryError) Unwrap() error { return e.Err }

// ExitCode is that of a request that cannot be met.
func (e *MemoryError) ExitCode() int { return ExitCannot }

// asMemoryError is an error of memory with its numbers; nil of any other.
func asMemoryError(err error) *MemoryError {
	var short *arena.OutOfMemory
	if errors.As(err, &short) {
		e := &MemoryError{Err: err, Short: *short, Room: -1}
		var of *MemoryError
		switch {
		case errors.As(short.Cause, &of) && of.Room >= 0: // the process's own limit, or the machine's
			e.Room = short.Reserved + of.Room
		case errors.Is(short.Cause, syscall.ENOMEM):
			if most := machineMemory(); most > 0 && most < short.Requested {
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

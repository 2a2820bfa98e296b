package memopt

import (
	"errors"

	"memopt/planner"
)

// Exit codes of the program; the service maps them to gRPC codes.
const (
	ExitCannot  = 1   // the request cannot be met; the message says what would be possible
	ExitInput   = 2   // bad usage or input
	ExitStopped = 130 // interrupted; the code that shells use
)

// codedError gives an error an exit code.
type codedError struct {
	error
	code int
}

func (e codedError) ExitCode() int { return e.code }
func (e codedError) Unwrap() error { return e.error }

// input marks an error as the user's: a file or a setting is wrong.
func input(err error) error { return codedError{err, ExitInput} }

// classify gives an error its exit code: ExitCannot for a budget that cannot be met, ExitInput otherwise.
func classify(err error) error {
	var budget *planner.BudgetError
	if errors.As(err, &budget) {
		return codedError{err, ExitCannot}
	}
	return input(err)
}

// Code is the exit code for an error.
func Code(err error) int {
	var c interface{ ExitCode() int }
	if errors.As(err, &c) {
		return c.ExitCode()
	}
	return ExitInput
}

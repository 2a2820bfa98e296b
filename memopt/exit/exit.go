// Package exit says how the program ends on an error: the exit codes, and errors that have one.
package exit

import (
	"errors"

	"memopt/planner"
)

// The codes; the service maps them to those of gRPC.
const (
	CodeCannot  = 1   // the request cannot be met; the message says what would be possible
	CodeInput   = 2   // bad usage or input
	CodeStopped = 130 // interrupted; the code that shells use
)

// codedError gives an error an exit code.
type codedError struct {
	error
	code int
}

func (e codedError) ExitCode() int { return e.code }
func (e codedError) Unwrap() error { return e.error }

// Input marks an error as the user's: a file or a setting is wrong.
func Input(err error) error { return codedError{err, CodeInput} }

// Cannot marks an error as a request that cannot be met.
func Cannot(err error) error { return codedError{err, CodeCannot} }

// Stopped marks an error as the user's wish to end.
func Stopped(err error) error { return codedError{err, CodeStopped} }

// Classify marks an error as a request that cannot be met if it is a budget, and as the user's otherwise.
func Classify(err error) error {
	var budget *planner.BudgetError
	if errors.As(err, &budget) {
		return Cannot(err)
	}
	return Input(err)
}

// Coded reports whether an error has an exit code.
func Coded(err error) bool {
	var c interface{ ExitCode() int }
	return errors.As(err, &c)
}

// Code is the exit code for an error.
func Code(err error) int {
	var c interface{ ExitCode() int }
	if errors.As(err, &c) {
		return c.ExitCode()
	}
	return CodeInput
}

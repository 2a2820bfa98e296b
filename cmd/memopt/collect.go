package main

import (
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// gcForPlanning sets GOGC to 300 instead of Go's default of 100: the heap may grow to four times the
// live heap before the next collection. Planning 100,000 nodes allocates up to 1.5 times the bytes
// of the graph; with the default a collection in the middle took a third of the time. Most commands
// end before a second one. The user's GOGC takes precedence.
func gcForPlanning() { collect(300) }

// gcForService restores Go's default for commands that keep running, since trainers are short of memory.
func gcForService(*cli.Context) error {
	collect(100)
	return nil
}

// gcForSteps is for training steps, which make little garbage compared with the live data of
// planning.
func gcForSteps() { collect(25) }

// collect sets GOGC, unless the user has.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

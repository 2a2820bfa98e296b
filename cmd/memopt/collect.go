package main

import (
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// leisurely sets GOGC to 300 instead of Go's default of 100: the heap may grow to four times the
// live heap before the next collection. Planning 100,000 nodes allocates up to 1.5 times the bytes
// of the graph; with the default a collection in the middle took a third of the time. Most commands
// end before a second one. The user's GOGC takes precedence.
func leisurely() { collect(300) }

// thrifty restores Go's default for commands that keep running, since trainers are short of memory.
func thrifty(*cli.Context) error {
	collect(100)
	return nil
}

// stepping is for training steps, which make little garbage compared with the live data of
// planning.
func stepping() { collect(25) }

// collect sets GOGC, unless the user has.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

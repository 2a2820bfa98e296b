package main

import (
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// leisurely has garbage collected less often than Go does unasked: when the heap
// is four times what lives in it, not twice. A plan of 100 000 nodes takes up to
// one and a half times what the graph does, and a collection in the middle, which
// begins at two thirds of the way already, was a third of its time; most commands
// end before the next is due. Who sets GOGC has the last word.
func leisurely() { collect(300) }

// thrifty takes that back for commands that stay: memory is what a trainer is
// short of.
func thrifty(*cli.Context) error {
	collect(100)
	return nil
}

// stepping is for steps, which make little garbage beside what planning has left alive.
func stepping() { collect(25) }

// collect has garbage collected when it is so many percent of what lives.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

package main

import (
	"fmt"
	"io"

	"memopt/memopt"
	"memopt/memopt/report"
)

// deviceMemory writes what a driver was asked for and gave, if there is one.
func deviceMemory(w io.Writer, m *memopt.DeviceMemory) {
	if m == nil {
		return
	}
	n := report.Thousands
	fmt.Fprintf(w, "\nof the driver, in %d allocations\n", m.Calls)
	report.Table(w, "lrr", [][]string{
		{"bytes", "now", "most"},
		{"requested for the plan", n(m.Requested), n(m.Requested)},
		{"granted for it", n(m.Granted), n(m.Granted)},
		{"beside it", n(m.Own), n(m.Own)},
		{"granted in all", n(m.Held), n(m.Peak)},
	})
	if m.DriverPeak > 0 {
		fmt.Fprintf(w, "the driver counts %s bytes taken, at most %s\n", n(m.Driver), n(m.DriverPeak))
	}
}

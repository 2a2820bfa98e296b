package main

import (
	"fmt"
	"io"

	"memopt/memopt/devices"
	"memopt/memopt/report"
)

// deviceMemory prints the bytes requested from and granted by a driver, if there is one.
func deviceMemory(w io.Writer, m *devices.Memory) {
	if m == nil {
		return
	}
	n := report.Thousands
	fmt.Fprintf(w, "\nof the driver, in %d allocations\n", m.Calls)
	rows, requested := [][]string{{"bytes", "requested", "granted", "at most"}}, int64(0)
	for _, o := range m.Owners {
		rows, requested = append(rows, []string{o.Owner, n(o.Requested), n(o.Granted), n(o.Granted)}), requested+o.Requested
	}
	report.Table(w, "=lrrr", append(rows, []string{"in all", n(requested), n(m.Held), n(m.Peak)}))
	if m.DriverPeak > 0 {
		fmt.Fprintf(w, "the driver counts %s bytes taken, at most %s\n", n(m.Driver), n(m.DriverPeak))
	}
}

// deviceCounts prints what a step submits to a driver, if there is one.
func deviceCounts(w io.Writer, c *devices.Counts) {
	if c == nil {
		return
	}
	n := func(n int) string { return report.Thousands(int64(n)) }
	rows := [][]string{{"a step submits", "dispatches", "copies", "barriers", "in the schedule's order", "submissions", "launches on the processor"},
		{"", n(c.Dispatches), n(c.Copies), n(c.Barriers), n(c.InOrder), n(c.Submissions), n(c.Calls)}}
	report.Table(w, "lrrrrrr", rows)
}

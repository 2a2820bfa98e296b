package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/internal/loader"
)

// Phases prints the table of phases: the device's memory in total and by owner, and the process's
// as the system counts it.
func Phases(w io.Writer, rows []loader.Phase) {
	classes := usedClasses(rows)
	device := [][]string{{"device", "", "point", "high", "promised", "granted", "driver"}}
	owners := [][]string{append([]string{"owners"}, classes...)}
	host := [][]string{{"process", "own", "high", "promised", "device", "Go", "rest", "shared", "Go heap", "file", "resident"}}
	for _, p := range rows {
		driver := "not reported"
		if p.Driver != nil {
			driver = Bytes(p.Driver.Usage) + " of " + Bytes(p.Driver.Budget)
		}
		device = append(device, []string{p.Name, p.What, Bytes(p.Device.Point), Bytes(p.Device.High), unlessBelow(p.Promised, 0), Bytes(p.Granted.Point), driver})
		row := []string{p.Name}
		for _, c := range classes {
			row = append(row, Bytes(p.Owned(c).Requested))
		}
		owners = append(owners, row)
		host = append(host, []string{p.Name, Bytes(p.System.Point), Bytes(p.System.High), unlessBelow(p.PromisedHost, 1), Bytes(p.On), Bytes(p.Go), Signed(p.Rest),
			Bytes(p.Shmem), Bytes(p.Heap), Bytes(p.File), Bytes(p.RSS.High)})
	}
	Table(w, "=ltrrrr2r1", device)
	fmt.Fprintln(w)
	if len(classes) > 0 {
		Table(w, "=l"+strings.Repeat("r", len(classes)), owners)
		fmt.Fprintln(w)
	}
	Table(w, "=lrrrrrrr4r3r2r1", host)
}

// usedClasses lists the classes of owners that have memory.
func usedClasses(rows []loader.Phase) []string {
	return slices.DeleteFunc(slices.Clone(loader.Classes), func(c string) bool {
		return !slices.ContainsFunc(rows, func(p loader.Phase) bool { return p.Owned(c).Requested > 0 })
	})
}

// unlessBelow prints bytes, or nothing if they are below a minimum.
func unlessBelow(n, least int64) string {
	if n < least {
		return ""
	}
	return Bytes(n)
}

// Signed prints bytes that may be negative.
func Signed(n int64) string {
	if n < 0 {
		return "−" + Bytes(-n)
	}
	return Bytes(n)
}

// Package bytesize prints numbers of bytes, and rounds them to sizes that settings take.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
)

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

// scaled is n in the largest unit in which two decimals do not round up to 1024.
func scaled(n int64) (x float64, scale uint64, unit string) {
	u, i := magnitude(n), 0
	for scale = 1; i < len(units)-1 && float64(u)/float64(scale) >= 1023.995; scale *= 1024 {
		i++
	}
	return float64(n) / float64(scale), scale, units[i]
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// Text prints bytes for a sentence: 1.50 GiB, 12 KiB, 1023 B. Multiples of a unit have no decimals, other numbers two,
// rounded.
func Text(n int64) string {
	if x, scale, unit := scaled(n); magnitude(n)%scale > 0 {
		return fmt.Sprintf("%.2f %s", x, unit)
	} else {
		return fmt.Sprintf("%d %s", n/int64(scale), unit)
	}
}

// Column prints bytes for a table, where decimals stand below each other: 1.50 GiB, 12.00 KiB, 1023 B.
func Column(n int64) string {
	x, scale, unit := scaled(n)
	if scale == 1 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%.2f %s", x, unit)
}

// Exact prints bytes for an error about a limit: the number, with what it is in large units.
func Exact(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB (%d bytes)", float64(n)/(1<<30), n)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB (%d bytes)", float64(n)/(1<<20), n)
	}
	return fmt.Sprintf("%d bytes", n)
}

// precise is how many of a unit there are at least where a tenth of it may be lost.
const precise = 16

// Above is n, or the next size above it that is short: tenths of a unit.
func Above(n int64) string { return tenths(n, 1, math.Ceil) }

// Near is Above for limits that are meant to be close: numbers of few units stay as they are.
func Near(n int64) string { return tenths(n, precise, math.Ceil) }

// Below is n, or the next size below it that is short, if that is close.
func Below(n int64) string { return tenths(n, precise, math.Floor) }

func tenths(n, least int64, round func(float64) float64) string {
	for i := 3; i >= 2; i-- { // GiB, MiB
		if unit := int64(1) << (10 * i); n >= least*unit {
			return fmt.Sprintf("%.1f%s", round(10*float64(n)/float64(unit))/10, units[i])
		}
	}
	return strconv.FormatInt(n, 10)
}

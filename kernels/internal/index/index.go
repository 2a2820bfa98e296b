// Package index is arithmetic of shapes, strides and offsets. It knows no operator.
package index

import "slices"

// Strides returns the strides of a row-major shape, in elements.
func Strides(shape []int) []int {
	st := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = n
		n *= shape[i]
	}
	return st
}

// Broadcast returns the strides of a shape that is broadcast to another: 0 where it
// repeats.
func Broadcast(shape, under []int) []int {
	st := make([]int, len(under))
	own := Strides(shape)
	lead := len(under) - len(shape)
	for i := range shape {
		if shape[i] != 1 || under[lead+i] == 1 {
			st[lead+i] = own[i]
		}
	}
	return st
}

// Elems is the product of dims.
func Elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Walk calls f for elements [lo, hi) of a row-major shape, with the offset of each under the
// given lists of strides.
func Walk(shape []int, lo, hi int, f func(i int, at []int), lists ...[]int) {
	if lo >= hi {
		return
	}
	idx := make([]int, len(shape))
	at := make([]int, len(lists))
	for i, rest := len(shape)-1, lo; i >= 0; i-- {
		idx[i] = rest % shape[i]
		rest /= shape[i]
		for k, st := range lists {
			at[k] += idx[i] * st[i]
		}
	}
	for i := lo; i < hi; i++ {
		f(i, at)
		for d := len(shape) - 1; d >= 0; d-- {
			idx[d]++
			for k, st := range lists {
				at[k] += st[d]
			}
			if idx[d] < shape[d] {
				break
			}
			for k, st := range lists {
				at[k] -= shape[d] * st[d]
			}
			idx[d] = 0
		}
	}
}

// Around views a shape as before × axis × after.
func Around(shape []int, axis int) (before, n, after int) {
	return Elems(shape[:axis]), shape[axis], Elems(shape[axis+1:])
}

// CeilDiv is a/b, rounded up.
func CeilDiv(a, b int) int { return (a + b - 1) / b }

// Merge merges adjacent dims of a shape that can be merged under all lists of strides.
func Merge(shape []int, lists ...[]int) ([]int, [][]int) {
	var dims []int
	out := make([][]int, len(lists))
	for i, d := range shape {
		if d == 1 {
			continue
		}
		k := len(dims) - 1
		joins := k >= 0
		for n, st := range lists {
			joins = joins && out[n][k] == st[i]*d
		}
		if joins {
			dims[k] *= d
		} else {
			dims = append(dims, d)
		}
		for n, st := range lists {
			if joins {
				out[n][k] = st[i]
			} else {
				out[n] = append(out[n], st[i])
			}
		}
	}
	if len(dims) == 0 {
		dims = []int{1}
		for n := range out {
			out[n] = []int{0}
		}
	}
	return dims, out
}

// Padded pads a list in front to length n, with 1 for dims or 0 for strides.
func Padded(n int, list []int, fill int) []int {
	return append(slices.Repeat([]int{fill}, max(0, n-len(list))), list...)
}

// Split separates a shape into dims that stay and reduced ones, with the strides of both.
func Split(shape, axes []int) (stay, stayAt, gone, goneAt []int) {
	st := Strides(shape)
	for i, d := range shape {
		if slices.Contains(axes, i) {
			gone, goneAt = append(gone, d), append(goneAt, st[i])
		} else {
			stay, stayAt = append(stay, d), append(stayAt, st[i])
		}
	}
	return stay, stayAt, gone, goneAt
}

// MergeDims merges adjacent dims that are both reduced or both not, and drops dims of 1.
func MergeDims(shape, axes []int) (merged, mergedAxes []int) {
	wasGone := false
	for i, d := range shape {
		if d == 1 {
			continue
		}
		gone := slices.Contains(axes, i)
		if k := len(merged) - 1; k >= 0 && gone == wasGone {
			merged[k] *= d
			continue
		}
		if gone {
			mergedAxes = append(mergedAxes, len(merged))
		}
		merged, wasGone = append(merged, d), gone
	}
	return merged, mergedAxes
}

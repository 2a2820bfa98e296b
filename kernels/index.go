package kernels

import "memopt/internal/graph"

// strides returns the strides of a row-major shape, in elements.
func strides(shape []int) []int {
	st := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = n
		n *= shape[i]
	}
	return st
}

// broadcastStrides returns the strides of a shape that is broadcast to another: 0 where it
// repeats.
func broadcastStrides(shape, under []int) []int {
	st := make([]int, len(under))
	own := strides(shape)
	lead := len(under) - len(shape)
	for i := range shape {
		if shape[i] != 1 || under[lead+i] == 1 {
			st[lead+i] = own[i]
		}
	}
	return st
}

// elems is the product of dims.
func elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// walk calls f for elements [lo, hi) of a row-major shape, with the offset of each under the
// given lists of strides.
func walk(shape []int, lo, hi int, f func(i int, at []int), lists ...[]int) {
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

// around views a shape as before × axis × after.
func around(shape []int, axis int) (before, n, after int) {
	return elems(shape[:axis]), shape[axis], elems(shape[axis+1:])
}

// indexAt reads element i of a tensor of indices into a dim of n elements; negative indices
// count from the end.
func indexAt(c *graph.Call, x *graph.Tensor, i, n int) int {
	k := x.Int(i)
	if k < 0 {
		k += int64(n)
	}
	if k < 0 || k >= int64(n) {
		c.Node.Fail("index %d is outside [%d, %d)", x.Int(i), -n, n)
	}
	return int(k)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

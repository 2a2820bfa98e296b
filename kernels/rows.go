package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// eachRow calls f for rows of output 0, with the offset of each input's row and whether it
// advances (1) or repeats one element (0). Adjacent dims that all inputs broadcast alike are
// merged, so that rows are as long as possible.
func eachRow(c *graph.Call, f func(z, width int, at, step []int)) {
	out := c.Out[0].Shape
	if index.Elems(out) == 0 {
		return
	}
	full := make([][]int, len(c.In))
	lists := make([][]int, len(c.In))
	for k, x := range c.In {
		full[k] = index.Broadcast(x.Shape, out)
	}
	var shape []int
next:
	for i, d := range out {
		if d == 1 {
			continue
		}
		last := len(shape) - 1
		for k := range lists {
			if last < 0 || !merges(lists[k][last], full[k][i], d) {
				shape = append(shape, d)
				for k := range lists {
					lists[k] = append(lists[k], full[k][i])
				}
				continue next
			}
		}
		shape[last] *= d
		for k := range lists {
			lists[k][last] = full[k][i]
		}
	}
	if len(shape) == 0 {
		shape = []int{1}
		for k := range lists {
			lists[k] = []int{1}
		}
	}
	last := len(shape) - 1
	width, step := shape[last], make([]int, len(lists))
	for k := range lists {
		step[k] = lists[k][last]
		lists[k] = lists[k][:last]
	}
	if last == 0 {
		// A single row is divided among workers.
		c.Parallel(width, f32.Grain, func(lo, hi int) {
			at := make([]int, len(lists))
			for k := range at {
				at[k] = lo * step[k]
			}
			f(lo, hi-lo, at, step)
		})
		return
	}
	c.Parallel(index.Elems(shape[:last]), max(1, f32.Grain/width), func(lo, hi int) {
		index.Walk(shape[:last], lo, hi, func(r int, at []int) { f(r*width, width, at, step) }, lists...)
	})
}

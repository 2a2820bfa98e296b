package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// many describes a variadic operator under broadcasting: a left fold over the inputs.
type many struct {
	f    func(acc, x float64) float64
	i    func(acc, x int64) int64         // nil: floats only
	u    func(acc, x uint64) uint64       // for uint64; nil: i is correct for it, too
	last func(acc float64, n int) float64 // applied to the result of n inputs, if not nil
}

// anyNumber infers a variadic operator on tensors of one type.
func anyNumber(n *graph.Node) {
	if len(n.Inputs) == 0 {
		n.Fail("at least one input is needed")
	}
	sameTypes(n)
	wantType(n, 0, isNumber, "numbers")
	n.Set(0, n.Inputs[0].Type, broadcast(n, inputShapes(n)...))
}

// perInput counts one operation for each output element and input.
func perInput(n *graph.Node) graph.Dim {
	return n.Outputs[0].Shape.Elems().Mul(graph.Num(int64(len(n.Inputs))))
}

func (m many) eval(c *graph.Call) {
	z := c.Out[0]
	lists := make([][]int, len(c.In))
	for k, x := range c.In {
		lists[k] = index.Broadcast(x.Shape, z.Shape)
	}
	index.Walk(z.Shape, 0, z.Len(), func(i int, at []int) {
		switch {
		case z.Type.IsFloat():
			acc := c.In[0].Float(at[0])
			for k, x := range c.In[1:] {
				acc = m.f(acc, x.Float(at[k+1]))
			}
			if m.last != nil {
				acc = m.last(acc, len(c.In))
			}
			z.SetFloat(i, acc)
		case z.Type == graph.Uint64 && m.u != nil:
			acc := uint64(c.In[0].Int(at[0]))
			for k, x := range c.In[1:] {
				acc = m.u(acc, uint64(x.Int(at[k+1])))
			}
			z.SetInt(i, int64(acc))
		default:
			acc := c.In[0].Int(at[0])
			for k, x := range c.In[1:] {
				acc = m.i(acc, x.Int(at[k+1]))
			}
			z.SetInt(i, acc)
		}
	}, lists...)
}

// fast folds with step if all inputs are float32 of the output's shape, else it calls eval.
// The output may share memory with any input, so more than two inputs are folded in a
// separate block of memory first.
func (m many) fast(step func(z, x, y []float32)) func(*graph.Call) {
	return func(c *graph.Call) {
		z := c.Out[0]
		if z.Type != graph.Float32 || m.last != nil {
			m.eval(c)
			return
		}
		for _, x := range c.In {
			if x.Len() != z.Len() {
				m.eval(c)
				return
			}
		}
		out := z.F32()
		c.Parallel(len(out), f32.Grain, func(lo, hi int) {
			row := func(i int) []float32 { return c.In[i].F32()[lo:hi] }
			switch len(c.In) {
			case 1:
				copy(out[lo:hi], row(0))
				return
			case 2:
				step(out[lo:hi], row(0), row(1))
				return
			}
			var block [512]float32
			for end := hi; lo < end; lo = hi {
				hi = min(lo+len(block), end)
				acc, last := block[:hi-lo], len(c.In)-1
				step(acc, row(0), row(1))
				for i := 2; i < last; i++ {
					step(acc, acc, row(i))
				}
				step(out[lo:hi], acc, row(last))
			}
		})
	}
}

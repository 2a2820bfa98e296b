package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// Dropout's gradient draws the mask again instead of keeping it: the counter-based
// generator gives the same bits for a few operations an element, which saves a byte an
// element between the passes. The mask output is only computed if a node reads it.
var _ = define(graph.Op{
	Name:  "Dropout",
	Since: 12,
	Doc:   "in training, x/(1 − ratio), or 0 with probability ratio; else x",
	In:    "data, ratio?, training_mode?",
	Out:   "output, mask?",
	Attrs: "seed int",
	Infer: func(n *graph.Node) {
		dropoutInfer(n)
		n.Set(1, graph.Bool, n.Inputs[0].Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = dy[0]
		if on := n.In(2); on != nil && (on.Ints == nil || !on.Ints[0].Is(0)) {
			dx[0] = b.Op("memopt.DropoutGrad", graph.A{"seed": int64(n.Identity())}, dy[0], n.In(1), on)
		}
		return dx
	},
	NoOp: func(n *graph.Node) bool { // not in training, or ratio 0
		on := n.In(2)
		ratio, known := oneNumber(n.In(1))
		return on == nil || on.Ints != nil && on.Ints[0].Is(0) || known && ratio == 0
	},
	Eval:      func(c *graph.Call) { dropout(c, f32.Serial) },
	Fast:      func(c *graph.Call) { dropout(c, c.Parallel) },
	Lower:     lower.DrawnMask.Lower,
	Flops:     perElement(16),
	Tests:     graph.Tests{Work: eachOut(16)},
	Fixed:     []int{1},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Random:    true,
	Samples: []string{
		"f32[5,7], f32[]{0.4}, bool[]{1}",
		"f32[5,7], f32[]{0.4}, bool[]{1}; seed=3 -> y",
		"f32[130], _, bool[]{1}",
		"f32[4], f32[]{0}, bool[]{1}",
		"f32[4], f32[]{1}, bool[]{1}",
		"f32[4], f32[]{0.4}, bool[]{0}",
		"f32[4], f32[]{0.4}",
		"f32[3]",
		"f16[5], f32[]{0.4}, bool[]{1}",
		"f32[0], f32[]{0.4}, bool[]{1}",
	},
})

// Before opset 12 the ratio is an attribute, and there is no training_mode: the node
// behaves as in inference.
var _ = define(graph.Op{
	Name:  "Dropout",
	Since: 10,
	Doc:   "the form of opset 10, which is x: it has no training mode",
	In:    "data",
	Out:   "output, mask?",
	Attrs: "ratio float=0.5",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return b.Ops("Dropout", nil, len(n.Outputs), n.Inputs[0])
	},
})

// Before opset 10 the mask has the type of the data.
var _ = define(graph.Op{
	Name:  "Dropout",
	Since: 7,
	Doc:   "the form of opset 7, with a mask of numbers",
	In:    "data",
	Out:   "output, mask?",
	Attrs: "ratio float=0.5",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return maskOfNumbers(b, b.Ops("Dropout", nil, len(n.Outputs), n.Inputs[0]))
	},
})

// Before opset 7 it is in training unless is_test is set.
var _ = define(graph.Op{
	Name:  "Dropout",
	Doc:   "the form before opset 7, with is_test",
	In:    "data",
	Out:   "output, mask?",
	Attrs: "is_test int=0, ratio float=0.5",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := []*graph.Value{n.Inputs[0]}
		if n.Int("is_test") == 0 {
			in = append(in, b.Num(graph.Float32, n.Float("ratio")), b.Num(graph.Bool, 1))
		}
		return maskOfNumbers(b, b.Ops("Dropout", nil, len(n.Outputs), in...))
	},
})

// maskOfNumbers casts the mask of a Dropout to the type of its data.
func maskOfNumbers(b *graph.Builder, out []*graph.Value) []*graph.Value {
	if len(out) > 1 {
		return []*graph.Value{out[0], b.Op("Cast", graph.A{"to": int64(out[0].Type)}, out[1])}
	}
	return out
}

// DropoutGrad's seed is the identity of the node that drew in the forward pass: its
// attribute seed, or a hash of its name.
var _ = define(graph.Op{
	Name:   "DropoutGrad",
	Domain: own,
	Doc:    "dy/(1 − ratio) or 0, with the mask of the forward pass drawn again",
	In:     "dY, ratio?, training_mode?",
	Out:    "dX",
	Attrs:  "seed int",
	Infer: func(n *graph.Node) {
		dropoutInfer(n)
		if !n.Has("seed") {
			n.Fail("attribute seed is missing")
		}
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { dropout(c, f32.Serial) },
	Fast:      func(c *graph.Call) { dropout(c, c.Parallel) },
	Lower:     lower.DrawnMask.Lower,
	Flops:     perElement(16),
	Tests:     graph.Tests{Work: eachOut(16)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Random:    true,
	Samples: []string{
		"f32[5,7], f32[]{0.4}, bool[]{1}; seed=3",
		"f32[9], f32[]{0.4}, bool[]{0}; seed=3",
		"f32[0,3], f32[]{0.4}, bool[]{1}; seed=3",
	},
})

func dropoutInfer(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	wantType(n, 1, isFloat, "a float")
	wantType(n, 2, isBool, "a bool")
	for _, v := range n.Inputs[1:] {
		if v != nil {
			n.Same(v.Shape.Elems(), graph.Num(1), "ratio and training_mode have one element each")
		}
	}
	sameShape(n)
}

// dropout is both Dropout and its gradient: each element is scaled by 1/(1 − ratio) or 0.
func dropout(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) {
	x, y := c.In[0], c.Out[0]
	ratio := 0.0
	if on := input(c, 2); on != nil && on.Int(0) != 0 {
		ratio = 0.5
		if r := input(c, 1); r != nil {
			ratio = r.Float(0)
		}
	}
	if !(ratio >= 0 && ratio <= 1) {
		c.Node.Fail("ratio is %v, outside [0, 1]", ratio)
	}
	var mask []byte
	if m := output(c, 1); m != nil {
		mask = m.Bytes
	}
	if ratio == 0 {
		copy(y.Bytes, x.Bytes)
		for i := range mask {
			mask[i] = 1
		}
		return
	}
	// An element is kept if its random word is at or above the bound.
	bound, scale := uint64(math.RoundToEven(ratio*(1<<32))), 1/(1-ratio)
	words, n := newStream(c, c.Node.Identity()), x.Len()
	parallel((n+3)/4, f32.Grain/16, func(lo, hi int) {
		var buf [256]uint32
		for ; lo < hi; lo += len(buf) / 4 {
			draws := buf[:4*min(hi-lo, len(buf)/4)]
			words.fill(draws, lo)
			at := 4 * lo
			draws = draws[:min(len(draws), n-at)]
			if x.Type == graph.Float32 {
				f32.Drop(y.F32()[at:], x.F32()[at:], draws, bound, float32(scale))
			} else {
				for i, w := range draws {
					v := 0.0
					if uint64(w) >= bound {
						v = x.Float(at+i) * scale
					}
					y.SetFloat(at+i, v)
				}
			}
			if mask != nil {
				for i, w := range draws {
					mask[at+i] = 0
					if uint64(w) >= bound {
						mask[at+i] = 1
					}
				}
			}
		}
	})
}

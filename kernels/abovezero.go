package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// AboveZero packs x > 0 into one bit an element: all that the gradient of Relu
// needs of its output. The words are laid out like BitmaskDropout's mask.
var _ = define(graph.Op{
	Name:   "AboveZero",
	Domain: own,
	Doc:    "a bit for each element: set if it is above zero, or true",
	In:     "X",
	Out:    "bits",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		if x.Type != graph.Bool {
			wantType(n, 0, isFloat, "floats or bools")
		}
		n.Set(0, graph.Uint32, bitmaskShape(x.Shape))
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { aboveZero(c, f32.Serial) },
	Fast:      func(c *graph.Call) { aboveZero(c, c.Parallel) },
	Lower:     lowerAboveZero,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems() },
	Tests:     graph.Tests{Work: eachIn(0, 1)},
	Recompute: graph.Cheap,
	Samples:   []string{"f32[5,7]", "f32[64]", "bool[40]", "f64[3]", "f16[33]", "f32[0]", "f32[]"},
})

func aboveZero(c *graph.Call, par f32.Parallel) {
	x, bits := c.In[0], c.Out[0]
	above := func(i int) bool { return x.Float(i) > 0 }
	switch x.Type {
	case graph.Float32:
		all := x.F32()
		above = func(i int) bool { return all[i] > 0 }
	case graph.Bool:
		above = func(i int) bool { return x.Bytes[i] != 0 }
	}
	par(bits.Len(), f32.Grain/bitsPerWord, func(lo, hi int) {
		for w := lo; w < hi; w++ {
			word := uint32(0)
			for i := w * bitsPerWord; i < min((w+1)*bitsPerWord, x.Len()); i++ {
				if above(i) {
					word |= 1 << (i % bitsPerWord)
				}
			}
			bits.SetInt(w, int64(word))
		}
	})
}

var _ = define(graph.Op{
	Name:   "KeepWhere",
	Domain: own,
	Doc:    "x where the bit is set, else 0",
	In:     "X, bits",
	Out:    "Y",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		inferMask(n, n.Inputs[0], n.Inputs[1], true)
		sameShape(n)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { keepWhere(c, f32.Serial) },
	Fast:      func(c *graph.Call) { keepWhere(c, c.Parallel) },
	Lower:     lowerKeepWhere,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachIn(0, 1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[5,7], u32[2]>0", "f32[64], u32[2]>0", "f64[5], u32[1]>0", "f16[33], u32[2]>0", "f32[0], u32[0]"},
})

func keepWhere(c *graph.Call, par f32.Parallel) {
	x, bits, y := c.In[0], c.In[1], c.Out[0]
	size := int(x.Type.Size())
	par(bits.Len(), f32.Grain/bitsPerWord, func(lo, hi int) {
		for w := lo; w < hi; w++ {
			word, end := uint32(bits.Int(w)), min((w+1)*bitsPerWord, x.Len())
			if x.Type == graph.Float32 {
				x, y := x.F32()[w*bitsPerWord:end], y.F32()[w*bitsPerWord:end]
				for i, v := range x {
					y[i] = f32.Choose(word>>i&1 != 0, v, 0)
				}
				continue
			}
			for i := w * bitsPerWord; i < end; i++ {
				if at := y.Bytes[i*size : (i+1)*size]; word>>(i%bitsPerWord)&1 != 0 {
					copy(at, x.Bytes[i*size:])
				} else {
					clear(at)
				}
			}
		}
	})
}

// signs lets a gradient read the bits of AboveZero instead of its input 1, y.
// Only float32 gradients select between dy and 0, so only there is this exact;
// other types multiply by the slope, which gives NaN for 0·∞.
func signs(n *graph.Node) []graph.Smaller {
	if n.Inputs[1].Type != graph.Float32 {
		return nil
	}
	return []graph.Smaller{{
		Input: 1,
		Keep:  func(b *graph.Builder, x *graph.Value) *graph.Value { return b.Op(own+".AboveZero", nil, x) },
		Read: func(b *graph.Builder, in []*graph.Value, kept *graph.Value) []*graph.Value {
			return b.Ops(own+".KeepWhere", nil, 1, in[0], kept)
		},
	}}
}

var bitsKernel = lower.Shader("bits", "bits.comp")

func bitsPass(l *graph.Lowering, rule uint32, n int, x, bools, bits graph.Buffer) {
	if !l.Limits.Int8 {
		l.Refuse("the device has no bytes in buffers")
		return
	}
	if n > 0 {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: bitsKernel, Spec: []uint32{rule}, Push: lower.Words(l, n),
			Buffers: []graph.Buffer{lower.Writes(0), x, bools, bits}, Groups: lower.InLine(l, index.CeilDiv(index.CeilDiv(n, bitsPerWord), 64)),
		})
	}
}

func lowerAboveZero(l *graph.Lowering) {
	switch n := l.In[0].Len(); l.In[0].Type {
	case graph.Float32:
		bitsPass(l, 0, n, lower.Reads(0), lower.Unused(false), lower.Unused(false))
	case graph.Bool:
		bitsPass(l, 1, n, lower.Unused(false), lower.Reads(0), lower.Unused(false))
	default:
		l.Refuse("input 0 is %s; there is a kernel for f32 and bools", l.In[0].Type)
	}
}

func lowerKeepWhere(l *graph.Lowering) {
	if l.In[0].Type != graph.Float32 {
		l.Refuse("input 0 is %s; there is a kernel for f32", l.In[0].Type)
		return
	}
	bitsPass(l, 2, l.In[0].Len(), lower.Reads(0), lower.Unused(false), lower.Reads(1))
}

package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = defineSumMask(sumMask{
	name: "BitmaskDropout",
	doc:  "Dropout with a mask of bits",
	bits: true,
},
	"f32[5,7], f32[]{0.4}, bool[]{1}",
	"f32[5,7], f32[]{0.4}, bool[]{1}; seed=3 -> y",
	"f32[130], _, bool[]{1}",
	"f32[4], f32[]{0.4}",
	"f16[5], f32[]{0.4}, bool[]{1}",
	"f32[0], f32[]{0.4}, bool[]{1}",
)

// The gradients of ONNX Runtime's dropouts, which read the mask of the forward pass.
var _ = defineMaskGrad("BitmaskDropoutGrad", "dy/(1 − ratio) where the bit of the mask is set, else 0", true,
	"f32[5,7], u32[2]>0, f32[]{0.4}, bool[]{1}",
	"f32[64], u32[2]>0, _, bool[]{1}",
	"f32[5], u32[1], f32[]{0.4}",
	"f16[5], u32[1]>0, f32[]{0.4}, bool[]{1}",
)

var _ = defineMaskGrad("DropoutGrad", "dy/(1 − ratio) where the mask is true, else 0", false,
	"f32[5,7], bool[5,7], f32[]{0.4}, bool[]{1}",
	"f32[64], bool[64], _, bool[]{1}",
	"f32[5], bool[5], f32[]{0.4}",
	"f32[5], bool[5], f32[]{0}, bool[]{1}",
	"f32[0,7], bool[0,7], f32[]{0.4}, bool[]{1}",
	"f16[5], bool[5], f32[]{0.4}, bool[]{1}",
)

func defineMaskGrad(name, doc string, bits bool, samples ...string) *graph.Op {
	return define(graph.Op{
		Name:   name,
		Domain: microsoft,
		Doc:    doc,
		In:     "dy, mask, ratio?, training_mode?",
		Out:    "dx",
		Infer: func(n *graph.Node) {
			floatMap(n)
			inferMask(n, n.Inputs[0], n.Inputs[1], bits)
			inferChance(n, 2, 3)
		},
		NoGrad:    true,
		Shrink:    maskBits(bits),
		Eval:      func(c *graph.Call) { unmask(c, bits, f32.Serial) },
		Fast:      func(c *graph.Call) { unmask(c, bits, c.Parallel) },
		Lower:     lowerMasked(bits),
		Flops:     perElement(2),
		Tests:     graph.Tests{Work: eachOut(2)},
		Recompute: graph.Cheap,
		InPlace:   []int{0},
		Samples:   samples,
	})
}

// maskBits lets a gradient read a packed mask, one bit an element, instead of bools.
func maskBits(already bool) func(n *graph.Node) []graph.Smaller {
	if already {
		return nil
	}
	return func(*graph.Node) []graph.Smaller {
		return []graph.Smaller{{
			Input: 1,
			Keep:  func(b *graph.Builder, x *graph.Value) *graph.Value { return b.Op(own+".AboveZero", nil, x) },
			Read: func(b *graph.Builder, in []*graph.Value, kept *graph.Value) []*graph.Value {
				in[1] = kept
				return b.Ops(microsoft+".BitmaskDropoutGrad", nil, 1, in...)
			},
		}}
	}
}

// inferMask checks that a mask has one bool, or with bits one bit, for each element of v.
func inferMask(n *graph.Node, v, mask *graph.Value, bits bool) {
	if !bits {
		if mask.Type != graph.Bool {
			n.Fail("the mask is %s, not bool", mask.Type)
		}
		sameDims(n, mask.Shape, v.Shape)
		return
	}
	if mask.Type != graph.Uint32 {
		n.Fail("the mask is %s, not u32", mask.Type)
	}
	n.Same(mask.Shape.Elems(), bitmaskShape(v.Shape)[0], "words of the mask and elements by 32")
}

func unmask(c *graph.Call, bits bool, par func(n, grain int, f func(lo, hi int))) {
	dy, mask, dx := c.In[0], c.In[1], c.Out[0]
	if mode := input(c, 3); mode == nil || mode.Int(0) == 0 {
		copy(dx.Bytes, dy.Bytes)
		return
	}
	scale := 1 / (1 - ratioOf(c, 2))
	par(dy.Len(), f32.Grain/2, func(lo, hi int) {
		stays := func(i int) bool { return mask.Bytes[i] != 0 }
		if bits {
			stays = func(i int) bool { return mask.Int(i/bitsPerWord)>>(i%bitsPerWord)&1 != 0 }
		}
		if dy.Type == graph.Float32 {
			y, x, s := dy.F32()[lo:hi], dx.F32()[lo:hi], float32(scale)
			for i, v := range y {
				x[i] = f32.Choose(stays(lo+i), v*s, 0)
			}
			return
		}
		for i := lo; i < hi; i++ {
			v := 0.0
			if stays(i) {
				v = dy.Float(i) * scale
			}
			dx.SetFloat(i, v)
		}
	})
}

// ratioOf is the dropout ratio in input i; 0.5 if that is missing.
func ratioOf(c *graph.Call, i int) float64 {
	if r := input(c, i); r != nil {
		return r.Float(0)
	}
	return 0.5
}

func lowerMasked(bits bool) func(*graph.Lowering) {
	if bits {
		return lower.ReadBits.Lower
	}
	return lower.ReadMask.Lower
}

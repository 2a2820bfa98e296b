package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// MatMulInteger's sums are int32 and wrap around, which ONNX allows.
var _ = define(graph.Op{
	Name:  "MatMulInteger",
	Since: 10,
	Doc:   "Y = (A − a_zero_point)·(B − b_zero_point) in int32",
	In:    "A, B, a_zero_point?, b_zero_point?",
	Out:   "Y",
	Infer: func(n *graph.Node) {
		a, b := n.Inputs[0], n.Inputs[1]
		for i, v := range []*graph.Value{a, b} {
			wantType(n, i, isByte, "i8 or u8")
			if z := n.In(2 + i); z != nil && z.Type != v.Type {
				n.Fail("the zero point of a %s is %s", v.Type, z.Type)
			}
		}
		out, _ := plainProduct.shapes(n, a.Shape, b.Shape)
		if z := n.In(2); z != nil && !z.Shape.Elems().Is(1) {
			checkZeros(n, z, a, a.Rank()-2, a.Rank()-1)
		}
		if z := n.In(3); z != nil && !z.Shape.Elems().Is(1) {
			checkZeros(n, z, b, b.Rank()-1, b.Rank()-2)
		}
		n.Set(0, graph.Int32, out)
	},
	NoGrad: true,
	Eval:   func(c *graph.Call) { matMulInteger(c, f32.Serial) },
	Fast:   func(c *graph.Call) { matMulInteger(c, c.Parallel) },
	Flops:  plainProduct.flops,
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 { return 2 * visits(append(c.outs(0), int(c.inner(false, false)))...) }),
	},
	Recompute: graph.Heavy,
	Samples: []string{
		"u8[3,4]>0, i8[4,5]",
		"u8[3,4]>0, u8[4,5]>0, u8[]{12}, u8{1}",
		"i8[3,4], i8[4,5], i8[3], i8[5]",
		"i8[2,3,4], i8[4,5], i8[2,3,1], i8[]{2}",
		"i8[3,4], i8[2,4,5], _, i8[2,1,5]",
		"i8[4], i8[4,2]",
		"u8[3,4]>0, i8[4]",
		"i8[0,4], i8[4,2]",
	},
})

func isByte(t graph.DType) bool { return t == graph.Int8 || t == graph.Uint8 }

// checkZeros checks zero points: one for each row or column (dim along), or that for each
// matrix, with a dim of 1 across.
func checkZeros(n *graph.Node, z, of *graph.Value, along, across int) {
	switch {
	case of.Rank() < 2:
		n.Fail("zero points have shape %s, but the operand is a vector, which takes a single one", z.Shape)
	case z.Rank() == 1:
		n.Same(z.Shape[0], of.Shape[along], "zero points for the rows or columns")
	case z.Rank() != of.Rank() || !z.Shape[across].Is(1):
		n.Fail("zero points of shape %s do not fit an operand of shape %s", z.Shape, of.Shape)
	default:
		for i, d := range of.Shape {
			if i != across {
				n.Same(z.Shape[i], d, "dims of zero points")
			}
		}
	}
}

func matMulInteger(c *graph.Call, par f32.Parallel) {
	a, b, y := c.In[0], c.In[1], c.Out[0]
	l := lower.Product(plainProduct).Layout(a.Shape, b.Shape, y.Shape)
	// Zero points have the same batch dims as their operands.
	za, aStep, aBatch := zeroPoints(input(c, 2), l.M, l.Batch, len(a.Shape))
	zb, bStep, bBatch := zeroPoints(input(c, 3), l.N, l.Batch, len(b.Shape))
	out := graph.View[int32](y)
	par(index.Elems(l.Batch)*l.M, max(1, f32.Grain/(1+l.N*l.K)), func(lo, hi int) {
		row := make([]int32, l.K)
		if l.M == 0 || hi <= lo {
			return
		}
		index.Walk(l.Batch, lo/l.M, (hi-1)/l.M+1, func(batch int, at []int) {
			for i := max(lo-batch*l.M, 0); i < min(hi-batch*l.M, l.M); i++ {
				zero := za(at[2] + i*aStep)
				for q := range row {
					row[q] = int32(a.Int(at[0]+i*l.A.I+q*l.A.P)) - zero
				}
				for j := range l.N {
					zero, sum := zb(at[3]+j*bStep), int32(0)
					for q, v := range row {
						sum += v * (int32(b.Int(at[1]+j*l.B.I+q*l.B.P)) - zero)
					}
					out[(batch*l.M+i)*l.N+j] = sum
				}
			}
		}, l.ABatch, l.BBatch, aBatch, bBatch)
	})
}

// zeroPoints returns a function for the zero point at an offset, the stride from row to row
// (or column to column), and the strides of the batch dims.
func zeroPoints(z *graph.Tensor, each int, batch []int, rank int) (at func(int) int32, step int, strides []int) {
	strides = make([]int, len(batch))
	switch {
	case z == nil:
		return func(int) int32 { return 0 }, 0, strides
	case z.Len() == 1:
		v := int32(z.Int(0))
		return func(int) int32 { return v }, 0, strides
	case len(z.Shape) > 1:
		strides = index.Broadcast(z.Shape[:rank-2], batch)
		for i := range strides {
			strides[i] *= each
		}
	}
	return func(i int) int32 { return int32(z.Int(i)) }, 1, slices.Clip(strides)
}

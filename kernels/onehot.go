package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "OneHot",
	Doc:   "values[1] at the index along the new axis, values[0] elsewhere",
	In:    "indices, depth, values",
	Out:   "output",
	Attrs: "axis int=-1",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		idx, values := n.Inputs[0], n.Inputs[2]
		wantType(n, 0, isNumber, "numbers")
		n.Same(values.Shape.Elems(), graph.Num(2), "values must have two elements, off and on")
		n.Same(n.Inputs[1].Shape.Elems(), graph.Num(1), "depth must have one element")
		axis := axisOf(n, n.Int("axis"), idx.Rank()+1)
		n.Set(0, values.Type, slices.Insert(slices.Clone(idx.Shape), axis, oneHotDepth(n)))
		foldMoved(n, 2)
	},
	// Only values has a gradient: the sums of dy where each of the two is copied to.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		t := dy[0].Type
		ends := graph.NewTensor(t, 2)
		ends.SetFloat(1, 1)
		value := b.Op("Constant", graph.A{"value": ends})
		on := b.Op("Mul", nil, dy[0], b.Op("OneHot", graph.A{"axis": n.Int("axis")}, n.Inputs[0], n.Inputs[1], value))
		sum := graph.A{"keepdims": 0}
		onSum := b.Op("ReduceSum", sum, on)
		offSum := b.Op("Sub", nil, b.Op("ReduceSum", sum, dy[0]), onSum)
		one := graph.Dims(1)
		return []*graph.Value{nil, nil, b.Op("Concat", graph.A{"axis": 0}, reshape(b, offSum, one), reshape(b, onSum, one))}
	},
	Whole:     sameNumbers(2),
	Eval:      func(c *graph.Call) { oneHot(c, f32.Serial) },
	Fast:      func(c *graph.Call) { oneHot(c, c.Parallel) },
	Lower:     lowerOneHot,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples: []string{
		"i64[2,3]<4, i64[]{4}, f32[2]",
		"i64[2,3]<-5, i64{4}, f32[2]; axis=1",
		"i32[3]<6, i64[]{4}, f32[2]; axis=0",
		"i64[]<4, i64[]{4}, f32[2]",
		"f32[4]>0, f32[]{3}, f32[2]; axis=-2",
		"i64[3]<4, i64[]{4}, bool[2]",
		"i64{2,0}, i64[]{3}, i64{5,7}",
		"i64[0]<4, i64[]{4}, f32[2]",
	},
})

// oneHotDepth is the size of the new axis; ONNX lets it be a float.
func oneHotDepth(n *graph.Node) graph.Dim {
	v := n.Inputs[1]
	n.Same(v.Shape.Elems(), graph.Num(1), "depth must have one element")
	if v.Type.IsFloat() && v.Data != nil {
		bytes, err := v.Data.Bytes()
		if err != nil {
			n.Fail("depth: %v", err)
		}
		x := graph.Tensor{Type: v.Type, Shape: []int{1}, Bytes: bytes}
		return graph.Num(int64(x.Float(0)))
	}
	return knownDims(n, 1, "depth")[0]
}

func oneHot(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) {
	idx, values, y := c.In[0], c.In[2], c.Out[0]
	before, depth, after := index.Around(y.Shape, axisOf(c.Node, c.Node.Int("axis"), len(y.Shape)))
	size := int(y.Type.Size())
	off, on := values.Bytes[:size], values.Bytes[size:]
	parallel(before, max(1, f32.Grain/max(1, depth*after)), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			block := y.Bytes[b*depth*after*size : (b+1)*depth*after*size]
			for done := copy(block, off); 0 < done && done < len(block); done *= 2 {
				copy(block[done:], block[:done])
			}
			for a := range after {
				i := b*after + a
				k := int64(0)
				if idx.Type.IsFloat() {
					k = int64(idx.Float(i))
				} else {
					k = idx.Int(i)
				}
				if k < 0 {
					k += int64(depth)
				}
				if k >= 0 && k < int64(depth) {
					copy(block[(int(k)*after+a)*size:][:size], on)
				}
			}
		}
	})
}

var oneHotKernels = map[graph.DType]*graph.Kernel{
	graph.Float32: lower.Halved(lower.Shader("onehot-f", "onehot.comp", "-DELEMENT=float")),
	graph.Int32:   lower.Shader("onehot-i", "onehot.comp", "-DELEMENT=int"),
	graph.Int64:   lower.Shader("onehot-l", "onehot.comp", "-DELEMENT=uvec2"),
	graph.Bool:    lower.Shader("onehot-b", "onehot.comp", "-DELEMENT=uint8_t"),
}

func lowerOneHot(l *graph.Lowering) {
	at, y := l.In[0], l.Out[0]
	kind, known := map[graph.DType]uint32{graph.Float32: 0, graph.Int32: 1, graph.Int64: 2}[at.Type]
	kernel := oneHotKernels[y.Type]
	if !known || kernel == nil || y.Type == graph.Bool && !l.Limits.Int8 {
		l.Refuse("there is no kernel for %s values and %s indices", y.Type, at.Type)
		return
	}
	_, depth, after := index.Around(y.Shape, axisOf(l.Node, l.Node.Int("axis"), len(y.Shape)))
	if n := y.Len(); n > 0 {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: kernel, Spec: []uint32{kind}, Push: lower.Words(l, n, depth, after),
			Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0), lower.Reads(2)}, Groups: lower.InLine(l, index.CeilDiv(n, 256)),
		})
	}
}

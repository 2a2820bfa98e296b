package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "CumSum",
	Doc:   "running sums along an axis",
	In:    "x, axis",
	Out:   "y",
	Attrs: "exclusive int=0, reverse int=0",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		cumAxis(n)
		sameShape(n)
		if x := n.Inputs[0]; x.Ints != nil && x.Rank() == 1 {
			sums := make([]graph.Dim, len(x.Ints))
			err := graph.Try(func() {
				sum := graph.Num(0)
				running(n, len(sums), func(i int, exclusive bool) {
					if exclusive {
						sums[i] = sum
					}
					sum = sum.Add(x.Ints[i])
					if !exclusive {
						sums[i] = sum
					}
				})
			})
			foldEach(n, len(sums), func(i int) (graph.Dim, bool) { return sums[i], err == nil })
		}
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		back := graph.A{"exclusive": n.Int("exclusive"), "reverse": 1 - n.Int("reverse")}
		return []*graph.Value{b.Op("CumSum", back, dy[0], n.Inputs[1]), nil}
	},
	Eval: func(c *graph.Call) {
		x, y := c.In[0], c.Out[0]
		before, size, after := index.Around(x.Shape, cumAxis(c.Node))
		for line := range before * after {
			at := line/after*size*after + line%after
			if x.Type.IsFloat() {
				sum := 0.0
				running(c.Node, size, func(i int, exclusive bool) {
					v := x.Float(at + i*after)
					if exclusive {
						y.SetFloat(at+i*after, sum)
					}
					sum += v
					if !exclusive {
						y.SetFloat(at+i*after, sum)
					}
				})
				continue
			}
			sum := int64(0)
			running(c.Node, size, func(i int, exclusive bool) {
				v := x.Int(at + i*after)
				if exclusive {
					y.SetInt(at+i*after, sum)
				}
				sum += v
				if !exclusive {
					y.SetInt(at+i*after, sum)
				}
			})
		}
	},
	Lower:     lowerCumSum,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachIn(0, 1), NoScalars: true},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[5], i64[]{0}",
		"f32[2,3,4], i64[]{1}",
		"f32[2,3], i32[]{-1}; exclusive=1",
		"f32[2,3], i64[]{0}; reverse=1",
		"f32[2,3], i64[]{1}; exclusive=1 reverse=1",
		"i64{1,2,3}, i64[]{0}; exclusive=1",
		"i32[2,3], i64[]{1}",
		"f16[3], i64[]{0}",
		"f32[0,3], i64[]{0}",
	},
})

// cumAxis is the axis, which must be constant.
func cumAxis(n *graph.Node) int {
	axes := knownInts(n, 1, "the axis")
	if len(axes) != 1 {
		n.Fail("%d axes; one expected", len(axes))
	}
	return axisOf(n, int(axes[0]), n.Inputs[0].Rank())
}

// running visits a line forwards, or backwards with attribute reverse.
func running(n *graph.Node, size int, visit func(i int, exclusive bool)) {
	exclusive := n.Int("exclusive") != 0
	for i := range size {
		if n.Int("reverse") != 0 {
			i = size - 1 - i
		}
		visit(i, exclusive)
	}
}

func lowerCumSum(l *graph.Lowering) {
	t := l.In[0].Type
	kernel := cumSumKernels[t]
	if kernel == nil || t == graph.Int64 && !l.Limits.Int64 {
		l.Refuse("x is %s; there is a kernel for f32, i32 and i64", t)
		return
	}
	before, n, after := index.Around(l.In[0].Shape, cumAxis(l.Node))
	lines := before * after
	if lines*n == 0 {
		return
	}
	// Few adjacent lines: a subgroup scans each; else each lane sums its own line.
	along, groups := t != graph.Int64 && after < l.Limits.Subgroup, index.CeilDiv(lines, l.Limits.Subgroup)
	if along {
		groups = lines
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{uint32(l.Limits.Subgroup), lower.OneIf(along), lower.OneIf(l.Node.Int("exclusive") != 0), lower.OneIf(l.Node.Int("reverse") != 0)},
		Push: lower.Words(l, lines, n, after), Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0)}, Groups: lower.InLine(l, groups),
	})
}

var cumSumKernels = map[graph.DType]*graph.Kernel{
	graph.Float32: lower.Shader("cumsum-f", "cumsum.comp", "-DELEMENT=float", "-DSCANS"),
	graph.Int32:   lower.Shader("cumsum-i", "cumsum.comp", "-DELEMENT=int", "-DSCANS"),
	graph.Int64:   lower.Shader("cumsum-l", "cumsum.comp", "-DELEMENT=int64_t"),
}

package kernels

import "memopt/internal/graph"

var _ = defineView(graph.Op{
	Name:  "Flatten",
	Doc:   "reshapes to a matrix: dims before axis × dims from axis on",
	In:    "input",
	Out:   "output",
	Attrs: "axis int=1",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		axis := n.Int("axis")
		if axis != x.Rank() {
			axis = axisOf(n, axis, x.Rank())
		}
		n.Set(0, x.Type, graph.Shape{x.Shape[:axis].Elems(), x.Shape[axis:].Elems()})
		n.SetInts(0, x.Ints)
	},
	Simplify: viewOfView,
	Samples: []string{
		"f32[2,3,4]",
		"f32[2,3,4]; axis=0",
		"f32[2,3,4]; axis=3",
		"f32[2,3,4]; axis=-1",
		"f32[]; axis=0",
		"f32[3]",
		"f32[0,3,2]; axis=2",
	},
})

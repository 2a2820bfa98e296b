package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// NonZero is only supported for contents that are known while planning (shapes, small
// constants): the size of its output depends on them.
var _ = define(graph.Op{
	Name:  "NonZero",
	Doc:   "the indices of the nonzero elements, of contents known while planning",
	In:    "X",
	Out:   "Y",
	Known: []int{0},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		shape, ok := numbers(x.Shape)
		constant := stored(x)
		if !ok || x.Ints == nil && constant == nil {
			n.Fail("the size of the result depends on the contents of %q, which are not known before the step runs", x.Name)
		}
		var places []int
		if constant != nil {
			for i := range constant.Len() {
				if constant.Float(i) != 0 {
					places = append(places, i)
				}
			}
		} else {
			for i, d := range x.Ints {
				is, known := truth(d)
				if !known {
					n.Fail("whether %s is 0 is not known before the step runs", d)
				}
				if is.Is(1) {
					places = append(places, i)
				}
			}
		}
		// A scalar is treated as [1].
		if len(shape) == 0 {
			shape = []int{1}
		}
		n.Set(0, graph.Int64, graph.Dims(int64(len(shape)), int64(len(places))))
		if len(shape)*len(places) > graph.MaxInts {
			return
		}
		var out []graph.Dim
		st := index.Strides(shape)
		for k := range shape {
			for _, i := range places {
				out = append(out, graph.Num(int64(i/st[k]%shape[k])))
			}
		}
		n.SetInts(0, out)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		x, y := c.In[0], c.Out[0]
		count, found := y.Shape[1], 0
		st := index.Strides(x.Shape)
		for i := range x.Len() {
			if x.Float(i) == 0 {
				continue
			}
			for k := range st {
				y.SetInt(k*count+found, int64(i/st[k]%x.Shape[k]))
			}
			if len(st) == 0 {
				y.SetInt(found, 0)
			}
			found++
		}
	},
	Lower:     lower.Known,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples:   []string{"i64[2,3]{0,1,0,2,3,0}", "bool{1,0,1}", "i64[]{5}", "i64{0,0}"},
})

// stored returns the tensor of a constant with data; else nil.
func stored(v *graph.Value) *graph.Tensor {
	if v.Kind != graph.Const || v.Data == nil {
		return nil
	}
	shape, ok := numbers(v.Shape)
	b, err := v.Data.Bytes()
	if !ok || err != nil {
		return nil
	}
	return &graph.Tensor{Type: v.Type, Shape: shape, Bytes: b}
}

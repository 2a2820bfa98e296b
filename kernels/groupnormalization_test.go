package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memopt/internal/graph"
)

// TestGroupNormalization compares the rewritten forms with the definition.
func TestGroupNormalization(t *testing.T) {
	for _, c := range []struct {
		op     string
		opset  int
		groups int
		affine int // length of scale and bias
	}{
		{"GroupNormalization", 21, 2, 4},
		{"GroupNormalization", 18, 2, 2},
		{"InstanceNormalization", 13, 4, 4},
	} {
		t.Run(fmt.Sprintf("%s since %d", c.op, c.opset), func(t *testing.T) {
			const batch, channels, inner, eps = 2, 4, 3, 1e-2
			rng := rand.New(rand.NewPCG(1, 2))
			g := graph.New(Library, "")
			b := graph.NewBuilder(g)
			given := map[string]*graph.Tensor{}
			var in []*graph.Value
			var ts []*graph.Tensor
			for i, s := range [][]int64{{batch, channels, inner}, {int64(c.affine)}, {int64(c.affine)}} {
				v, err := b.Define(graph.Input, fmt.Sprintf("x%d", i), graph.Float64, graph.Dims(s...))
				if err != nil {
					t.Fatal(err)
				}
				n := 1
				shape := make([]int, len(s))
				for k, d := range s {
					n, shape[k] = n*int(d), int(d)
				}
				x := graph.NewTensor(graph.Float64, shape...)
				for k := range n {
					x.SetFloat(k, rng.NormFloat64())
				}
				in, ts, given[v.Name] = append(in, v), append(ts, x), x
			}
			attrs := []graph.Attr{{Name: "epsilon", Value: eps}}
			if c.op == "GroupNormalization" {
				attrs = append(attrs, graph.Attr{Name: "num_groups", Value: int64(c.groups)})
			}
			outs, err := b.Node(Library.Find("", c.op, c.opset), "n", attrs, in, []string{"y"})
			if err != nil {
				t.Fatal(err)
			}
			binding, _ := graph.Bind(nil)
			values, err := Interpret(g, binding, given)
			if err != nil {
				t.Fatal(err)
			}
			got := values[outs[0].ID]
			size := channels / c.groups * inner
			for at := range batch * c.groups {
				mean, variance := 0.0, 0.0
				for k := range size {
					mean += ts[0].Float(at*size+k) / float64(size)
				}
				for k := range size {
					d := ts[0].Float(at*size+k) - mean
					variance += d * d / float64(size)
				}
				for k := range size {
					i := at*size + k
					s := i / inner % channels * c.affine / channels
					want := (ts[0].Float(i)-mean)/math.Sqrt(variance+eps)*ts[1].Float(s) + ts[2].Float(s)
					if math.Abs(got.Float(i)-want) > 1e-12 {
						t.Fatalf("element %d is %v, not %v", i, got.Float(i), want)
					}
				}
			}
		})
	}
}

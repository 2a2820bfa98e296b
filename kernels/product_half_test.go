package kernels

import (
	"math"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// TestHalfBlocks: products whose sums do not all fit the scratch at once.
func TestHalfBlocks(t *testing.T) {
	for _, sample := range []struct{ op, text string }{
		{"MatMul", "f16[1000,3], f16[3,1100]"},
		{"MatMul", "bf16[5,700,2], bf16[5,2,300]"},
		{"MatMul", "f16[3,330,2], f16[2,1100]"},
		{"Gemm", "f16[3,1000], f16[1100,3], f16[1100]; transA=1 transB=1 alpha=0.5 beta=2.0"},
		{"Gemm", "bf16[1000,2], bf16[2,1100], bf16[1000,1]"},
	} {
		c, err := newCase(Library.Find("", sample.op, 0), sample.text, nil)
		if err != nil {
			t.Fatal(err)
		}
		scratch, _ := c.Node.Op.Scratch(c.Node).Const()
		if scratch > 4*wideSums {
			t.Fatalf("%s %s: scratch of %d bytes", sample.op, sample.text, scratch)
		}
		shape, err := new(graph.Binding).Shape(c.Node.Outputs[0].Shape)
		if err != nil {
			t.Fatal(err)
		}
		call := &graph.Call{Node: c.Node, In: c.In, Scratch: graph.NewTensor(graph.Uint8, int(scratch)).Bytes, Parallel: f32.Serial}
		var got [2]*graph.Tensor
		for i, f := range []func(*graph.Call){c.Node.Op.Eval, c.Node.Op.Fast} {
			got[i] = graph.NewTensor(c.Node.Outputs[0].Type, shape...)
			call.Out = []*graph.Tensor{got[i]}
			f(call)
		}
		for i := range got[0].Len() {
			if x, y := got[0].Float(i), got[1].Float(i); math.Abs(x-y) > 0.02*(1+math.Abs(x)) {
				t.Fatalf("%s %s: element %d is %v, not %v", sample.op, sample.text, i, y, x)
			}
		}
	}
}

package kernels

import (
	"math"
	"testing"

	"memopt/internal/graph"
)

// TestTypesHold: what is said of an operator's element types is so. Each is
// computed on a sample; floats come out as those of the numbers that they stand
// for would in float64.
func TestTypesHold(t *testing.T) {
	for _, op := range Library.All() {
		if len(op.Samples) == 0 {
			continue
		}
		t.Run(op.FullName(), func(t *testing.T) {
			for input, types := range typesByInput(op) {
				for _, to := range types {
					typeHolds(t, op, input, to)
				}
			}
		})
	}
}

// typeHolds runs every sample that can have a type at an input, and says so if none
// can be computed.
func typeHolds(t *testing.T, op *graph.Op, input int, to graph.DType) {
	t.Helper()
	for _, s := range op.Samples {
		for _, from := range sampleTypes(s) {
			if from.input != input {
				continue
			}
			c, err := newCase(op, s, retyped(from.is, to))
			if err != nil {
				continue
			}
			var got []*graph.Tensor
			if err := graph.Try(func() { got = results(t, c) }); err != nil {
				t.Errorf("%s of %q: %v", to, s, err)
				return
			}
			if !to.IsFloat() || to == graph.Float64 || op.Random || op.Overwrites != nil {
				return
			}
			wide, err := newCase(op, s, retyped(from.is, graph.Float64))
			if err != nil {
				continue // a sample whose other inputs say the type
			}
			for i, x := range wide.In {
				if x != nil && c.In[i].Type == to {
					for k := range x.Len() {
						x.SetFloat(k, c.In[i].Float(k))
					}
				}
			}
			alike(t, op, s, to, got, results(t, wide))
			return
		}
	}
}

func results(t *testing.T, c Case) []*graph.Tensor {
	t.Helper()
	given := map[string]*graph.Tensor{}
	for i, x := range c.In {
		if x != nil {
			given[sampleName(i)] = x
		}
	}
	binding, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Interpret(c.Graph, binding, given)
	if err != nil {
		t.Fatal(err)
	}
	var out []*graph.Tensor
	for _, v := range c.Graph.Outputs {
		out = append(out, all[v.ID])
	}
	return out
}

// alike compares with float64. A rounded number may fall on the other side of
// a step, so whole numbers and truths may differ, and of floats most agree.
func alike(t *testing.T, op *graph.Op, sample string, to graph.DType, got, want []*graph.Tensor) {
	t.Helper()
	tolerance := map[graph.DType]float64{graph.Float32: 1e-4, graph.Float16: 2e-2, graph.BFloat16: 1e-1}[to]
	for i, w := range want {
		if !w.Type.IsFloat() || !got[i].Type.IsFloat() {
			continue
		}
		off, worst := 0, 0.0
		for k := range w.Len() {
			a, b := got[i].Float(k), w.Float(k)
			if a == b || math.IsNaN(a) && math.IsNaN(b) || math.IsInf(a, 0) {
				continue
			}
			if e := math.Abs(a-b) / (1 + math.Abs(b)); !(e <= tolerance) {
				off++
				worst = max(worst, e)
			}
		}
		if off > 0 && off*4 > w.Len() {
			t.Errorf("%s of %q: %d of %d elements of output %d are not those of float64, by %.2g", to, sample, off, w.Len(), i, worst)
		}
	}
}

package kernels

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memopt/memopt/graph"
)

// noScalars need an axis, and get no second shape that could broadcast.
const noScalars = "AveragePool CumSum DFT DepthToSpace GatherElements LogSoftmax MaxPool Slice Softmax SpaceToDepth Split TopK Trilu " +
	"com.microsoft.FlattenAndUnpad com.microsoft.PadAndUnflatten memopt.BandMask memopt.SafeSoftmax memopt.SegmentReduce"

// lookups take places at which elements are read or written.
const lookups = "Gather GatherElements GatherND NegativeLogLikelihoodLoss ScatterElements ScatterND SoftmaxCrossEntropyLoss " +
	"com.microsoft.SoftmaxCrossEntropyLossInternal org.pytorch.aten.ATen"

// broadcasting operators take either of two inputs in the smaller shape.
const broadcasting = "Add Div Max Mean Min Mod Mul Pow Sub Sum"

// TestGradientSamples: the gradient of each differentiable operator is compared,
// beside plain shapes, on no elements at all, on single numbers or shapes that
// broadcast (on either side), and where it looks up, on a place that is there
// twice.
func TestGradientSamples(t *testing.T) {
	scalars, places, sides := strings.Fields(noScalars), strings.Fields(lookups), strings.Fields(broadcasting)
	for _, op := range Library.All() {
		if op.Rewrite != nil || op.Grad == nil {
			continue
		}
		cases, err := Float64Cases(op)
		if err != nil {
			t.Fatal(err)
		}
		name := op.FullName()
		if !slices.ContainsFunc(cases, empty) {
			t.Errorf("%s: no sample is empty", name)
		}
		if got, needed := slices.ContainsFunc(cases, small), !slices.Contains(scalars, name); got != needed {
			t.Errorf("%s: samples have single numbers or a shape that broadcasts: %v", name, got)
		}
		if slices.Contains(places, name) && !slices.ContainsFunc(cases, repeating) {
			t.Errorf("%s: no sample has a place twice", name)
		}
		for side := range 2 {
			smaller := func(c Case) bool { return len(c.In) > 1 && !c.Node.Inputs[side].Shape.Equal(c.Node.Outputs[0].Shape) }
			if slices.Contains(sides, name) && !slices.ContainsFunc(cases, smaller) {
				t.Errorf("%s: no sample broadcasts input %d", name, side)
			}
		}
	}
}

// empty: a float input or an output has no elements.
func empty(c Case) bool {
	return slices.ContainsFunc(c.In, func(x *graph.Tensor) bool { return x != nil && x.Type.IsFloat() && x.Len() == 0 }) ||
		slices.ContainsFunc(c.Node.Outputs, func(v *graph.Value) bool { return v != nil && v.Shape.Elems().Is(0) })
}

// small: a float input or an output is a scalar, or float inputs have different
// shapes.
func small(c Case) bool {
	var first *graph.Tensor
	for _, x := range c.In {
		switch {
		case x == nil || !x.Type.IsFloat():
		case len(x.Shape) == 0 || first != nil && !slices.Equal(x.Shape, first.Shape):
			return true
		default:
			first = x
		}
	}
	return slices.ContainsFunc(c.Node.Outputs, func(v *graph.Value) bool { return v != nil && v.Rank() == 0 })
}

// repeating: among the integers that are drawn some are equal; whole tuples if a
// place is one.
func repeating(c Case) bool {
	inputs, _, _ := strings.Cut(c.Text, ";")
	inputs, _, _ = strings.Cut(inputs, "->")
	for i, f := range splitTop(inputs) {
		x := c.In[i]
		if x == nil || x.Type.IsFloat() || len(x.Shape) == 0 {
			continue
		}
		if !strings.Contains(f, "]<") && !strings.HasSuffix(c.Node.Op.Name, "ND") {
			continue
		}
		width := 1
		if strings.HasSuffix(c.Node.Op.Name, "ND") {
			width = max(1, x.Shape[len(x.Shape)-1])
		}
		seen := map[string]bool{}
		for k := 0; k < x.Len(); k += width {
			place := ""
			for j := range width {
				place += fmt.Sprint(x.Int(k+j), " ")
			}
			if seen[place] {
				return true
			}
			seen[place] = true
		}
	}
	return false
}

package kernels

import (
	"fmt"
	"slices"
	"testing"

	"memopt/internal/graph"
)

// TestGradientSamples: the gradient of each differentiable operator is compared,
// beside plain shapes, on no elements at all, on single numbers or shapes that
// broadcast (on either side), and where it looks up, on a place that is there
// twice.
func TestGradientSamples(t *testing.T) {
	looking, spreading := 0, 0
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
		if got, needed := slices.ContainsFunc(cases, small), !op.Tests.NoScalars; got != needed {
			t.Errorf("%s: samples have single numbers or a shape that broadcasts: %v", name, got)
		}
		if op.Tests.Places != graph.NoPlaces {
			if looking++; !slices.ContainsFunc(cases, repeating) {
				t.Errorf("%s: no sample has a place twice", name)
			}
		}
		if !broadcasts(op) {
			continue
		}
		spreading++
		for side := range 2 {
			smaller := func(c Case) bool { return len(c.In) > 1 && !c.Node.Inputs[side].Shape.Equal(c.Node.Outputs[0].Shape) }
			if !slices.ContainsFunc(cases, smaller) {
				t.Errorf("%s: no sample broadcasts input %d", name, side)
			}
		}
	}
	if looking < 9 || spreading < 10 {
		t.Errorf("%d operators look up and %d broadcast; there are more", looking, spreading)
	}
}

// broadcasts reports whether either of two inputs may have the smaller shape.
func broadcasts(op *graph.Op) bool {
	for _, text := range []string{"f64[3], f64[2,3]", "f64[2,3], f64[3]"} {
		c, err := newCase(op, text, nil)
		if err != nil || !c.Node.Outputs[0].Shape.Equal(graph.Shape{graph.Num(2), graph.Num(3)}) {
			return false
		}
	}
	return true
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

// repeating: a place is there twice.
func repeating(c Case) bool {
	x := c.In[1]
	width := 1
	if c.Node.Op.Tests.Places == graph.PlaceTuples {
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
	return false
}

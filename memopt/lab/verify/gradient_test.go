package verify

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
)

const (
	noGradientFile = "testdata/nogradient.txt"
	leastGradients = 507 // of single nodes of core types
)

// TestGradients differentiates every case that passes and has a float input and
// a float first output, in float64, and compares with finite differences.
// Elements on a kink, where the slopes to both sides differ or are not finite,
// are passed over; cases in which nothing can be compared are listed with the
// reason.
func TestGradients(t *testing.T) {
	cases, closer, err := OpenZip(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	dirs, err := Find(cases)
	if err != nil {
		t.Fatal(err)
	}
	failing, listed := readList(t, expectedFile), readList(t, noGradientFile)
	var list strings.Builder
	fmt.Fprintf(&list, "# The cases of %s with floats in and out\n# of which no gradient is compared, with the reason.\n", casesFile)
	total, compared, single, sum := 0, 0, 0, differences{}
	for _, dir := range dirs {
		if failing[dir] != "" && failing[dir] != looseReason && failing[dir] != noiseReason {
			continue
		}
		c, err := Open(cases, dir)
		if err != nil {
			t.Fatal(err)
		}
		g, _, err := c.Read(c.Sets[0])
		if err != nil {
			t.Fatal(err)
		}
		isFloat := func(v *graph.Value) bool { return v.Type.IsFloat() }
		if !isFloat(g.Outputs[0]) || !slices.ContainsFunc(g.Inputs, isFloat) {
			continue
		}
		total++
		d, err := differentiate(g, c.Sets[0])
		for _, w := range d.wrong {
			t.Errorf("%s: %s", dir, w)
		}
		why := ""
		switch {
		case err != nil:
			why = err.Error()
		case len(d.wrong) > 0:
		case d.elements == 0 && d.kinks > 0:
			why = "every element is on a kink"
		case d.elements == 0:
			why = "no input has an element"
		}
		if why != "" {
			fmt.Fprintf(&list, "%s  %s\n", dir, why)
		} else {
			compared++
			if parts[0].in(Result{Case: dir, Op: c.op(), Ops: c.Outline.Ops, Types: c.types()}) {
				single++
			}
		}
		if was := listed[dir]; was != why && !golden.Updating() {
			t.Errorf("%s: %q, but listed as %q", dir, why, was)
		}
		delete(listed, dir)
		sum.elements += d.elements
		sum.kinks += d.kinks
	}
	t.Logf("gradients: %d of %d cases, of them %d single nodes of core types; %d elements, and %d on kinks", compared, total, single, sum.elements, sum.kinks)
	if single < leastGradients {
		t.Errorf("gradients of %d single nodes of core types; %d should be compared", single, leastGradients)
	}
	if golden.Updating() {
		if err := os.WriteFile(noGradientFile, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, dir := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("%s is listed, but has no gradient to compare", dir)
	}
}

// differences is what was compared.
type differences struct {
	elements, kinks int
	wrong           []string
}

// differentiate compares the gradients of a sum of the float outputs, each
// element with a weight of its own; numbers that are not finite are left out.
func differentiate(g *graph.Graph, s Set) (d differences, err error) {
	dims, err := s.dims(g)
	if err != nil {
		return d, err
	}
	binding, err := graph.Bind(dims)
	if err != nil {
		return d, err
	}
	wide, given, err := widen(g, s.Inputs)
	if err != nil {
		return d, err
	}
	run := func(g *graph.Graph) (values []*graph.Tensor) {
		if e := graph.Try(func() { values, err = kernels.Interpret(g, binding, given) }); e != nil {
			err = e
		}
		return values
	}
	forward := wide.Clone()
	here := run(forward)
	if err != nil {
		return d, err
	}
	weights, err := addLoss(wide, here)
	if err != nil {
		return d, err
	}
	var names []string
	for _, v := range wide.Values {
		if v.Kind == graph.Param {
			names = append(names, v.Name)
		}
	}
	step, err := autograd.TrainStep(wide, autograd.Options{Loss: wide.Loss.Name, Trainable: names, KeepGrads: true})
	if err != nil {
		return d, err
	}
	values := run(step)
	finite := true
	for i, x := range here {
		for k := 0; forward.Values[i].Type.IsFloat() && k < x.Len(); k++ {
			finite = finite && !math.IsInf(x.Float(k), 0) && !math.IsNaN(x.Float(k))
		}
	}
	for _, v := range forward.Outputs {
		if v.Kind != graph.Computed {
			here[v.ID] = clone(here[v.ID]) // it is what is about to be changed
		}
	}
	// slope is the change of the sum, and what rounding can do to it: element
	// by element, so that large ones do not swallow others.
	slope := func(h float64) (sum, noise float64) {
		there := run(forward)
		for i, v := range forward.Outputs {
			w, a, b := weights[i], here[v.ID], there[v.ID]
			for k := 0; err == nil && w != nil && k < w.Len(); k++ {
				if f := w.Float(k); f != 0 {
					sum += f * (b.Float(k) - a.Float(k)) / h
					noise += math.Abs(f*a.Float(k)/h) * 0x1p-52
				}
			}
		}
		return sum, noise
	}
	for _, pair := range step.Grads {
		x, dx := given[pair.Param.Name], values[pair.Grad.ID]
		if x.Len() == 0 {
			d.elements++ // the shape is what there is to compare
		}
		for k := 0; k < x.Len(); k += stride(forward, x.Len()) {
			at := x.Float(k)
			h := 1e-5 * max(1, math.Abs(at)/1e4)
			x.SetFloat(k, at+h)
			up, noise := slope(h)
			x.SetFloat(k, at-h)
			down, _ := slope(-h)
			// Over a place where the function is not continuous, the slope grows
			// as the step falls.
			x.SetFloat(k, at+h/2)
			half, _ := slope(h / 2)
			jumps := math.Abs(half) > 1.5*math.Abs(up)+1
			x.SetFloat(k, at)
			if err != nil {
				return d, err
			}
			want, got := (up+down)/2, dx.Float(k)
			switch {
			case !(math.Abs(up-down) <= 1e-2*(1+math.Abs(want))) || noise > 1e-5*(1+math.Abs(want)) || jumps || math.IsNaN(got) && !finite:
				d.kinks++
			case !(math.Abs(got-want) <= 1e-5*(1+math.Abs(want))):
				d.wrong = append(d.wrong, fmt.Sprintf("gradient of %s, element %d is %v, not %v", pair.Param.Name, k, got, want))
				return d, nil
			default:
				d.elements++
			}
		}
	}
	return d, nil
}

// addLoss adds the sum with weights, which are 0 where an output is not finite.
func addLoss(g *graph.Graph, values []*graph.Tensor) (weights []*graph.Tensor, err error) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := graph.NewBuilder(g)
	err = graph.Try(func() {
		loss := b.Num(graph.Float64, 0)
		for _, v := range g.Outputs {
			if !v.Type.IsFloat() {
				weights = append(weights, nil)
				continue
			}
			y := values[v.ID]
			w, finite := graph.NewTensor(graph.Float64, y.Shape...), graph.NewTensor(graph.Bool, y.Shape...)
			for k := range w.Len() {
				if f := y.Float(k); !math.IsInf(f, 0) && !math.IsNaN(f) {
					w.SetFloat(k, rng.NormFloat64())
					finite.SetInt(k, 1)
				}
			}
			weights = append(weights, w)
			constant := func(x *graph.Tensor) *graph.Value {
				c, err := b.Const(b.Fresh("weights"), x)
				if err != nil {
					panic(err)
				}
				return c
			}
			y0 := b.Op("Where", nil, constant(finite), v, b.Num(graph.Float64, 0))
			loss = b.Op("Add", nil, loss, b.Op("ReduceSum", graph.A{"keepdims": 0}, b.Op("Mul", nil, y0, constant(w))))
		}
		g.Loss = loss
		g.Outputs = append(g.Outputs, loss)
	})
	return weights, err
}

// stride passes over elements of large inputs of dear graphs. It is odd, so
// that all places of an even shape come up.
func stride(g *graph.Graph, n int) int {
	flops := int64(1000)
	for _, node := range g.Nodes {
		f, ok := node.Op.Flops(node).Const()
		if ok {
			flops += f
		}
	}
	most := int(min(max(500_000/flops, 4), 24))
	return n/most | 1
}

// widen rebuilds a graph in float64, with its float inputs as parameters.
func widen(g *graph.Graph, in map[string]*graph.Tensor) (*graph.Graph, map[string]*graph.Tensor, error) {
	wide := graph.New(g.Lib, g.Name)
	b := graph.NewBuilder(wide)
	given := map[string]*graph.Tensor{}
	to := make([]*graph.Value, len(g.Values))
	for _, v := range g.Values {
		if v.Kind == graph.Computed {
			continue
		}
		kind, t, x := v.Kind, v.Type, in[v.Name]
		if v.Kind != graph.Input && v.Data != nil {
			bytes, err := v.Data.Bytes()
			if err != nil {
				return nil, nil, err
			}
			x = &graph.Tensor{Type: v.Type, Bytes: bytes}
			for _, d := range v.Shape {
				n, _ := d.Const()
				x.Shape = append(x.Shape, int(n))
			}
		}
		if t.IsFloat() {
			x, t = float64s(x), graph.Float64
			if kind == graph.Input {
				kind = graph.Param
			}
		}
		w, err := b.Define(kind, v.Name, t, v.Shape)
		if err != nil {
			return nil, nil, err
		}
		w.Ints = v.Ints
		if x != nil {
			given[v.Name] = x
			if kind != graph.Input {
				w.Data = graph.Bytes(x.Bytes)
			}
		}
		to[v.ID] = w
	}
	for _, n := range g.Nodes {
		ins := make([]*graph.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				ins[i] = to[v.ID]
			}
		}
		outs := make([]string, len(n.Outputs))
		for i, v := range n.Outputs {
			if v != nil {
				outs[i] = v.Name
			}
		}
		made, err := b.Node(n.Op, n.Name, wideAttrs(n), ins, outs)
		if err != nil {
			return nil, nil, err
		}
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			to[v.ID] = made[i]
			// What makes float32 by default is followed by a cast.
			if t := made[i].Type; t.IsFloat() && t != graph.Float64 {
				if err := graph.Try(func() { to[v.ID] = b.Op("Cast", graph.A{"to": int64(graph.Float64)}, made[i]) }); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	for _, v := range g.Outputs {
		wide.Outputs = append(wide.Outputs, to[v.ID])
	}
	return wide, given, wide.Check()
}

// wideAttrs are a node's attributes with element types and tensors of floats as
// those of float64.
func wideAttrs(n *graph.Node) []graph.Attr {
	attrs := slices.Clone(n.Attrs)
	for _, spec := range n.Op.AttrSpecs() {
		if spec.Name == "stash_type" && !n.Has(spec.Name) {
			attrs = append(attrs, graph.Attr{Name: spec.Name, Value: spec.Default})
			slices.SortFunc(attrs, func(a, b graph.Attr) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	for i, a := range attrs {
		switch x := a.Value.(type) {
		case int64:
			if slices.Contains([]string{"to", "dtype", "stash_type", "softmax_precision"}, a.Name) && x > 0 && graph.DType(x).IsFloat() {
				attrs[i].Value = int64(graph.Float64)
			}
		case *graph.Tensor:
			if x.Type.IsFloat() {
				attrs[i].Value = float64s(x)
			}
		}
	}
	return attrs
}

func float64s(x *graph.Tensor) *graph.Tensor {
	y := graph.NewTensor(graph.Float64, x.Shape...)
	for i := range x.Len() {
		y.SetFloat(i, x.Float(i))
	}
	return y
}

func clone(x *graph.Tensor) *graph.Tensor {
	y := graph.NewTensor(x.Type, x.Shape...)
	copy(y.Bytes, x.Bytes)
	return y
}

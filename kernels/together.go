package kernels

import (
	"reflect"
	"slices"

	"memopt/internal/graph"
)

// Loops are unrolled while a file is read, and the results of their iterations are stacked.
// Where all iterations compute them in the same way, Stack batches them into one node: sums
// over the rows of each bag become one SegmentReduce over all bags.

// Stack, Element and Branch are only built while a file is read.
var _ = define(graph.Op{
	Name:   "Stack",
	Domain: own,
	Doc:    "stacks values of one shape along a new axis, computing them in one batch where possible; none=1 stacks none of them",
	In:     "inputs...",
	Out:    "stacked",
	Attrs:  "axis int=0, none int=0",
	Role:   graph.RoleStack,
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		wantTensors(n)
		if len(n.Inputs) == 0 {
			n.Fail("no inputs")
		}
		sameTypes(n)
		axis := axisOf(n, n.Int("axis"), n.Inputs[0].Rank()+1)
		if n.Int("none") != 0 {
			shape := slices.Insert(slices.Clone(n.Inputs[0].Shape), axis, graph.Num(0))
			return []*graph.Value{b.Op("ConstantOfShape", graph.A{"value": graph.NewTensor(n.Inputs[0].Type, 1)}, b.Ints(shape...))}
		}
		parts := make([]*graph.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v.Rank() != n.Inputs[0].Rank() {
				n.Fail("input %d is %s, but input 0 is %s", i, v.Shape, n.Inputs[0].Shape)
			}
			parts[i] = b.Op("Unsqueeze", nil, v, b.Ints(graph.Num(int64(axis))))
		}
		if axis > 0 {
			return []*graph.Value{b.Op("Concat", graph.A{"axis": axis}, parts...)}
		}
		return []*graph.Value{together(b, parts)}
	},
	Samples: []string{"f32[2,3], f32[2,3]", "f32[2,3]; axis=1 none=1"},
})

var _ = define(graph.Op{
	Name:   "Element",
	Domain: own,
	Doc:    "the slice at an index along an axis; negative indices count from the end",
	In:     "data, place",
	Out:    "element",
	Attrs:  "axis int=0",
	Role:   graph.RoleElement,
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		wantTensors(n)
		return []*graph.Value{b.Op("Gather", graph.A{"axis": n.Int("axis")}, n.Inputs[0], n.Inputs[1])}
	},
	Samples: []string{"f32[2,3], i64[]{1}; axis=1"},
})

var _ = define(graph.Op{
	Name:   "Branch",
	Domain: own,
	Doc:    "X if the condition holds, else Y; both are computed",
	In:     "condition, X, Y",
	Out:    "output",
	Role:   graph.RoleBranch,
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		wantTensors(n)
		cond, x, y := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		if x == y {
			return []*graph.Value{x}
		}
		if x.Type != y.Type || x.Rank() != y.Rank() {
			n.Fail("the branches give %s%s and %s%s: where the condition is only known when the step runs, types and shapes must agree",
				x.Type, x.Shape, y.Type, y.Shape)
		}
		for i, d := range x.Shape {
			n.Same(d, y.Shape[i], "shapes of the branches")
		}
		n.Same(cond.Shape.Elems(), graph.Num(1), "the condition of a branch must have one element")
		return []*graph.Value{b.Op("Where", nil, reshape(b, cond, graph.Shape{}), x, y)}
	},
	Samples: []string{"bool[1], f32[2,3], f32[2,3]"},
})

// wantTensors refuses sequences and ragged values.
func wantTensors(n *graph.Node) {
	for i, v := range n.Inputs {
		if v != nil && (v.Kind == graph.Sequence || v.Kind == graph.Ragged) {
			n.Fail("input %d is %s", i, map[graph.Kind]string{
				graph.Sequence: "a sequence", graph.Ragged: "rows whose number is only known when the step runs"}[v.Kind])
		}
	}
}

// together concatenates parts along dim 0, and batches runs of them that are computed alike.
func together(b *graph.Builder, parts []*graph.Value) *graph.Value {
	if len(parts) == 1 {
		return parts[0]
	}
	parts = slices.Clone(parts)
	for i, v := range parts {
		parts[i] = viewed(v)
	}
	var runs []*graph.Value
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && madeAlike(parts[0], parts[n]) {
			n++
		}
		if one := merged(b, parts[:n]); one != nil {
			runs = append(runs, one)
		} else {
			runs = append(runs, parts[:n]...)
		}
		parts = parts[n:]
	}
	if len(runs) == 1 {
		return runs[0]
	}
	return b.Op("Concat", graph.A{"axis": 0}, runs...)
}

// viewed is the earliest value of the same shape that v is a view of, or v.
func viewed(v *graph.Value) *graph.Value {
	for u := v; u.Def != nil && u.Def.Op.View; {
		if u = u.Def.Inputs[0]; u.Shape.Equal(v.Shape) {
			v = u
		}
	}
	return v
}

// single is the value that a value of one element is a view of.
func single(v *graph.Value) *graph.Value {
	for v.Def != nil && v.Def.Op.View && v.Shape.Elems().Is(1) {
		v = v.Def.Inputs[0]
	}
	return v
}

// madeAlike reports whether both values are constants, or are computed by the same operator
// with equal attributes.
func madeAlike(v, w *graph.Value) bool {
	if v.Shape.Elems().Is(1) && v.Rank() == 1 && w.Shape.Equal(v.Shape) {
		v, w = single(v), single(w)
	}
	if number(v) || number(w) || v.Def == nil || w.Def == nil {
		return number(v) && number(w) && v.Type == w.Type
	}
	n, m := v.Def, w.Def
	return n.Op == m.Op && len(n.Inputs) == len(m.Inputs) && len(n.Outputs) == 1 && n.Phase == m.Phase &&
		reflect.DeepEqual(n.Attrs, m.Attrs)
}

// number reports whether a value is a known integer.
func number(v *graph.Value) bool {
	if len(v.Ints) != 1 || v.Type.IsFloat() {
		return false
	}
	_, known := v.Ints[0].Const()
	return known
}

// merged computes parts that are made alike as one value; nil if that is not possible. It
// supports operators that treat rows independently.
func merged(b *graph.Builder, parts []*graph.Value) *graph.Value {
	first := parts[0]
	ones := first.Rank() == 1 && first.Shape[0].Is(1)
	if len(parts) == 1 {
		return nil
	}
	if ones {
		// Parts of one element: ignore how they are viewed.
		parts = slices.Clone(parts)
		for i, v := range parts {
			parts[i] = single(v)
		}
		if number(parts[0]) {
			return listOf(b, parts)
		}
		first = parts[0]
	}
	n := first.Def
	if n == nil || !slices.ContainsFunc(parts, func(v *graph.Value) bool { return v != first }) {
		return nil
	}
	column := func(i int) []*graph.Value {
		vs := make([]*graph.Value, len(parts))
		for k, v := range parts {
			vs[k] = v.Def.Inputs[i]
		}
		return vs
	}
	attrs := graph.A{}
	for _, a := range n.Attrs {
		attrs[a.Name] = a.Value
	}
	switch {
	case n.Op.Elementwise:
		in := make([]*graph.Value, len(n.Inputs))
		for i := range in {
			if in[i] = inputTogether(b, column(i), first); in[i] == nil {
				return nil
			}
		}
		return b.Apply(n.Op, attrs, 1, in...)[0]
	case n.Op == segmentOp && oneValue(column(0)):
		return b.Apply(n.Op, attrs, 1, n.Inputs[0], together(b, column(1)), together(b, column(2)))[0]
	case n.Op == gatherOp && n.Int("axis") == 0 && oneValue(column(0)) && (ones && n.Inputs[0].Rank() == 1 || !ones && n.Inputs[1].Rank() > 0):
		places := column(1)
		if ones {
			for i, v := range places {
				places[i] = reshape(b, v, graph.Dims(1))
			}
		}
		return b.Op("Gather", nil, n.Inputs[0], together(b, places))
	case n.Op == sliceOp && oneValue(column(0)) && ones && n.Inputs[0].Rank() == 1:
		// Slices of one element: gather at their starts.
		starts := column(1)
		for _, v := range starts {
			if !number(v) {
				return nil
			}
		}
		return b.Op("Gather", nil, n.Inputs[0], listOf(b, starts))
	}
	return nil
}

// inputTogether combines one input of pointwise parts for all of them; nil if that is not
// possible.
func inputTogether(b *graph.Builder, vs []*graph.Value, y *graph.Value) *graph.Value {
	v := vs[0]
	rank := y.Rank()
	if oneValue(vs) && (v.Rank() < rank || v.Shape.Elems().Is(1) || v.Rank() == rank && v.Shape[0].Is(1)) {
		return v
	}
	if slices.ContainsFunc(vs, func(v *graph.Value) bool { return v.Rank() != vs[0].Rank() }) {
		return nil
	}
	if rank > 0 && v.Rank() == rank && !slices.ContainsFunc(vs, func(v *graph.Value) bool { return !v.Shape[0].Equal(y.Shape[0]) }) {
		return together(b, vs)
	}
	if rank > 0 && !y.Shape[0].Is(1) || slices.ContainsFunc(vs, func(v *graph.Value) bool { return !v.Shape.Elems().Is(1) }) {
		return nil
	}
	// One element for each part.
	for i, v := range vs {
		vs[i] = reshape(b, v, graph.Dims(1))
	}
	all := together(b, vs)
	return reshape(b, all, append(graph.Shape{all.Shape[0]}, slices.Repeat(graph.Dims(1), max(0, rank-1))...))
}

// oneValue reports whether all are the same value.
func oneValue(vs []*graph.Value) bool {
	return !slices.ContainsFunc(vs, func(v *graph.Value) bool { return v != vs[0] })
}

// listOf is a constant list of known integers.
func listOf(b *graph.Builder, vs []*graph.Value) *graph.Value {
	x := graph.NewTensor(vs[0].Type, len(vs))
	for i, v := range vs {
		k, _ := v.Ints[0].Const()
		x.SetInt(i, k)
	}
	c, err := b.Const(b.Fresh("numbers"), x)
	if err != nil {
		panic(err) // a fresh name is not in use
	}
	return c
}

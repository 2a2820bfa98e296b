package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// solve finds the sizes of named dims from the shapes of inputs.
func solve(g *graph.Graph, in map[string]*graph.Tensor) (map[string]int64, error) {
	dims := map[string]int64{}
	note := func(v *graph.Value, name string, n int64) error {
		if was, known := dims[name]; known && was != n {
			return fmt.Errorf("input %q: %s is %d, but %d elsewhere", v.Name, name, n, was)
		}
		dims[name] = n
		return nil
	}
	for _, formulas := range []bool{false, true} { // plain names first: a name in a formula may also stand alone
		for _, v := range g.Inputs {
			x := in[v.Name]
			for i, d := range v.Shape {
				name, coef, off, ok := linear(d)
				if !ok || formulas == (coef == 1 && off == 0) {
					continue
				}
				n := int64(x.Shape[i]) - off
				if _, known := dims[name]; formulas && (known || n%coef != 0) {
					continue // bind checks the formula when all names are known
				}
				if err := note(v, name, n/coef); err != nil {
					return nil, err
				}
			}
		}
	}
	return dims, nil
}

// linear writes a dim as coef × name + off, if possible.
func linear(d graph.Dim) (name string, coef, off int64, ok bool) {
	names := d.Names()
	if len(names) != 1 {
		return "", 0, 0, false
	}
	name = names[0]
	err := graph.Try(func() {
		at := func(n int64) int64 {
			m, is := d.Subst(map[string]graph.Dim{name: graph.Num(n)}).Const()
			ok = is
			return m
		}
		off = at(0)
		coef = at(1) - off
		ok = ok && coef > 0 && d.Equal(graph.Sym(name).Mul(graph.Num(coef)).Add(graph.Num(off)))
	})
	return name, coef, off, ok && err == nil
}

// bind finds the sizes of the graph's dims in a run, and checks the shapes of its inputs.
func bind(g *graph.Graph, in map[string]*graph.Tensor) (map[string]int64, error) {
	dims, err := solve(g, in)
	if err != nil {
		return nil, err
	}
	b, err := graph.Bind(dims)
	if err != nil {
		return nil, err
	}
	for _, v := range g.Inputs {
		shape, err := b.Shape(v.Shape)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		if x := in[v.Name]; !slices.Equal(shape, x.Shape) {
			return nil, fmt.Errorf("input %q is %s%v, but the model takes %s%s", v.Name, x.Type, x.Shape, v.Type, v.Shape)
		}
	}
	return dims, nil
}

// keyOf is a key of the shapes of all inputs.
func keyOf(in map[string]*graph.Tensor) string {
	var sb strings.Builder
	for _, name := range slices.Sorted(maps.Keys(in)) {
		fmt.Fprintf(&sb, "%q%v", name, in[name].Shape)
	}
	return sb.String()
}

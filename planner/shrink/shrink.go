// Package shrink stores less of a value between the passes. If the backward pass needs only an
// extract of it, the extract is stored instead of the value, and gradients are exact: the signs of
// an activation, a byte a window for the position of a pool's maximum, bits for a mask of bools.
// Integers of a known small range are stored in a smaller type: positions found by TopK, masks made
// of bools, labels that also pick rows of a table.
//
// [Candidates] finds such values in a training step, and [Apply] rewrites the step to store the
// extracts of some: a graph like any other, which computes the same bits. Operators say what is
// possible in their Shrink, Whole and Index facets; no operator is named here. [Keys] groups
// candidates into rows of a plan table.
//
// [Lossy] finds values that can be stored in a smaller float type. The forward pass stays the same,
// but gradients do not, so this happens only on request. With 8 bits, 32 consecutive elements share
// a power of two, the least under which the largest of them is a float8e4m3fn. [Merge] merges exact
// and lossy candidates, [Cheapest] says which to round first.
package shrink

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// Candidate is a value of the forward pass that can be stored smaller.
type Candidate struct {
	// ID names the operator that computes the value, as IDs of clusters do: Relu+.
	ID    string
	Value *graph.Value
	// Readers are all nodes of the backward pass that read the value, and will read an extract.
	Readers []*graph.Node
	// As is the element type in which the value itself is stored; 0: extracts are stored. Lossy:
	// the type does not hold all its elements exactly.
	As    graph.DType
	Lossy bool
	// How describes what is stored, and why that suffices.
	How string
	// Before and After are the bytes stored for the backward pass: the value, and all its extracts.
	Before, After graph.Dim

	storage []*graph.Value // with As: the value and its views in the forward pass
	last    *graph.Node    // the last node of the forward pass that reads it
}

// Key is the candidates of one ID, a row of a plan table.
type Key struct {
	ID      string
	Members []int // indices of candidates
}

// Keys groups candidates by ID, in the order of each ID's first candidate.
func Keys(found []Candidate) (keys []Key) {
	for i, c := range found {
		k := slices.IndexFunc(keys, func(k Key) bool { return k.ID == c.ID })
		if k < 0 {
			k, keys = len(keys), append(keys, Key{ID: c.ID})
		}
		keys[k].Members = append(keys[k].Members, i)
	}
	return keys
}

// Candidates lists the values of a training step that can be stored smaller, in the order in which
// they are computed. It leaves out values that the backward pass needs whole too, or reads under
// another shape, and those that outlive the step.
func Candidates(ctx context.Context, g *graph.Graph) ([]Candidate, error) {
	uses, last := g.Uses(), lasting(g)
	known := newProofs(uses, last)
	var found []Candidate
	for _, n := range g.Nodes {
		stop.Poll(ctx)
		if n.Phase != graph.Forward || n.Op.View {
			continue
		}
		for _, v := range n.Outputs {
			if v == nil || last[v.ID] {
				continue
			}
			if c, ok := known.narrow(v); ok {
				found = append(found, c)
				continue
			}
			readers, ok := extracts(uses, v)
			if !ok || len(readers) == 0 {
				continue
			}
			c := Candidate{ID: n.Op.Name + "+", Value: v, Readers: readers, Before: v.Bytes()}
			if err := c.after(g); err != nil {
				return nil, fmt.Errorf("value %q: %w", v.Name, err)
			}
			if order, known := c.After.Compare(c.Before); !known || order < 0 {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// lasting says, by value, whether it outlives the step.
func lasting(g *graph.Graph) []bool {
	last := make([]bool, len(g.Values))
	for _, v := range g.Outputs {
		last[v.ID] = true
	}
	for _, u := range g.Updates {
		last[u.New.ID] = true
	}
	return last
}

// extracts lists the readers of v in the backward pass, and reports whether an extract suffices for
// each.
func extracts(uses *graph.Uses, v *graph.Value) (readers []*graph.Node, ok bool) {
	for _, n := range uses.Of(v) {
		switch {
		case n.Op.View:
			if readAfter(uses, n.Outputs[0]) {
				return nil, false
			}
		case n.Phase != graph.Forward:
			if _, ok := form(n, v); !ok {
				return nil, false
			}
			if !slices.Contains(readers, n) {
				readers = append(readers, n)
			}
		}
	}
	return readers, true
}

// readAfter reports whether anything but the forward pass reads v or a view of it.
func readAfter(uses *graph.Uses, v *graph.Value) bool {
	return slices.ContainsFunc(uses.Of(v), func(n *graph.Node) bool {
		return n.Phase != graph.Forward || n.Op.View && readAfter(uses, n.Outputs[0])
	})
}

// form is the form in which n reads an extract of v; false if there is none, or n reads v twice.
func form(n *graph.Node, v *graph.Value) (graph.Smaller, bool) {
	if n.Op.Shrink == nil {
		return graph.Smaller{}, false
	}
	for _, s := range n.Op.Shrink(n) {
		at := slices.Index(n.Inputs, v)
		if s.Input == at && !slices.Contains(n.Inputs[at+1:], v) {
			return s, true
		}
	}
	return graph.Smaller{}, false
}

// after fills in After and How by computing the extracts from a graph input of the value's type and
// shape.
func (c *Candidate) after(g *graph.Graph) error {
	b := graph.NewBuilder(graph.New(g.Lib, g.Name))
	x, err := b.Define(graph.Input, c.Value.Name, c.Value.Type, c.Value.Shape)
	if err != nil {
		return err
	}
	c.After = graph.Num(0)
	return graph.Try(func() {
		k := keeper{b: b}
		for _, n := range c.Readers {
			s, _ := form(n, c.Value)
			k.keep(s, x)
		}
		var docs []string
		for _, v := range k.kept {
			c.After = c.After.Add(v.Bytes())
			docs = append(docs, v.Def.Op.Doc)
		}
		c.How = strings.Join(docs, ", ")
	})
}

// keeper makes extracts, and shares equal ones.
type keeper struct {
	b    *graph.Builder
	kept []*graph.Value
}

func (k *keeper) keep(s graph.Smaller, x *graph.Value) *graph.Value {
	before := len(k.b.Graph.Nodes)
	v := s.Keep(k.b, x)
	for _, w := range k.kept {
		if w != v && len(k.b.Graph.Nodes) == before+1 && same(w.Def, v.Def) {
			return w // v has no reader, and is pruned
		}
	}
	k.kept = append(k.kept, v)
	return v
}

// same reports whether two nodes compute the same from the same inputs.
func same(a, b *graph.Node) bool {
	return a.Op == b.Op && slices.Equal(a.Inputs, b.Inputs) && fmt.Sprint(a.Attrs) == fmt.Sprint(b.Attrs)
}

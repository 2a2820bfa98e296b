// Package shrink keeps less of a value between the passes: where all that the
// backward pass reads of it is an extract, exact for what is done with it, the
// extract is kept and the value is not. The signs of an activation stand for
// its numbers in its gradient, a byte for each window says where the greatest
// element of a pool was, bits stand for a mask of bools. Whole numbers that are
// known to be small are kept as such: places that TopK found, masks that were
// made of bools, labels that are token ids too, which pick rows of a table.
//
// [Candidates] finds such values in a training step, and [Apply] gives the step
// that keeps the extracts of some: a graph like any other, which computes the
// same bits. What is possible is said by the operators, in their Shrink, Whole
// and Index facets; no operator is named here. [Keys] puts together what one row of a plan
// table speaks of.
//
// [Lossy] finds values that can be kept in a smaller type of floats. The forward
// pass is the same then, but gradients are not, so nobody gets that unasked. Of
// those in 8 bits, each 32 elements in their order have a power of two in common,
// the least under which the largest of them is a float8e4m3fn. [Merge] makes one
// list of what is exact and what is not, [Cheapest] says which to round first.
package shrink

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"memopt/memopt/graph"
	"memopt/memopt/stop"
)

// Candidate is a value of the forward pass of which less can be kept.
type Candidate struct {
	// ID names what makes the value, as clusters do: Relu+.
	ID    string
	Value *graph.Value
	// Readers are the nodes of the backward pass that will read an extract
	// instead: all that read the value there.
	Readers []*graph.Node
	// As is the element type in which the value itself is kept; 0 if extracts are.
	// Lossy says that it does not hold all its numbers.
	As    graph.DType
	Lossy bool
	// How says in words what is kept, and why that will do.
	How string
	// Before and After are the bytes kept for the backward pass: of the value,
	// and of all its extracts.
	Before, After graph.Dim

	storage []*graph.Value // the value and its views in the forward pass, if As is set
	last    *graph.Node    // of the forward pass that reads it
}

// Key is all candidates of one ID, as a row of a plan table.
type Key struct {
	ID      string
	Members []int // of the candidates
}

// Keys groups candidates by ID, the first of each in their order.
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

// Candidates lists the values of a training step that can be kept in less, in
// the order in which they are made. It leaves out those that the backward pass
// reads in other ways too, or under another shape, and those that outlive the
// step.
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

// lasting is, by value, whether it outlives the step.
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

// extracts are the readers of v in the backward pass, if an extract will do for
// each of them.
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

// readAfter is whether anything but the forward pass reads v or a view of it.
func readAfter(uses *graph.Uses, v *graph.Value) bool {
	return slices.ContainsFunc(uses.Of(v), func(n *graph.Node) bool {
		return n.Phase != graph.Forward || n.Op.View && readAfter(uses, n.Outputs[0])
	})
}

// form is how n reads less than v, if it reads v in one place only.
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

// after finds the bytes of the extracts of c, and what they are, by making them of
// an input.
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

// keeper makes extracts, equal ones once.
type keeper struct {
	b    *graph.Builder
	kept []*graph.Value
}

func (k *keeper) keep(s graph.Smaller, x *graph.Value) *graph.Value {
	before := len(k.b.Graph.Nodes)
	v := s.Keep(k.b, x)
	for _, w := range k.kept {
		if w != v && len(k.b.Graph.Nodes) == before+1 && same(w.Def, v.Def) {
			return w // the other has no reader, and is pruned
		}
	}
	k.kept = append(k.kept, v)
	return v
}

// same is whether two nodes compute the same from the same.
func same(a, b *graph.Node) bool {
	return a.Op == b.Op && slices.Equal(a.Inputs, b.Inputs) && fmt.Sprint(a.Attrs) == fmt.Sprint(b.Attrs)
}

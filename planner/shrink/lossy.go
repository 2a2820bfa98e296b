package shrink

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/memopt/graph"
)

// common is the size that named dims are taken to have when the question is
// whether a value is worth rounding: a step must not depend on what it is fed.
const common = 32

// block is how many elements in 8 bits have a power of two in common.
const block = 32

// least is how many elements a value worth rounding has.
const least = 1024

// Lossy lists the values of a training step that can be kept in a smaller type
// of floats, in the order in which they are made. What is computed from them is
// then no longer the same: it is the caller who has to ask for it. Losses and
// other results are left out, and so are numbers made of integers or bools,
// statistics beside a result, and whatever is small.
func Lossy(g *graph.Graph, to graph.DType) []Candidate {
	uses, last := g.Uses(), lasting(g)
	var found []Candidate
	for _, n := range g.Nodes {
		if n.Phase != graph.Forward || n.Op.View || n.Op.Overwrites != nil || len(n.Outputs) == 0 {
			continue
		}
		v := n.Outputs[0]
		if v == nil || !v.Type.IsFloat() || v.Type.Size() <= to.Size() || ofIntegers(n) || !large(v) {
			continue
		}
		c := Candidate{ID: n.Op.Name + "+", Value: v, As: to, Lossy: true, How: "rounded to " + to.String(), Before: v.Bytes(), After: v.Shape.Elems().Mul(graph.Num(to.Size()))}
		if to.IsFloat8() {
			c.How += fmt.Sprintf(", each %d under a power of two", block)
			c.After = c.After.Add(v.Shape.Elems().CeilDiv(graph.Num(block)))
		}
		if c.casts(uses, last) && len(c.Readers) > 0 {
			found = append(found, c)
		}
	}
	return found
}

// ofIntegers is whether all that a node reads is integers and bools: masks and
// one-hot rows are made so.
func ofIntegers(n *graph.Node) bool {
	return !slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool { return v != nil && v.Type.IsFloat() && v.Kind != graph.Const })
}

func large(v *graph.Value) bool {
	n, known := usual(v.Shape.Elems())
	return !known || n >= least
}

// usual is what a formula comes to where dims are of the common size.
func usual(d graph.Dim) (n int64, known bool) {
	sizes := map[string]graph.Dim{}
	for _, name := range d.Names() {
		sizes[name] = graph.Num(common)
	}
	return d.Subst(sizes).Const()
}

// Merge makes one list of what two lists have of one step, in the order in which
// values are made. A value that the first has is not taken from the second.
func Merge(exact, lossy []Candidate) []Candidate {
	had := map[*graph.Value]bool{}
	for _, c := range exact {
		had[c.Value] = true
	}
	all := slices.Clone(exact)
	for _, c := range lossy {
		if !had[c.Value] {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Value.Def.ID, b.Value.Def.ID) })
	return all
}

// Cheapest lists the lossy candidates of found, by place, in the order in which
// to round them where not all have to be: first what is dear to compute again,
// which is what a plan would do instead, then what saves the most for what the
// copies move, then what is large.
func Cheapest(found []Candidate) []int {
	var order []int
	yield, size := make([]float64, len(found)), make([]int64, len(found))
	for i, c := range found {
		if !c.Lossy {
			continue
		}
		order = append(order, i)
		before, _ := usual(c.Before)
		after, _ := usual(c.After)
		size[i] = before - after
		yield[i] = float64(before-after) / float64(int64(1+len(c.Readers))*(before+after))
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(found[a].Value.Def.Op.Recompute, found[b].Value.Def.Op.Recompute),
			cmp.Compare(yield[b], yield[a]), cmp.Compare(size[b], size[a]))
	})
	return order
}

// casts finds who reads c's value: nodes of the backward pass, the value or a
// view of it, and the last node of the forward pass. It is false where the
// value outlives the step.
func (c *Candidate) casts(uses *graph.Uses, last []bool) bool {
	c.last = c.Value.Def
	work := []*graph.Value{c.Value}
	for len(work) > 0 {
		v := work[0]
		work = work[1:]
		if last[v.ID] {
			return false
		}
		c.storage = append(c.storage, v)
		for _, n := range uses.Of(v) {
			if n.Phase != graph.Forward {
				if !slices.Contains(c.Readers, n) {
					c.Readers = append(c.Readers, n)
				}
				continue
			}
			if n.ID > c.last.ID {
				c.last = n
			}
			if n.Op.View && n.Inputs[0] == v {
				work = append(work, n.Outputs[0])
			}
		}
	}
	return true
}

// rounded is a value that is kept in another type, and what is kept.
type rounded struct {
	c    *Candidate
	kept []*graph.Value
}

// pack makes what is kept of x in a smaller type, unpack x of that.
func pack(b *graph.Builder, x *graph.Value, as graph.DType) []*graph.Value {
	if as.IsFloat8() {
		return b.Apply(b.Graph.Lib.Role(graph.RolePackFloat8), nil, 2, x)
	}
	return b.Apply(b.Graph.Lib.Role(graph.RoleCast), graph.A{"to": int(as)}, 1, x)
}

func unpack(b *graph.Builder, kept []*graph.Value, to graph.DType) *graph.Value {
	role := graph.RoleCast
	if kept[0].Type.IsFloat8() {
		role = graph.RoleUnpackFloat8
	}
	return b.Apply(b.Graph.Lib.Role(role), graph.A{"to": int(to)}, 1, kept...)[0]
}

// round says where a candidate's copy is made: after the last node of
// the forward pass that reads the value, or before it if that may be written
// over the value then.
func (r *rewriter) round(c *Candidate) {
	code := &rounded{c: c}
	for _, v := range c.storage {
		r.rounded[v.ID] = code
	}
	over := slices.ContainsFunc(c.last.Op.InPlace, func(i int) bool {
		return i < len(c.last.Inputs) && slices.Contains(c.storage, c.last.Inputs[i])
	})
	if over {
		r.before[c.last] = append(r.before[c.last], code)
	} else {
		r.after[c.last] = append(r.after[c.last], code)
	}
}

func (r *rewriter) encode(codes []*rounded) {
	for _, code := range codes {
		r.b.Scope = r.scope + "/" + code.c.Value.Name
		code.kept = pack(r.b, r.now[code.c.Value.ID], code.c.As)
	}
	r.b.Scope = ""
}

// decode is what a node of the backward pass reads for a rounded value or a
// view of it: the numbers that are left, under the same shape.
func (r *rewriter) decode(v *graph.Value, reader *graph.Node) *graph.Value {
	code := r.rounded[v.ID]
	r.b.Scope = r.scope + "/" + reader.Name
	x := unpack(r.b, code.kept, v.Type)
	var views []*graph.Node
	for w := v; w != code.c.Value; w = w.Def.Inputs[0] {
		views = append(views, w.Def)
	}
	for _, n := range slices.Backward(views) {
		in := make([]*graph.Value, len(n.Inputs))
		for i, w := range n.Inputs {
			if w != nil {
				in[i] = r.now[w.ID]
			}
		}
		in[0] = x
		made, err := r.b.Node(n.Op, "", slices.Clone(n.Attrs), in, []string{""})
		if err != nil {
			panic(err) // it was valid under the value itself
		}
		x = made[0]
	}
	r.b.Scope = ""
	return x
}

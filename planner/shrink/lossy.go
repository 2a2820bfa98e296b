package shrink

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// common is the size assumed for named dims when deciding whether a value is worth rounding: the
// step must not depend on the sizes it is run with.
const common = 32

// block is the number of 8-bit elements that share a power of two.
const block = 32

// least is the number of elements from which on a value is worth rounding.
const least = 1024

// Lossy lists the values of a training step that can be stored in a smaller float type, in the
// order in which they are computed. Gradients are then no longer exact, so only a user may ask for
// it. It leaves out losses and other results, values computed from integers or bools alone, second
// outputs (statistics), and small values.
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

// ofIntegers reports whether a node reads no floats but constants: masks and one-hot rows are made
// so.
func ofIntegers(n *graph.Node) bool {
	return !slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool { return v != nil && v.Type.IsFloat() && v.Kind != graph.Const })
}

func large(v *graph.Value) bool {
	n, known := usual(v.Shape.Elems())
	return !known || n >= least
}

// usual evaluates a formula at the common size of dims.
func usual(d graph.Dim) (n int64, known bool) {
	sizes := map[string]graph.Dim{}
	for _, name := range d.Names() {
		sizes[name] = graph.Num(common)
	}
	return d.Subst(sizes).Const()
}

// Merge merges two lists of candidates of one step, in the order in which the values are computed.
// Where both have a value, the first list's candidate stays.
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

// Cheapest lists the lossy candidates in found, by index, in the order in which to round them if
// not all have to be: first values that are expensive to recompute, which is the alternative; then
// those that save most per byte that the copies move; then large ones.
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

// casts finds the nodes of the backward pass that read c's value or a view of it, and the last node
// of the forward pass that does. It is false if the value outlives the step.
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

// rounded is a candidate that is stored in another type, and the stored values.
type rounded struct {
	c    *Candidate
	kept []*graph.Value
}

// pack converts x to the stored type, unpack converts it back.
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

// round schedules a candidate's copy: after the last node of the forward pass that reads the value,
// or before that node if it may overwrite the value.
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

// decode is the input that replaces v, a rounded value or a view of one, for a node of the backward
// pass: converted back, with the same views applied.
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
			panic(err) // the same view of the value was valid
		}
		x = made[0]
	}
	r.b.Scope = ""
	return x
}

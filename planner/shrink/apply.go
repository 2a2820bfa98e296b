package shrink

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Apply rewrites the step g so that backward reads the extracts of the chosen candidates instead of
// their values. Nodes keep their names and order; an extract is computed right after its value, and
// a node that reads it takes the place of the one that read the value. A value stored in another
// type is converted back right before each reader.
func Apply(ctx context.Context, g *graph.Graph, chosen []Candidate) (*graph.Graph, error) {
	r := &rewriter{b: graph.NewBuilder(graph.New(g.Lib, g.Name)), now: make([]*graph.Value, len(g.Values)), by: map[*graph.Node]extract{},
		rounded: make([]*rounded, len(g.Values)), before: map[*graph.Node][]*rounded{}, after: map[*graph.Node][]*rounded{}, scope: "keep"}
	for slices.ContainsFunc(g.Values, func(v *graph.Value) bool { return strings.HasPrefix(v.Name, r.scope+"/") }) {
		r.scope += "_" // taken by an earlier Apply
	}
	r.b.Context = ctx
	of := make([]*Candidate, len(g.Values)) // by value
	for i := range chosen {
		v := chosen[i].Value
		if int(v.ID) >= len(g.Values) || g.Values[v.ID] != v {
			return nil, fmt.Errorf("value %q is of another graph", v.Name)
		}
		if chosen[i].As != 0 {
			r.round(&chosen[i])
			continue
		}
		of[v.ID] = &chosen[i]
	}
	r.b.Graph.Assumed = slices.Clone(g.Assumed)
	r.b.Reserve(len(g.Nodes)+len(chosen), len(g.Values)+len(chosen))
	err := graph.Try(func() {
		for _, v := range g.Values {
			if v.Kind != graph.Computed {
				r.define(v)
			}
		}
		for _, n := range g.Nodes {
			r.b.Phase = n.Phase
			r.encode(r.before[n])
			r.node(n)
			r.encode(r.after[n])
			for _, v := range n.Outputs {
				if v != nil && of[v.ID] != nil {
					r.keep(of[v.ID])
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	to := r.b.Graph
	for _, v := range g.Outputs {
		to.Outputs = append(to.Outputs, r.now[v.ID])
	}
	if g.Loss != nil {
		to.Loss = r.now[g.Loss.ID]
	}
	for _, u := range g.Updates {
		to.Updates = append(to.Updates, graph.Update{State: r.now[u.State.ID], New: r.now[u.New.ID]})
	}
	for _, d := range g.Grads {
		to.Grads = append(to.Grads, graph.Grad{Param: r.now[d.Param.ID], Grad: r.now[d.Grad.ID]})
	}
	to.Prune()
	return to, to.Check()
}

type rewriter struct {
	b   *graph.Builder
	now []*graph.Value // by old value
	by  map[*graph.Node]extract
	// rounded is by old value; views share the entry of their value. before and after say at which
	// nodes the converted copies are made.
	rounded       []*rounded
	before, after map[*graph.Node][]*rounded
	// scope is the prefix of all new names.
	scope string
}

// extract replaces an input of a node: the form that reads it, and the extract.
type extract struct {
	form graph.Smaller
	kept *graph.Value
}

func (r *rewriter) define(v *graph.Value) {
	c, err := r.b.Define(v.Kind, v.Name, v.Type, v.Shape)
	if err != nil {
		panic(err) // names were unique in the old graph
	}
	c.Ints, c.Data = v.Ints, v.Data
	r.now[v.ID] = c
}

func (r *rewriter) keep(c *Candidate) {
	r.b.Scope = r.scope + "/" + c.Value.Name
	defer func() { r.b.Scope = "" }()
	k := keeper{b: r.b}
	for _, n := range c.Readers {
		s, ok := form(n, c.Value)
		if !ok {
			panic(fmt.Sprintf("shrink: node %s has no form that reads an extract of %s", n.Name, c.Value))
		}
		r.by[n] = extract{s, k.keep(s, r.now[c.Value.ID])}
	}
}

func (r *rewriter) node(n *graph.Node) {
	in := make([]*graph.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		switch first := slices.Index(n.Inputs, v); {
		case v == nil:
		case first < i:
			in[i] = in[first]
		case n.Phase != graph.Forward && r.rounded[v.ID] != nil:
			in[i] = r.decode(v, n)
		default:
			in[i] = r.now[v.ID]
		}
	}
	if e, ok := r.by[n]; ok {
		in[e.form.Input] = nil
		r.b.Scope = r.scope + "/" + n.Name
		made := e.form.Read(r.b, in, e.kept)
		r.b.Scope = ""
		for i, v := range n.Outputs {
			if v != nil {
				r.b.Graph.Rename(made[i], v.Name)
				r.now[v.ID] = made[i]
			}
		}
		return
	}
	for i, v := range r.b.Copy(n, in) {
		if v != nil {
			r.now[n.Outputs[i].ID] = v
		}
	}
}

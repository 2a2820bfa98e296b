package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// Rewrite is the program in which the chosen options make again what the
// backward pass reads. Nodes keep their places; copies follow in the order in
// which they are made, each node at most one, under its name and those of its
// outputs with _recompute behind. Later layers go first, so an earlier entry
// finds the copies that read it and feeds them too.
//
// A copy of a node that draws at random draws the same: both get a seed. Under
// Compat it is ONNX Runtime's, a hash of the output's name added to the given
// seed. Otherwise it is what a device of ours draws by without one, so that
// nothing changes for it.
func Rewrite(a *Analysis, choices []Choice, seed int64) *graph.Outline {
	o := a.Outline
	r := &rewriter{a: a, seed: seed, old: len(o.Nodes), readers: map[string][]reader{}, copies: map[string]bool{}}
	r.new = &graph.Outline{Nodes: slices.Clone(o.Nodes), Values: maps.Clone(o.Values), Inputs: o.Inputs, Outputs: o.Outputs}
	if r.new.Values == nil {
		r.new.Values = map[string]graph.OutlineValue{}
	}
	for i := range r.new.Nodes {
		n := &r.new.Nodes[i]
		n.Inputs = slices.Clone(n.Inputs)
		r.note(i)
		for _, name := range n.Outputs {
			if v := a.value(name); v.Known {
				r.new.Values[name] = v
			}
		}
	}
	r.backward = make([]bool, r.old)
	for _, i := range a.Order[a.Yield+1:] {
		r.backward[i] = true
	}
	r.suffix = r.freeSuffix()
	for _, c := range slices.Backward(choices) {
		r.apply(a.Plans[c.Plan].Entry, a.Option(c))
	}
	return r.new
}

type rewriter struct {
	a        *Analysis
	new      *graph.Outline
	old      int // nodes that are no copies
	seed     int64
	backward []bool              // by old node
	readers  map[string][]reader // by value
	copies   map[string]bool     // names of values that copies make
	suffix   string
}

// reader is an input that reads a value.
type reader struct{ node, in int }

func (r *rewriter) note(i int) {
	for k, name := range r.new.Nodes[i].Inputs {
		if name != "" {
			r.readers[name] = append(r.readers[name], reader{i, k})
		}
	}
}

// freeSuffix sets the names of copies apart from all others: the program may
// have been rewritten before. ONNX Runtime takes what is there for its copies.
func (r *rewriter) freeSuffix() string {
	const suffix = "_recompute"
	taken := map[string]bool{}
	for _, name := range r.a.Outline.Inputs {
		taken[name] = true
	}
	for _, n := range r.a.Outline.Nodes {
		for _, name := range n.Outputs {
			taken[name] = true
		}
	}
	if r.a.Rules.Compat != "" {
		r.copies = taken
		return suffix
	}
	clash := func(suffix string) bool {
		for name := range taken {
			if taken[name+suffix] {
				return true
			}
		}
		return false
	}
	free := suffix
	for i := 2; clash(free); i++ {
		free = fmt.Sprintf("%s_%d", suffix, i)
	}
	return free
}

// apply copies an option's nodes and lets the backward pass, and the copies
// that were made before, read what they make of the entry's outputs. What only
// shows these is copied too: whoever read the old view would keep all of it.
func (r *rewriter) apply(entry int, o *Option) {
	for _, i := range o.Nodes {
		r.copyOf(i)
	}
	r.redirect(entry)
	for _, i := range o.Views {
		r.copyOf(i)
		r.redirect(i)
	}
}

// redirect lets all but the forward pass read the copy of a node.
func (r *rewriter) redirect(i int) {
	for _, name := range r.new.Nodes[i].Outputs {
		if name == "" || !r.copies[name+r.suffix] {
			continue
		}
		var stay []reader
		for _, at := range r.readers[name] {
			if at.node < r.old && !r.backward[at.node] {
				stay = append(stay, at)
				continue
			}
			r.new.Nodes[at.node].Inputs[at.in] = name + r.suffix
			r.readers[name+r.suffix] = append(r.readers[name+r.suffix], at)
		}
		r.readers[name] = stay
	}
}

// copyOf makes a node's copy unless it has one.
func (r *rewriter) copyOf(i int) {
	first := slices.IndexFunc(r.new.Nodes[i].Outputs, func(name string) bool { return name != "" })
	if first < 0 || r.copies[r.new.Nodes[i].Outputs[first]+r.suffix] {
		return
	}
	r.fixSeed(&r.new.Nodes[i])
	n := r.new.Nodes[i]
	n.Name, n.Of = n.Name+r.suffix, i
	n.Inputs, n.Outputs = slices.Clone(n.Inputs), slices.Clone(n.Outputs)
	for k, name := range n.Inputs {
		if name != "" && r.copies[name+r.suffix] {
			n.Inputs[k] = name + r.suffix
		}
	}
	for k, name := range n.Outputs {
		if name == "" {
			continue
		}
		n.Outputs[k] = name + r.suffix
		r.copies[n.Outputs[k]] = true
		if v, ok := r.new.Values[name]; ok {
			r.new.Values[n.Outputs[k]] = v
		}
	}
	r.new.Nodes = append(r.new.Nodes, n)
	r.note(len(r.new.Nodes) - 1)
}

// draws are the operators that draw at random by a seed, with the first form
// that has one.
var draws = map[string]int{
	"Dropout":                          12,
	"com.microsoft.BiasDropout":        1,
	"com.microsoft.BiasSoftmaxDropout": 1,
	"com.microsoft.BitmaskBiasDropout": 1,
	"com.microsoft.BitmaskDropout":     1,
}

// fixSeed gives a node that draws at random the seed that its copy is to have
// too.
func (r *rewriter) fixSeed(n *graph.OutlineNode) {
	full := n.Op
	if n.Domain != "" {
		full = n.Domain + "." + n.Op
	}
	since, random := draws[full]
	if !random || n.Since != 0 && n.Since < since || slices.ContainsFunc(n.Attrs, func(a graph.Attr) bool { return a.Name == "seed" }) {
		return
	}
	seed := int64(graph.NameIdentity(n.Name))
	if r.a.Rules.Compat != "" {
		h := uint32(0)
		for _, c := range []byte(n.Outputs[0]) {
			h = h*101 + uint32(c)
		}
		seed = int64(h) + r.seed
	}
	n.Attrs = append(slices.Clone(n.Attrs), graph.Attr{Name: "seed", Value: seed})
	slices.SortFunc(n.Attrs, func(a, b graph.Attr) int { return strings.Compare(a.Name, b.Name) })
}

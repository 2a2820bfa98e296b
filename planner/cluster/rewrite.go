package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Rewrite returns the program in which copies of the chosen options' nodes recompute what the
// backward pass reads. Nodes keep their places; copies are appended in the order in which they are
// made, at most one of each node, under the names of the node and its outputs with _recompute
// appended. Later layers are rewritten first, so that copies that read an earlier entry read its
// copy.
//
// A node that draws random numbers and its copy get the same seed, so that they draw the same.
// Under Compat it is ONNX Runtime's, a hash of the output's name added to the given seed. Otherwise
// it is the one that our devices use if a node has no seed, so that their numbers do not change.
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
	old      int // number of nodes before rewriting
	seed     int64
	backward []bool              // by old node
	readers  map[string][]reader // by value
	copies   map[string]bool     // names of the copies' outputs
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

// freeSuffix finds a suffix that makes the names of copies unique: the program may have been
// rewritten before. ONNX Runtime takes existing names for its own copies.
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

// apply copies an option's nodes, and lets the backward pass and earlier copies read the copies'
// outputs. Views of the outputs are copied too: readers of the old view would keep the whole buffer
// alive.
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

// redirect lets all readers but forward nodes read the copy of a node.
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

// copyOf copies a node unless there is a copy.
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

// draws lists operators that draw random numbers from a seed, with the first version that has one.
var draws = map[string]int{
	"Dropout":                          12,
	"com.microsoft.BiasDropout":        1,
	"com.microsoft.BiasSoftmaxDropout": 1,
	"com.microsoft.BitmaskBiasDropout": 1,
	"com.microsoft.BitmaskDropout":     1,
}

// fixSeed gives a node that draws random numbers the seed that its copy will have, too.
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

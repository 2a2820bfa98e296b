package onnx

import (
	"slices"

	"memopt/internal/graph"
)

// Exporters give every dim of every input a name of its own: input_ids_dim0, labels_dim0. If the
// graph's equations (Graph.Assumed) require equal sizes, these dims get one name, the first in the
// order of the inputs, so that fewer sizes need to be given and formulas simplify.

// rereads limits how often a file is read for that: merging names can reveal further equal ones.
const rereads = 3

// withSizes is a reader that reads the file again with fewer names, or nil if there is nothing to
// merge. Files written by memopt keep their names.
func (r *reader) withSizes() *reader {
	if _, ours := r.model.metadata[metaLoss]; ours || r.reads == rereads {
		return nil
	}
	order := map[string]int{}
	for _, v := range r.b.Graph.Inputs {
		for _, d := range v.Shape {
			for _, name := range d.Names() {
				if _, ok := order[name]; !ok {
					order[name] = len(order)
				}
			}
		}
	}
	j := joined{}
	same := slices.Clone(r.same)
	for _, a := range r.b.Graph.Assumed {
		for _, pair := range alike(j.dim(a.A), j.dim(a.B), order) {
			from, to := j.first(pair[0]), j.first(pair[1])
			if order[from] < order[to] {
				from, to = to, from
			}
			j[from] = to
			same = append(same, graph.Assume{A: graph.Sym(from), B: graph.Sym(to), Node: a.Node})
		}
	}
	if len(j) == 0 {
		return nil
	}
	again := r.anew()
	again.same, again.sizes = same, map[string]graph.Dim{}
	for name := range j {
		again.sizes[name] = graph.Sym(j.first(name))
	}
	for name, d := range r.sizes {
		again.sizes[name] = j.dim(d)
	}
	return again
}

// anew is a new reader of the same file.
func (r *reader) anew() *reader {
	for _, b := range r.blocks {
		b.Drop()
	}
	r.blocks = nil
	again := newReader(r.src, r.file, r.path, r.lib, r.mapped)
	again.source, again.ctx = r.source, r.ctx
	again.known, again.shapes, again.given = r.known, r.shapes, r.given
	again.forward, again.eager, again.wantsApart = r.forward, r.eager, r.wantsApart
	again.dims, again.same, again.reads = r.dims, slices.Clone(r.same), r.reads+1
	return again
}

// joined maps a name to an earlier name of the same size (a union-find forest).
type joined map[string]string

// first is the representative of a name.
func (j joined) first(name string) string {
	for {
		to, ok := j[name]
		if !ok {
			return name
		}
		if further, ok := j[to]; ok {
			j[name] = further // path compression
		}
		name = to
	}
}

// dim replaces the names of a formula by their representatives.
func (j joined) dim(d graph.Dim) graph.Dim {
	by := map[string]graph.Dim{}
	for _, name := range d.Names() {
		if first := j.first(name); first != name {
			by[name] = graph.Sym(first)
		}
	}
	return d.Subst(by)
}

// alike pairs the names of two formulas that must be equal, if a unique renaming of inputs' dims
// makes them the same: b*s − b and m*n − m pair b with m and s with n, but b*s and m*n are
// ambiguous. Names that occur in both are not paired.
func alike(a, b graph.Dim, order map[string]int) [][2]string {
	own := func(d, other graph.Dim) []string {
		return slices.DeleteFunc(d.Names(), func(n string) bool { return slices.Contains(other.Names(), n) })
	}
	left, right := own(a, b), own(b, a)
	const most = 3 // names are tried in every order
	if len(left) != len(right) || len(left) == 0 || len(left) > most {
		return nil
	}
	for _, n := range slices.Concat(left, right) {
		if _, ok := order[n]; !ok {
			return nil
		}
	}
	var found [][2]string
	ways := 0
	permute(right, func(right []string) {
		by := map[string]graph.Dim{}
		for i, n := range left {
			by[n] = graph.Sym(right[i])
		}
		if !a.Subst(by).Equal(b) {
			return
		}
		ways++
		found = nil
		for i, n := range left {
			found = append(found, [2]string{n, right[i]})
		}
	})
	if ways != 1 {
		return nil
	}
	return found
}

// permute calls f with every permutation of a list.
func permute(list []string, f func([]string)) {
	var step func(i int)
	step = func(i int) {
		if i == len(list) {
			f(list)
			return
		}
		for k := i; k < len(list); k++ {
			list[i], list[k] = list[k], list[i]
			step(i + 1)
			list[i], list[k] = list[k], list[i]
		}
	}
	step(0)
}

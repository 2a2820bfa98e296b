// Package formulas says what the decisions of a plan need at other sizes of its dims.
//
// A size in bytes is a sum of products of dims, and few products are different: all formulas of a program are short rows of
// numbers over one table of products (polynomial.go). The bytes alive at each launch are such a row, and the peak is the largest
// of the few that no other is always above. Which results are written over which inputs depends on sizes that are equal: these
// are the conditions under which the formulas hold. Along one dim, the others being numbers, rows become curves of that dim, and
// bounds over stretches of it prove how far the conditions go and which formula is the peak where (curve.go).
package formulas

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// Formulas is a plan's peak and operations as functions of the dims: one solve for every size. They hold wherever the
// same results may be written over the same inputs as under the plan's own dims; Ranges says where that is, for each dim
// alone.
type Formulas struct {
	// Peaks are the formulas of which the peak is the largest.
	Peaks []PeakFormula `json:"peak"`
	// Flops is of the plain step, ExtraFlops of what runs again, with what the step's form takes beyond the plain one.
	Flops      string  `json:"flops"`
	ExtraFlops string  `json:"extra_flops"`
	Ranges     []Range `json:"ranges"`

	p            Program
	terms        *terms
	peaks        []polynomial
	same, differ []polynomial // differences of sizes that are 0 under the plan's dims, and that are not
}

// PeakFormula is the bytes alive at a node.
type PeakFormula struct {
	Formula string `json:"formula"`
	Node    string `json:"node"`
}

// Range is the sizes of one dim, the others being as planned, from From to To, for which the formulas hold. Pieces says
// which of them is the peak where.
type Range struct {
	Dim    string  `json:"dim"`
	At     int64   `json:"at"`
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Pieces []Piece `json:"pieces"`
}

// Piece is a stretch of a dim's sizes, both ends included, over which one formula is the peak.
type Piece struct {
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Formula string `json:"formula"`
	Node    string `json:"node"`
}

// Program is a graph under a binding of its dims, and the steps of a plan.
type Program struct {
	Graph   *graph.Graph
	Binding *graph.Binding
	Context context.Context // ends the work, which polls it
	Bytes   []int64         // by value, under the binding
	Owner   []int32         // by value: whose storage its bytes are in
	Outside []bool          // by owner: outside the arena
	Steps   iter.Seq2[*graph.Node, bool]
	Lives   []Life
	// Space is the work space of a node. Pinned says that it is known for these dims alone.
	Space  func(n *graph.Node) graph.Dim
	Pinned bool
	Plain  *graph.Graph // the step that operations are told against; nil is the program itself
}

// Life is the steps, half-open, at which the bytes of a value are in the arena.
type Life struct{ First, Last, Value int32 }

// Of derives the formulas of a program, without ranges.
func Of(p Program) (f *Formulas, err error) {
	f = &Formulas{Peaks: []PeakFormula{}, Ranges: []Range{}, p: p, terms: newTerms()}
	if failed := graph.Try(func() {
		var sizes []polynomial
		if sizes, err = f.sizes(); err != nil {
			return
		}
		if err = f.profile(sizes); err == nil {
			err = f.conditions(sizes)
		}
		if err == nil {
			err = f.costs()
		}
	}); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, fmt.Errorf("formulas: %w", err)
	}
	return f, nil
}

// Follow finds the range of each dim that the formulas are curves of.
func (f *Formulas) Follow() {
	if f.p.Pinned {
		return
	}
	for _, name := range f.p.Graph.Names() {
		if r, ok := f.along(name); ok {
			f.Ranges = append(f.Ranges, r)
		}
	}
}

// sizes is the bytes of every value.
func (f *Formulas) sizes() ([]polynomial, error) {
	out := make([]polynomial, len(f.p.Graph.Values))
	for i, v := range f.p.Graph.Values {
		stop.Poll(f.p.Context)
		var err error
		if out[i], err = f.terms.of(v.Bytes()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// profile is the bytes alive at each step, less the steps that another is never below.
func (f *Formulas) profile(sizes []polynomial) error {
	var nodes []*graph.Node // by step
	for n := range f.p.Steps {
		nodes = append(nodes, n)
	}
	change := make([]polynomial, len(nodes)+1)
	for _, l := range f.p.Lives {
		change[l.First] = change[l.First].plus(sizes[l.Value], 1)
		change[l.Last] = change[l.Last].plus(sizes[l.Value], -1)
	}
	// Work space that takes no bytes under the plan's dims, and so has no life, may take some under others.
	for i, n := range nodes {
		stop.Poll(f.p.Context)
		space, err := f.terms.of(f.p.Space(n))
		if err != nil {
			return err
		}
		change[i] = change[i].plus(space, 1)
		change[i+1] = change[i+1].plus(space, -1)
	}
	type top struct {
		p    polynomial
		step int
	}
	var tops []top
	var live polynomial
	for i := range nodes {
		stop.Poll(f.p.Context)
		live = live.plus(change[i], 1)
		if slices.ContainsFunc(tops, func(x top) bool { return f.terms.below(live, x.p) }) {
			continue
		}
		tops = slices.DeleteFunc(tops, func(x top) bool { return f.terms.below(x.p, live) })
		tops = append(tops, top{slices.Clone(live), i})
	}
	for _, x := range tops {
		f.peaks = append(f.peaks, x.p)
		f.Peaks = append(f.Peaks, PeakFormula{f.terms.text(x.p), nodes[x.step].Name})
	}
	return nil
}

// conditions collects what shapes take for granted of the dims, and what decides whether results are written over inputs:
// sizes being equal, and more than nothing.
func (f *Formulas) conditions(sizes []polynomial) error {
	p := &f.p
	note := func(list *[]polynomial, d polynomial) {
		if !d.equal(nil) && !slices.ContainsFunc(*list, func(x polynomial) bool { return x.equal(d) }) {
			*list = append(*list, d)
		}
	}
	compare := func(a, b int32) {
		list := &f.differ
		if p.Bytes[a] == p.Bytes[b] {
			list = &f.same
		}
		note(list, slices.Clone(sizes[a]).plus(sizes[b], -1))
	}
	for _, n := range p.Graph.Nodes {
		stop.Poll(p.Context)
		out := n.Outputs[0]
		if n.Op.View || len(n.Op.InPlace) == 0 || out == nil || p.Outside[p.Owner[out.ID]] {
			continue
		}
		for k, v := range n.Inputs {
			if v != nil && !p.Outside[p.Owner[v.ID]] && n.OverInput(k) {
				compare(v.ID, out.ID)
				compare(p.Owner[v.ID], out.ID)
				if p.Bytes[out.ID] == 0 && p.Bytes[v.ID] == 0 {
					note(&f.same, sizes[out.ID])
				}
			}
		}
	}
	names := p.Graph.Names()
	for _, e := range p.Graph.Assumed {
		difference := e.A.Sub(e.B)
		if slices.ContainsFunc(difference.Names(), func(n string) bool { return !slices.Contains(names, n) }) {
			continue // another name for a dim that has one
		}
		d, err := f.terms.of(difference)
		if err != nil {
			return err
		}
		note(&f.same, d)
	}
	return nil
}

// costs sums operations over the plain step and over what runs again, and what the step's form takes beyond the plain
// one.
func (f *Formulas) costs() error {
	var own, again polynomial
	for node, repeated := range f.p.Steps {
		n, err := f.flops(node)
		if err != nil {
			return err
		}
		if repeated {
			again = again.plus(n, 1)
		} else {
			own = own.plus(n, 1)
		}
	}
	plain := own
	if other := f.p.Plain; other != nil {
		plain = nil
		for _, node := range other.Nodes {
			n, err := f.flops(node)
			if err != nil {
				return err
			}
			plain = plain.plus(n, 1)
		}
		again = again.plus(own, 1).plus(plain, -1)
	}
	f.Flops, f.ExtraFlops = f.terms.text(plain), f.terms.text(again)
	return nil
}

// flops is the operations of a node.
func (f *Formulas) flops(n *graph.Node) (polynomial, error) {
	stop.Poll(f.p.Context)
	if n.Op.Flops == nil || n.Op.View {
		return nil, nil
	}
	return f.terms.of(n.Op.Flops(n))
}

// At is the largest of the formulas under other dims, whether it is a number, and whether the formulas hold there.
func (f *Formulas) At(b *graph.Binding) (peak int64, fits, holds bool) {
	v, fits := f.terms.values(b)
	if !fits {
		return 0, false, false
	}
	for _, p := range f.peaks {
		x, is := p.at(v)
		if !is {
			return 0, false, false
		}
		peak = max(peak, x)
	}
	zero := func(p polynomial) (is, known bool) {
		x, known := p.at(v)
		return x == 0, known
	}
	holds = !slices.ContainsFunc(f.same, func(p polynomial) bool { is, known := zero(p); return !is || !known }) &&
		!slices.ContainsFunc(f.differ, func(p polynomial) bool { is, known := zero(p); return is || !known })
	if holds && f.p.Pinned {
		own, known := f.terms.values(f.p.Binding)
		holds = known && slices.Equal(v, own)
	}
	return peak, true, holds
}

// farthest is the largest size of a dim that ranges speak of.
const farthest = 1 << 20

// along follows one dim, the others being as planned. ok is false where formulas are no curves, as divisions by the dim
// are none, or where nothing depends on it.
func (f *Formulas) along(dim string) (r Range, ok bool) {
	at, err := f.p.Binding.Eval(graph.Sym(dim))
	if err != nil {
		return r, false
	}
	l := f.terms.along(dim, f.p.Binding)
	curves := func(ps []polynomial) (out []polynomial) {
		for _, p := range ps {
			c, is := l.curve(p)
			ok = ok && is
			out = append(out, c)
		}
		return out
	}
	ok = true
	peaks, same, differ := curves(f.peaks), curves(f.same), curves(f.differ)
	if !ok || len(peaks) == 0 || at > farthest {
		return r, false
	}
	r = Range{Dim: dim, At: at, From: 1, To: farthest}
	if !slices.ContainsFunc(peaks, moves) {
		return r, false
	}
	for _, c := range peaks {
		r.To = min(r.To, l.fits(c, at, r.To))
	}
	for _, c := range same {
		r.From, r.To = l.around(c, true, at, r.From, r.To)
	}
	for _, c := range differ {
		r.From, r.To = l.around(c, false, at, r.From, r.To)
	}
	pieces, ok := l.piecewise(peaks, r.From, r.To)
	for _, p := range pieces {
		r.Pieces = append(r.Pieces, Piece{p.from, p.to, f.Peaks[p.of].Formula, f.Peaks[p.of].Node})
	}
	return r, ok
}

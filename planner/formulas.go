package planner

import (
	"fmt"
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

	m            *model
	terms        *terms
	peaks        []polynomial
	same, differ []polynomial // differences of sizes that are 0 under the plan's dims, and that are not
	pinned       bool         // the work space of kernels, or that they need none, is known for the plan's own dims alone
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

// Formulas derives the formulas from the plan's steps.
func (p *Plan) Formulas() (*Formulas, error) {
	if len(p.Moves) > 0 {
		return nil, fmt.Errorf("what a plan moves elsewhere, and when, holds for its own sizes alone")
	}
	f, err := p.m.formulas(p.t)
	if err != nil || f.pinned {
		return f, err
	}
	for _, name := range p.m.g.Names() {
		if r, ok := f.along(name); ok {
			f.Ranges = append(f.Ranges, r)
		}
	}
	return f, nil
}

// formulas has no ranges yet.
func (m *model) formulas(t *timeline) (f *Formulas, err error) {
	f = &Formulas{Peaks: []PeakFormula{}, Ranges: []Range{}, m: m, terms: newTerms(), pinned: m.lowered}
	if failed := graph.Try(func() {
		var sizes []polynomial
		if sizes, err = f.sizes(m.g); err != nil {
			return
		}
		if err = f.profile(t, sizes); err == nil {
			err = f.conditions(sizes)
		}
		if err == nil {
			err = f.costs(t)
		}
	}); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, fmt.Errorf("formulas: %w", err)
	}
	return f, nil
}

// sizes is the bytes of every value.
func (f *Formulas) sizes(g *graph.Graph) ([]polynomial, error) {
	out := make([]polynomial, len(g.Values))
	for i, v := range g.Values {
		stop.Poll(f.m.ctx)
		var err error
		if out[i], err = f.terms.of(v.Bytes()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// profile is the bytes alive at each step, less the steps that another is never below.
func (f *Formulas) profile(t *timeline, sizes []polynomial) error {
	m := f.m
	change := make([]polynomial, len(t.steps)+1)
	for _, l := range t.lives {
		if !l.scratch {
			change[l.first] = change[l.first].plus(sizes[l.owner], 1)
			change[l.last] = change[l.last].plus(sizes[l.owner], -1)
		}
	}
	// Work space that takes no bytes under the plan's dims, and so has no life, may take some under others.
	for i, s := range t.steps {
		stop.Poll(m.ctx)
		space, err := f.terms.of(m.spaceFormula(m.g.Nodes[s.Node]))
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
	for i := range t.steps {
		stop.Poll(m.ctx)
		live = live.plus(change[i], 1)
		if slices.ContainsFunc(tops, func(x top) bool { return f.terms.below(live, x.p) }) {
			continue
		}
		tops = slices.DeleteFunc(tops, func(x top) bool { return f.terms.below(x.p, live) })
		tops = append(tops, top{slices.Clone(live), i})
	}
	for _, x := range tops {
		f.peaks = append(f.peaks, x.p)
		f.Peaks = append(f.Peaks, PeakFormula{f.terms.text(x.p), m.g.Nodes[t.steps[x.step].Node].Name})
	}
	return nil
}

// conditions collects what shapes take for granted of the dims, and what decides whether results are written over inputs:
// sizes being equal, and more than nothing.
func (f *Formulas) conditions(sizes []polynomial) error {
	m := f.m
	note := func(list *[]polynomial, d polynomial) {
		if !d.equal(nil) && !slices.ContainsFunc(*list, func(p polynomial) bool { return p.equal(d) }) {
			*list = append(*list, d)
		}
	}
	compare := func(a, b int32) {
		list := &f.differ
		if m.bytes[a] == m.bytes[b] {
			list = &f.same
		}
		note(list, slices.Clone(sizes[a]).plus(sizes[b], -1))
	}
	for _, n := range m.g.Nodes {
		stop.Poll(m.ctx)
		out := n.Outputs[0]
		if n.Op.View || len(n.Op.InPlace) == 0 || out == nil || m.fixed[m.owner[out.ID]] {
			continue
		}
		for k, v := range n.Inputs {
			if v != nil && !m.fixed[m.owner[v.ID]] && n.OverInput(k) {
				compare(v.ID, out.ID)
				compare(m.owner[v.ID], out.ID)
				if m.bytes[out.ID] == 0 && m.bytes[v.ID] == 0 {
					note(&f.same, sizes[out.ID])
				}
			}
		}
	}
	names := m.g.Names()
	for _, e := range m.g.Assumed {
		difference := e.A.Sub(e.B)
		if slices.ContainsFunc(difference.Names(), func(n string) bool { return !slices.Contains(names, n) }) {
			continue // another name for a dim that has one
		}
		p, err := f.terms.of(difference)
		if err != nil {
			return err
		}
		note(&f.same, p)
	}
	return nil
}

// costs sums operations over the plain step and over what runs again, and what the step's form takes beyond the plain
// one.
func (f *Formulas) costs(t *timeline) error {
	var own, again polynomial
	for _, s := range t.steps {
		n, err := f.flops(f.m.g.Nodes[s.Node])
		if err != nil {
			return err
		}
		if s.Again {
			again = again.plus(n, 1)
		} else {
			own = own.plus(n, 1)
		}
	}
	plain := own
	if other := f.m.plain; other != nil {
		plain = nil
		for _, id := range other.nodes {
			n, err := f.flops(other.g.Nodes[id])
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
	stop.Poll(f.m.ctx)
	if n.Op.Flops == nil {
		return nil, nil
	}
	return f.terms.of(n.Op.Flops(n))
}

func (f *Formulas) peakAt(v []int64) (peak int64, ok bool) {
	for _, p := range f.peaks {
		x, fits := p.at(v)
		if !fits {
			return 0, false
		}
		peak = max(peak, x)
	}
	return peak, true
}

// farthest is the largest size of a dim that ranges speak of.
const farthest = 1 << 20

// along follows one dim, the others being as planned. ok is false where formulas are no curves, as divisions by the dim
// are none, or where nothing depends on it.
func (f *Formulas) along(dim string) (r Range, ok bool) {
	at, err := f.m.binding.Eval(graph.Sym(dim))
	if err != nil {
		return r, false
	}
	l := f.terms.along(dim, f.m.binding)
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

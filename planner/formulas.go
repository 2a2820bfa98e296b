package planner

import (
	"fmt"
	"slices"

	"memopt/memopt/graph"
	"memopt/memopt/stop"
)

// Formulas is a plan's peak and cost as functions of the dims: one solve for every size. They hold wherever the same
// results may be written over the same inputs as under the plan's own dims, which Valid tells; Ranges says it for each
// dim alone.
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
	extra, plain []float64    // cost by product
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
			f.conditions(sizes)
			err = f.costs(t, sizes)
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

// conditions collects what decides whether results are written over inputs: sizes being equal, and more than nothing.
func (f *Formulas) conditions(sizes []polynomial) {
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
}

// costs sums flops and prices over the plain step and over what runs again, and what the step's form takes beyond the
// plain one.
func (f *Formulas) costs(t *timeline, sizes []polynomial) error {
	var own, again tally
	for _, s := range t.steps {
		to := &own
		if s.Again {
			to = &again
		}
		if err := f.add(to, f.m, f.m.g.Nodes[s.Node], sizes); err != nil {
			return err
		}
	}
	plain := own
	if other := f.m.plain; other != nil {
		sizes, err := f.sizes(other.g)
		if err != nil {
			return err
		}
		plain = tally{}
		for _, id := range other.nodes {
			if err := f.add(&plain, other, other.g.Nodes[id], sizes); err != nil {
				return err
			}
		}
		again.plus(own, 1)
		again.plus(plain, -1)
	}
	f.plain, f.extra = plain.cost, again.cost
	f.Flops, f.ExtraFlops = f.terms.text(plain.flops), f.terms.text(again.flops)
	return nil
}

// tally is flops and a price, by product. A price that was measured stays in proportion to the price by flops and
// bytes.
type tally struct {
	flops polynomial
	cost  []float64
}

// add counts a node.
func (f *Formulas) add(to *tally, m *model, n *graph.Node, sizes []polynomial) error {
	stop.Poll(m.ctx)
	var own polynomial
	if n.Op.Flops != nil {
		var err error
		if own, err = f.terms.of(n.Op.Flops(n)); err != nil {
			return err
		}
	}
	moved, err := f.transfers(n, sizes)
	if err != nil {
		return err
	}
	weight := m.rateOf(n)
	to.flops = to.flops.plus(own, 1)
	to.cost = weighted(weighted(to.cost, own, weight*f.m.flop), moved, weight/4)
	return nil
}

// plus adds k times another.
func (t *tally) plus(o tally, k int64) {
	t.flops, t.cost = t.flops.plus(o.flops, k), weighted(t.cost, o.cost, float64(k))
}

// weighted is sum with k times a row added.
func weighted[T int64 | float64](sum []float64, row []T, k float64) []float64 {
	for len(sum) < len(row) {
		sum = append(sum, 0)
	}
	for i, c := range row {
		sum[i] += k * float64(c)
	}
	return sum
}

// transfers is the bytes that a node reads and writes.
func (f *Formulas) transfers(n *graph.Node, sizes []polynomial) (moved polynomial, err error) {
	for i, v := range n.Inputs {
		switch {
		case v == nil:
		case n.Op.Reads == nil:
			moved = moved.plus(sizes[v.ID], 1)
		default:
			read, err := f.terms.of(readBytes(n, i))
			if err != nil {
				return moved, err
			}
			moved = moved.plus(read, 1)
		}
	}
	for _, v := range n.Outputs {
		if v != nil {
			moved = moved.plus(sizes[v.ID], 1)
		}
	}
	return moved, nil
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

func (f *Formulas) overheadAt(v []int64) float64 {
	sum := func(cs []float64) (s float64) {
		for i, c := range cs {
			s += c * float64(v[i])
		}
		return s
	}
	if plain := sum(f.plain); plain > 0 {
		return sum(f.extra) / plain
	}
	return 0
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
		r.From, r.To = l.stays(c, at, r.From, r.To)
	}
	for _, c := range differ {
		r.From, r.To = l.avoids(c, at, r.From, r.To)
	}
	for _, e := range f.m.g.Assumed {
		r.From, r.To = f.assumed(e, dim, at, r.From, r.To)
	}
	pieces, ok := l.piecewise(peaks, r.From, r.To)
	for _, p := range pieces {
		r.Pieces = append(r.Pieces, Piece{p.from, p.to, f.Peaks[p.of].Formula, f.Peaks[p.of].Node})
	}
	return r, ok
}

// assumed is the sizes over which what shapes take for granted of a dim goes on to hold.
func (f *Formulas) assumed(e graph.Assume, dim string, at, from, to int64) (int64, int64) {
	names := f.m.g.Names()
	unknown := func(n string) bool { return !slices.Contains(names, n) }
	if slices.ContainsFunc(e.A.Names(), unknown) || slices.ContainsFunc(e.B.Names(), unknown) {
		return from, to // another name for a dim that has one
	}
	if !e.A.Uses(dim) && !e.B.Uses(dim) {
		return from, to
	}
	var p polynomial
	var err error
	if try := graph.Try(func() { p, err = f.terms.of(e.A.Sub(e.B)) }); try != nil || err != nil {
		return at, at
	}
	l := f.terms.along(dim, f.m.binding) // it may have products that are new
	c, ok := l.curve(p)
	if !ok {
		return at, at
	}
	return l.stays(c, at, from, to)
}

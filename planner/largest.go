package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"memopt/memopt/graph"
)

// Largest is the largest size of one dim for which a plan within the request's
// budgets and limit of cost is found, and that plan. The dim needs no size in
// the request.
//
// The ways of running the step are found at a few sizes that do not depend on
// the request; their peaks as formulas say how far each goes, and placing the
// values confirms it. So more budget never gives a smaller size.
func Largest(g *graph.Graph, r Request, dim string) (*Plan, error) {
	begin := time.Now()
	if r.Budget.isZero() && r.ActivationBudget.isZero() {
		return nil, fmt.Errorf("planner: the largest %s needs a budget", dim)
	}
	if r.Budget.Percent > 0 || r.ActivationBudget.Percent > 0 {
		return nil, fmt.Errorf("planner: the largest %s needs a budget in bytes; a share of what a size takes does not bind that size", dim)
	}
	if !slices.Contains(g.Names(), dim) {
		return nil, fmt.Errorf("planner: the model has no dim %q; its dims are %v", dim, g.Names())
	}
	l := &largest{g: g, r: r, dim: dim}
	for _, size := range references {
		ok, err := l.learn(size)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
	}
	size := l.best()
	if size > 0 {
		// Ways that are good there may go on a little.
		if _, err := l.learn(size); err != nil {
			return nil, err
		}
		size = l.best()
	}
	p, err := l.climb(size)
	if err != nil {
		return nil, err
	}
	p.Took = time.Since(begin)
	return p, nil
}

// references are the sizes at which ways of running the step are looked for.
var references = []int64{2, 32, 512, 8192}

type largest struct {
	g    *graph.Graph
	r    Request
	dim  string
	ways []way
	size int64 // the largest so far, and the way that leads there
	way  way
}

// way is a plan's decisions with the formulas of their peak and cost.
type way struct {
	steps []Step
	f     *Formulas
	reach int64 // the largest size at which the formulas say that it fits; −1 is not known yet
}

func (l *largest) dims(size int64) map[string]int64 {
	d := map[string]int64{l.dim: size}
	for name, n := range l.r.Dims {
		if name != l.dim {
			d[name] = n
		}
	}
	return d
}

func (l *largest) request(size int64) Request {
	r := l.r
	r.Dims = l.dims(size)
	return r
}

// learn adds the ways found at a size; ok is false if no way can fit there.
func (l *largest) learn(size int64) (ok bool, err error) {
	s, err := newSearch(l.g, l.request(size))
	if err != nil {
		return false, err
	}
	if size > references[0] && s.plan.Floor.Peak > s.room(l.r) {
		return false, nil
	}
	return true, l.take(s)
}

func (l *largest) take(s *search) error {
	for c, err := range s.descent() {
		if err != nil {
			return fmt.Errorf("planner: %w", err)
		}
		f, err := s.m.formulas(c.t)
		if err != nil {
			return err
		}
		l.ways = append(l.ways, way{c.t.steps, f, -1})
	}
	return nil
}

// room is the arena bytes that budgets in bytes leave.
func (s *search) room(r Request) int64 {
	room := int64(1) << 62
	if b := r.Budget.Bytes; b > 0 {
		room = b - s.m.fixedBytes()
	}
	if b := r.ActivationBudget.Bytes; b > 0 {
		room = min(room, b)
	}
	return room
}

// best is the largest size at which some way fits: each is followed as far as
// it goes, the farthest first. 0 if none fits anywhere.
func (l *largest) best() int64 {
	for i := range l.ways {
		if l.ways[i].reach < 0 {
			l.ways[i].reach = l.reach(l.ways[i])
		}
	}
	slices.SortStableFunc(l.ways, func(a, b way) int { return cmp.Compare(b.reach, a.reach) })
	for _, w := range l.ways {
		if w.reach <= l.size {
			break
		}
		if n := l.confirm(w, l.size, w.reach); n > l.size {
			l.size, l.way = n, w
		}
	}
	return l.size
}

// steps is how many sizes more are asked for one by one.
const steps = 4

// climb asks for the plan at a size that fits, and then for larger ones. A
// plan made for its own size may cost less than the way that led there, or fit
// where no way did.
func (l *largest) climb(size int64) (best *Plan, err error) {
	if size > 0 {
		if best, err = Make(l.g, l.request(size)); err != nil {
			m, err := newModel(l.g, l.dims(size), l.r.Lowered)
			if err != nil {
				return nil, fmt.Errorf("planner: %w", err)
			}
			if best, err = m.planOf(l.g, l.request(size), l.way.steps); err != nil {
				return nil, err
			}
			best.Strategy = l.strategy()
		}
	}
	for next := size + 1; next <= size+steps; next++ {
		p, err := Make(l.g, l.request(next))
		if err != nil && best == nil {
			return nil, err // not even the least size fits, and this says why
		}
		if err != nil {
			break
		}
		best = p
	}
	return best, nil
}

// strategy is the name of what finds ways.
func (l *largest) strategy() string {
	if l.r.Strategy == "" || l.r.Strategy == "auto" {
		return "greedy"
	}
	return l.r.Strategy
}

// reach is the largest size at which the formulas say that a way fits.
func (l *largest) reach(w way) int64 {
	fixed := newFixed(w.f)
	fits := func(size int64) bool {
		b, err := graph.Bind(l.dims(size))
		if err != nil {
			return false
		}
		v, ok, err := w.f.terms.values(b)
		if !ok || err != nil {
			return false
		}
		peak, ok := w.f.peakAt(v)
		if !ok || l.r.MaxOverhead > 0 && w.f.overheadAt(v) > l.r.MaxOverhead {
			return false
		}
		if a := l.r.ActivationBudget.Bytes; a > 0 && peak > a {
			return false
		}
		outside, ok := fixed.at(v)
		return ok && (l.r.Budget.Bytes == 0 || outside+peak <= l.r.Budget.Bytes)
	}
	lo, hi := int64(0), int64(farthest)
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if fits(mid) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// confirm is the largest size from above least to reach at which the way fits
// once it is placed, or least. Placing takes hardly more than what is alive, so
// the first sizes tried are the last ones.
func (l *largest) confirm(w way, least, reach int64) int64 {
	const near = 4
	size := reach
	for range near {
		if size <= least || l.fits(w, size) {
			return max(size, least)
		}
		size--
	}
	lo, hi := least, size
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if l.fits(w, mid) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// fits places a way at a size.
func (l *largest) fits(w way, size int64) bool {
	m, err := newModel(l.g, l.dims(size), l.r.Lowered)
	if err != nil {
		return false
	}
	m.reprice(l.r.Costs)
	c, err := m.candidateOf(w.steps)
	if err != nil {
		return false
	}
	if l.r.MaxOverhead > 0 && c.cost > l.r.MaxOverhead*m.total {
		return false
	}
	return c.placed.Height <= (&search{m: m}).room(l.r)
}

// fixedAt is what lies outside the arena, as formulas: each value begins at a
// multiple of the alignment.
type fixedAt struct{ state, staging []polynomial }

func newFixed(f *Formulas) (x fixedAt) {
	for _, v := range f.m.g.Values {
		if v.Kind == graph.Computed {
			continue
		}
		p, err := f.terms.of(v.Bytes())
		if err != nil {
			p = polynomial{most} // it fits nowhere
		}
		if v.Kind == graph.Input {
			x.staging = append(x.staging, p)
		} else {
			x.state = append(x.state, p)
		}
	}
	return x
}

func (x fixedAt) at(v []int64) (sum int64, ok bool) {
	for _, space := range [][]polynomial{x.state, x.staging} {
		height := int64(0)
		for _, p := range space {
			n, fits := p.at(v)
			height = align(height) + n
			if !fits || height > most {
				return 0, false
			}
		}
		sum += height
	}
	return sum, true
}

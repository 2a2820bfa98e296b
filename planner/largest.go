package planner

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"memopt/internal/graph"
	"memopt/planner/formulas"
	"memopt/planner/limits"
	"memopt/planner/outside"
)

// Largest is the largest size of one dim for which a plan within the request's budgets and limit of cost is found, and
// that plan. The dim needs no size in the request. A size above another is looked for where one is known to fit some
// other way; there may be none, and then no plan.
//
// A few sizes are solved: the middle of what the floor leaves open, then of what else is, and where that is little the
// next ones. The formulas of each plan that is found say how far beyond its own size the same decisions go, and placing
// the values confirms it.
func Largest(g *graph.Graph, r Request, dim string, above int64) (*Plan, error) {
	begin := time.Now()
	if r.Budget.isZero() && r.ActivationBudget.isZero() {
		return nil, fmt.Errorf("the largest %s needs a budget", dim)
	}
	if r.Budget.Percent > 0 || r.ActivationBudget.Percent > 0 {
		return nil, fmt.Errorf("the largest %s needs a budget in bytes; a share of what a size takes does not bind that size", dim)
	}
	if !slices.Contains(g.Names(), dim) {
		return nil, fmt.Errorf("the model has no dim %q; its dims are %v", dim, g.Names())
	}
	l := newLargest(g, r, dim)
	size, err := l.from(above, mostSize)
	if err != nil {
		return nil, err
	}
	if above > 0 && size == above {
		return nil, nil
	}
	p, err := makeKnowing(g, l.request(max(size, l.least)), l.way.steps)
	if err != nil {
		var short *BudgetError
		if errors.As(err, &short) {
			short.Least = l.least
		}
		return nil, err
	}
	p.SearchEnded = l.nearest(mostSize, size, mostSize+1) == 0
	p.Took = time.Since(begin)
	return p, nil
}

// mostSize is the largest size that Largest looks for.
const mostSize = 1 << 40

type largest struct {
	g           *graph.Graph
	r           Request
	dim         string
	constrained bool  // the shapes require something of the dim
	least       int64 // the smallest size that the model takes, where 1 does not fit
	size        int64 // the largest that fits so far, and the way that leads there
	way         decisions
	// sizeAtFloor is about the size whose floor takes the whole room, extrapolated from the last size that fits.
	sizeAtFloor int64
	planned     bool // sizes are planned; of long programs none more fits
}

// decisions are a plan's, with the formulas of their peak.
type decisions struct {
	steps []Step
	f     *formulas.Formulas
}

func (l *largest) dims(size int64) map[string]int64 {
	d := maps.Clone(l.r.Dims)
	if d == nil {
		d = map[string]int64{}
	}
	d[l.dim] = size
	return d
}

func (l *largest) request(size int64) Request {
	r := l.r
	r.Dims = l.dims(size)
	return r
}

// question is the request for a size that is only tried. Without a limit of cost it needs no plain step to compare with.
func (l *largest) question(size int64) Request {
	r := l.request(size)
	if r.MaxOverhead == 0 {
		r.Plain = nil
	}
	return r
}

// from is the largest size above another and up to most that fits, or the other. Where none does from 1 on, it is
// looked for from the smallest that the model takes.
func (l *largest) from(above, most int64) (int64, error) {
	size, err := l.search(above, most)
	if err != nil || size > 0 {
		return size, err
	}
	if l.least, err = l.smallest(); err != nil || l.least == 1 || l.least > most {
		return 0, err
	}
	if size, err = l.search(l.least-1, most); size < l.least {
		size = 0
	}
	return size, err
}

// search finds the largest size above least and up to most; least if there is none. Looking for any plan may find none
// where planning finds one, so the size behind the last is planned, if the program is not long.
func (l *largest) search(least, most int64) (int64, error) {
	l.planned = false
	size, err := l.seek(least, most)
	if err != nil || size == most {
		return size, err
	}
	l.planned = true
	next := l.nearest(size+1, size, most+1)
	if next == 0 {
		return size, nil
	}
	if ok, err := l.try(next, most); !ok || err != nil {
		return size, err
	}
	return l.seek(l.size, most)
}

func (l *largest) seek(least, most int64) (int64, error) {
	l.size, l.sizeAtFloor = least, least
	beyond := most + 1 // a size from here on is known not to fit
	for step := int64(1); l.size+1 < beyond; {
		open := min(l.sizeAtFloor, beyond) - l.size
		next := l.size + open/2
		if open <= l.size/narrow {
			next = l.size + min(step, (beyond-l.size)/2)
		}
		next = max(next, l.size+1)
		valid := l.nearest(next, l.size, beyond)
		if valid == 0 { // the model may take smaller ones alone
			beyond, step = next, 1
			continue
		}
		next = valid
		ok, err := l.try(next, beyond-1)
		if err != nil {
			return 0, err
		}
		if ok {
			step *= 2
		} else {
			beyond, step = next, 1
		}
	}
	return l.size, nil
}

// narrow is which part of the size is so little left open that the end is looked for in growing steps: decisions are
// followed as far as they go, so that mostly not even one more fits.
const narrow = 8

// try solves a size. If it fits, the same decisions are followed as far as they go, but not beyond most.
func (l *largest) try(size, most int64) (fits bool, err error) {
	s, err := Look(l.g, l.question(size))
	if err != nil {
		return false, nil // the model has no such size
	}
	room, _ := l.r.room(s.m.fixedBytes(), 0)
	if s.m.floor(s.r.Elsewhere).Peak > room {
		return false, nil
	}
	if err := s.prepare(); err != nil {
		return false, err
	}
	c, err := l.choose(s, room)
	if c == nil || err != nil {
		return false, err
	}
	f, err := s.m.formulas(c.t)
	if err != nil {
		return false, err
	}
	w := decisions{c.t.steps, f}
	l.size, l.way = size, w
	l.sizeAtFloor = int64(min(float64(size)*float64(room)/float64(max(s.plan.Floor.Peak, 1)), mostSize))
	if to := min(l.reach(w), most); to > size {
		l.size = l.confirm(w, size, to)
	}
	return true, nil
}

// choose is some plan of a size within the room and the limit of cost, nil for none. Clusters that settings ask for run
// again in it, and a strategy that they name is followed.
func (l *largest) choose(s *Search, room int64) (c *candidate, err error) {
	most := s.m.allows(l.r.MaxOverhead)
	c = s.base
	within := s.strategy() == byLimits
	switch {
	case l.planned && len(s.m.nodes) > limits.Mid:
		return nil, nil
	case within && (!l.planned || len(s.m.nodes) > limits.Small):
		if c.placed.Height <= room || c.cost > most {
			break
		}
		v := s.solves()
		switch {
		case l.planned && l.r.MaxOverhead > 0:
			c = s.limits.Within(room)
		case l.planned:
			c = s.limits.Lowest(room)
		default:
			c = v.at(room, math.Inf(1), anyCosting(most))
		}
		if c != nil && c.placed.Height > room {
			return nil, nil
		}
	default:
		var short *BudgetError
		if c, err = s.run(); errors.As(err, &short) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	if c == nil || c.cost > most {
		return nil, nil
	}
	return c, nil
}

// reach is the largest size at which the formulas say that a way fits.
func (l *largest) reach(w decisions) int64 {
	return int64(sort.Search(mostSize, func(i int) bool {
		b, err := graph.Bind(l.dims(int64(i) + 1))
		if err != nil {
			return true
		}
		peak, fits, _ := w.f.At(b)
		if !fits {
			return true
		}
		fixed, ok := l.fixed(b)
		room, _ := l.r.room(fixed, 0)
		return !ok || peak > room
	}))
}

// fixed is what lies outside the arena, if that is a number.
func (l *largest) fixed(b *graph.Binding) (sum int64, ok bool) {
	var layout outside.Layout
	streams, ok := outside.Streaming(l.g, b, l.r.States, l.r.StatesStay), true
	err := graph.Try(func() {
		for i, v := range l.g.Values {
			if v.Kind == graph.Computed {
				continue
			}
			bytes, err := b.Eval(v.Bytes())
			if ok = err == nil && bytes <= mostBytes; !ok {
				return
			}
			layout.Place(v, bytes, streams[i])
			if ok = layout.Fixed() <= mostBytes && layout.Elsewhere <= mostBytes; !ok {
				return
			}
		}
	})
	layout.End()
	return layout.Fixed(), ok && err == nil
}

// confirm is the largest size from above least to reach at which the way fits once it is placed, or least. Placing
// takes little more than the bytes alive, so sizes are tried from the last one down.
func (l *largest) confirm(w decisions, least, reach int64) int64 {
	const near = 3
	for range near {
		size := l.nearest(reach, least, reach+1)
		if size == 0 {
			break
		}
		if l.fits(w, size) {
			return size
		}
		reach = size - 1
	}
	return least
}

// fits places a way at a size.
func (l *largest) fits(w decisions, size int64) bool {
	m, err := newModel(l.g, l.request(size))
	if err != nil {
		return false
	}
	if m.relate(l.question(size)) != nil {
		return false
	}
	c := m.candidateOf(w.steps, given)
	room, _ := l.r.room(m.fixedBytes(), 0)
	return c.cost <= m.allows(l.r.MaxOverhead) && m.placeWithin(c, room).placed.Height <= room
}

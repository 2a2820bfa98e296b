package planner

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"memopt/memopt/graph"
)

// Curve is peak against extra cost: the best plans that are known at each height, and on the same axes what others
// would do.
type Curve struct {
	// Points go down: each has less peak and arena than the one before, and costs more. The first keeps everything.
	Points     []Point
	References []Point
	Floor      Floor
	Fixed      int64 // bytes outside the arena in the plain form, which Total counts in
}

// Point is one plan on the axes.
type Point struct {
	Name               string // of a reference
	Form               string // of the step, where it is another than the plain one
	Peak, Arena, Total int64
	Overhead           float64 // extra cost as a share of the plain step's
	Again              int     // launches that run again
	Knee               bool    // the best trade: nearest to no cost and least memory
	steps              []Step
}

// Frontier is the curve of a graph. Budgets, limits of cost and strategies in the request do not shape it.
func Frontier(g *graph.Graph, r Request) (*Curve, error) {
	s, err := newSearch(g, r)
	if err != nil {
		return nil, err
	}
	c := &Curve{Floor: s.plan.Floor, Fixed: s.m.fixedBytes()}
	for cand, err := range s.descent() {
		if err != nil {
			return nil, err
		}
		c.Points = append(c.Points, s.point("", cand))
	}
	if err := s.references(c); err != nil {
		return nil, err
	}
	// What others would do is a plan too: where none that was solved for is better, it is on the curve.
	c.Points = pareto(append(c.Points, c.References...))
	c.Points[knee(c.Points)].Knee = true
	return c, nil
}

// Join puts the points of another form of the step on the curve. Forms within that form are told behind it.
func (c *Curve) Join(other *Curve, form string) {
	c.Points[knee(c.Points)].Knee = false
	for _, p := range other.Points {
		p.Knee = false
		if p.Form != "" {
			p.Form = ", " + p.Form
		}
		p.Form = form + p.Form
		c.Points = append(c.Points, p)
	}
	if other.Floor.Peak < c.Floor.Peak {
		c.Floor = other.Floor
	}
	c.Points = pareto(c.Points)
	c.Points[knee(c.Points)].Knee = true
}

// newSearch is a search without a request: everything is open to it.
func newSearch(g *graph.Graph, r Request) (*search, error) {
	m, err := newModel(g, r)
	if err != nil {
		return nil, err
	}
	base, err := m.candidate(make([]bool, len(g.Nodes)))
	if err != nil {
		return nil, err
	}
	if err := m.relate(r); err != nil {
		return nil, err
	}
	r.Budget, r.ActivationBudget, r.MaxOverhead, r.Level, r.Clusters, r.Again = Size{}, Size{}, 0, 0, nil, nil
	p := &Plan{Graph: g, Request: r, m: m}
	p.Baseline, p.Floor = m.summary(base), m.floor()
	return &search{m: m, base: base, plan: p, forced: make([]bool, len(g.Nodes))}, nil
}

// What a descent asks for: a number of limits between the plain arena and the floor, fewer of a long program, and where
// a limit is beyond it some between.
const (
	mostLimits  = 24
	leastLimits = 8
	shortSteps  = 512  // up to here a descent asks for most limits
	finer       = 2    // halvings of the distance below the lowest plan
	fills       = 4    // limits that jumps are filled with, where limits are not sketched
	jump        = 0.15 // the part of both axes, at their mean, that is worth one
)

// descent is plans from everything kept downwards.
func (s *search) descent() iter.Seq2[*candidate, error] {
	return func(yield func(*candidate, error) bool) {
		if !yield(s.base, nil) {
			return
		}
		v, err := s.newSolver()
		if err != nil {
			yield(nil, err)
			return
		}
		sketchy, first, then := len(s.base.t.steps) > 2*shortSteps, usual, usual
		if sketchy {
			first, then.hasty = sketched, true // a curve has other points above and below
		}
		top, floor := s.base.placed.Height, s.plan.Floor.Peak
		limits := min(max(mostLimits*shortSteps/max(len(s.base.t.steps), 1), leastLimits), mostLimits)
		// Below a limit without a plan none is looked for.
		ask := func(limit int64, by way, without *int64) (*candidate, error) {
			if limit <= *without {
				return nil, nil
			}
			c, err := v.at(limit, math.Inf(1), by)
			if c == nil {
				*without = limit
			}
			return c, err
		}
		var unsketched, unsolved int64
		found := []*candidate{s.base}
		for down := newStair(top, floor, int64(limits)); down.more(); {
			limit := down.limit()
			c, err := ask(limit, first, &unsketched)
			if c == nil && err == nil && sketchy && down.halved == finer && limit > floor { // hardly any plan of a long program reaches that
				c, err = ask(limit, then, &unsolved)
			}
			switch {
			case err != nil:
				yield(nil, err)
				return
			case c != nil:
				down.height = min(limit, c.placed.Height)
				if found = append(found, c); !yield(c, nil) {
					return
				}
			default:
				down.closer()
			}
		}
		if !sketchy {
			s.fill(v, found, yield)
		}
	}
}

// fill is plans halfway down the widest jumps between some, in bytes and in cost.
func (s *search) fill(v *solver, found []*candidate, yield func(*candidate, error) bool) {
	less := func(a, b *candidate) int { return cmp.Compare(b.placed.Height, a.placed.Height) }
	slices.SortStableFunc(found, less)
	lowest := found[len(found)-1]
	high, dearest := float64(max(s.base.placed.Height-lowest.placed.Height, 1)), math.Max(lowest.cost-s.base.cost, math.SmallestNonzeroFloat64)
	asked := map[int64]bool{}
	for range fills {
		widest, limit := jump*jump, int64(0)
		for i, c := range found[1:] {
			above := found[i]
			mid := c.placed.Height + (above.placed.Height-c.placed.Height)/2
			if area := float64(above.placed.Height-c.placed.Height) / high * (c.cost - above.cost) / dearest; area > widest && !asked[mid] {
				widest, limit = area, mid
			}
		}
		if limit == 0 {
			return
		}
		asked[limit] = true
		c, err := v.at(limit, math.Inf(1), usual)
		if err != nil {
			yield(nil, err)
			return
		}
		if c == nil {
			continue
		}
		if !yield(c, nil) {
			return
		}
		found = append(found, c)
		slices.SortStableFunc(found, less)
	}
}

func (s *search) point(name string, c *candidate) Point {
	p := Point{Name: name, Peak: c.t.peak, Arena: c.placed.Height, Total: c.placed.Height + s.m.fixedBytes(), Overhead: s.m.overhead(c.cost), steps: c.t.steps}
	for _, st := range c.t.steps {
		if st.Again {
			p.Again++
		}
	}
	return p
}

// pareto drops points that another is no worse than, and orders the rest from the highest down. Their names are
// dropped.
func pareto(points []Point) (out []Point) {
	slices.SortStableFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Peak, b.Peak), cmp.Compare(a.Overhead, b.Overhead), cmp.Compare(a.Arena, b.Arena))
	})
	for _, p := range points {
		if n := len(out); n == 0 || p.Overhead < out[n-1].Overhead && p.Peak > out[n-1].Peak && p.Arena > out[n-1].Arena {
			p.Name = ""
			out = append(out, p)
		}
	}
	slices.Reverse(out)
	return out
}

// knee is the point nearest to the corner of no cost and least memory, both axes going from 0 to 1 over the curve.
func knee(points []Point) int {
	first, last := points[0], points[len(points)-1]
	best, least := 0, math.Inf(1)
	for i, p := range points {
		x := float64(p.Arena-last.Arena) / math.Max(float64(first.Arena-last.Arena), 1)
		y := (p.Overhead - first.Overhead) / math.Max(last.Overhead-first.Overhead, math.SmallestNonzeroFloat64)
		if d := math.Hypot(x, y); d < least {
			best, least = i, d
		}
	}
	return best
}

// references are what people do without a planner.
func (s *search) references(c *Curve) error {
	type reference struct {
		name string
		set  func() ([]bool, bool)
	}
	level := func(n int) func() ([]bool, bool) {
		return func() ([]bool, bool) {
			if _, err := s.offered(); err != nil { // once for both levels
				return nil, false
			}
			q := *s
			q.plan = &Plan{Graph: s.plan.Graph, Request: s.plan.Request, m: s.m}
			q.plan.Request.Level = n
			on, err := q.requested()
			return on, err == nil && slices.Contains(on, true)
		}
	}
	all := []reference{{"level 1", level(1)}, {"level 2", level(2)}}
	if l, ok := s.m.layers(); ok {
		for _, w := range l.wrappings() {
			all = append(all, reference{w.name, func() ([]bool, bool) { return s.m.checkpoints(l, w.every), true }})
		}
	}
	for _, r := range all {
		set, ok := r.set()
		if !ok {
			continue
		}
		cand, err := s.m.candidate(set)
		if err != nil {
			return err
		}
		c.References = append(c.References, s.point(r.name, cand))
	}
	return nil
}

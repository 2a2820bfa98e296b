package planner

import (
	"cmp"
	"fmt"
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
}

// Frontier is the curve of a graph. Budgets, limits of cost and strategies in the request do not shape it.
func Frontier(g *graph.Graph, r Request) (*Curve, error) {
	r.Budget, r.ActivationBudget, r.MaxOverhead, r.Level, r.Clusters, r.Again = Size{}, Size{}, 0, 0, nil, nil
	s, err := Look(g, r)
	if err == nil {
		err = s.prepare()
	}
	if err != nil {
		return nil, err
	}
	c := &Curve{Floor: s.plan.Floor, Fixed: s.m.fixedBytes()}
	for _, cand := range s.descent() {
		c.Points = append(c.Points, s.point("", cand))
	}
	s.references(c)
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
func (s *Search) descent() []*candidate {
	v, steps := s.newSolver(), len(s.base.t.steps)
	sketchy, first, then := steps > 2*shortSteps, usual, usual
	if sketchy {
		first, then.hasty = sketched, true // a curve has other points above and below
	}
	top, floor := s.base.placed.Height, s.plan.Floor.Peak
	limits := min(max(mostLimits*shortSteps/max(steps, 1), leastLimits), mostLimits)
	// Below a limit without a plan none is looked for.
	ask := func(limit int64, by way, without *int64) (c *candidate) {
		if limit > *without {
			if c = v.at(limit, math.Inf(1), by); c == nil {
				*without = limit
			}
		}
		return c
	}
	var unsketched, unsolved int64
	found := []*candidate{s.base}
	for down := newStair(top, floor, int64(limits)); down.more(); {
		limit := down.limit()
		c := ask(limit, first, &unsketched)
		if c == nil && sketchy && down.halved == finer && limit > floor { // hardly any plan of a long program reaches that
			c = ask(limit, then, &unsolved)
		}
		if c == nil {
			down.closer()
			continue
		}
		down.height = min(limit, c.placed.Height)
		found = append(found, c)
	}
	if sketchy {
		return found
	}
	// Limits near the floor may have no plan where a lower one was found: a budget has that one, and so does the curve.
	if c := v.lowestPeak(found[len(found)-1].placed.Height); c != nil {
		found = append(found, c)
	}
	return s.fill(v, found)
}

// fill adds plans halfway down the widest jumps between some, in bytes and in cost.
func (s *Search) fill(v *solver, found []*candidate) []*candidate {
	sorted := func() {
		slices.SortStableFunc(found, func(a, b *candidate) int { return cmp.Compare(b.placed.Height, a.placed.Height) })
	}
	sorted()
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
			break
		}
		asked[limit] = true
		if c := v.at(limit, math.Inf(1), usual); c != nil {
			found = append(found, c)
			sorted()
		}
	}
	return found
}

func (s *Search) point(name string, c *candidate) Point {
	p := Point{Name: name, Peak: c.t.peak, Arena: c.placed.Height, Total: c.placed.Height + s.m.fixedBytes(), Overhead: s.m.overhead(c.cost)}
	_, _, p.Again = s.m.again(c.t.steps)
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
func (s *Search) references(c *Curve) {
	add := func(name string, again []bool) {
		c.References = append(c.References, s.point(name, s.m.candidate(again)))
	}
	if o, err := s.offered(); err == nil {
		for level := 1; level <= 2; level++ {
			r := s.plan.Request
			r.Level = level
			on := make([]bool, len(s.m.g.Nodes))
			choices, _ := o.requested(r)
			if o.turnChoices(on, choices); slices.Contains(on, true) {
				add(fmt.Sprintf("level %d", level), on)
			}
		}
	}
	for _, w := range s.m.wrappings() {
		add(w.name, w.again)
	}
}

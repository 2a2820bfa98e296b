package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
)

// Curve is peak against extra cost: the best plans that are known at each height, and on the same axes what others
// would do.
type Curve struct {
	// Points go down: each has less peak and arena than the one before, and costs more. The first keeps everything.
	// Where ByTotal is set, points differ in what lies outside the arena, and each has less in total than the one before.
	Points     []Point
	ByTotal    bool
	References []Point
	Floor      Floor
	Fixed      int64 // bytes outside the arena in the plain form, which Total counts in
	// Whole is the memory of that form with everything kept, Kept its point, which may be none of the curve's where others have less peak
	// at no cost, and Time its nanoseconds by the request's profile, 0 without one.
	Whole    Memory
	Kept     Point
	Time     int64
	Warnings []string // of the request

	plans []pointPlan // of all points; see LargestAt
}

// Point is one plan on the axes.
type Point struct {
	Name               string // of a reference
	Form               string // of the step, where it is another than the plain one
	Peak, Arena, Total int64
	Overhead           float64 // extra cost as a share of the plain step's
	Again              int     // launches that run again
	Moved              int64   // bytes that are moved elsewhere
	// Sent is what the states take that leave in this plan, whose copies Overhead has in it, as if nothing hid them; nil where
	// none leave, or as many in all plans.
	Sent *Streamed
	Knee bool // the best trade: nearest to no cost and least memory
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
	c := &Curve{Floor: s.plan.Floor, Fixed: s.m.fixedBytes(), Whole: s.m.memory(s.base)}
	if r.Prices() != nil {
		c.Time = int64(s.m.total)
	}
	c.Kept = c.point(s, "", s.base)
	s.solves()
	curve := s.limits.Curve()
	for _, cand := range curve {
		c.Points = append(c.Points, c.point(s, "", cand))
	}
	if r.Elsewhere != nil {
		for k := int64(awayLimits - awayAnchors); s.awayLimit(k) >= s.plan.Floor.Peak && k > 0; k -= awayAnchors / 2 {
			most := math.Inf(1)
			for _, cand := range curve {
				if cand.placed.Height <= s.awayLimit(k) {
					most = min(most, cand.cost)
				}
			}
			if cand := s.awayAt(k, most); cand != nil {
				c.Points = append(c.Points, c.point(s, "", cand))
			}
		}
	}
	s.references(c)
	// What others would do is a plan too: where none that was solved for is better, it is on the curve.
	c.Points = pareto(append(c.Points, c.References...))
	c.mark()
	return c, nil
}

// mark finds the knee.
func (c *Curve) mark() {
	for i := range c.Points {
		c.Points[i].Knee = false
	}
	c.Points[knee(c.Points, c.Size)].Knee = true
}

// Size is the bytes in which points of the curve differ: of the arena, or all.
func (c *Curve) Size(p Point) int64 {
	if c.ByTotal {
		return p.Total
	}
	return p.Arena
}

// Join puts the points of another form of the step on the curve. Forms within that form are named behind it.
func (c *Curve) Join(other *Curve, form string) {
	for _, p := range other.Points {
		if p.Form != "" {
			p.Form = ", " + p.Form
		}
		p.Form = form + p.Form
		c.Points = append(c.Points, p)
	}
	c.plans = append(c.plans, other.plans...)
	if other.Floor.Peak < c.Floor.Peak {
		c.Floor = other.Floor
	}
	c.Points = pareto(c.Points)
	c.mark()
}

// Send puts the points of a curve of the same step, with states elsewhere, on one with all states in memory: what they take there, and
// how much less than those points tell the step has outside its arena.
func (c *Curve) Send(other []Point, sent *Streamed, less int64) {
	c.ByTotal = true
	for _, p := range other {
		p.Total -= less
		p.Overhead += share(float64(sent.CopyNS), float64(c.Time))
		p.Sent = sent
		c.Points = append(c.Points, p)
	}
	c.Points = cheapest(c.Points)
	c.mark()
}

// cheapest drops points that another is no worse than in total and cost, and orders the rest from the highest down. Of equals
// that with the fewest bytes of states elsewhere stays.
func cheapest(points []Point) (out []Point) {
	sent := func(p Point) int64 {
		if p.Sent == nil {
			return 0
		}
		return p.Sent.Bytes
	}
	slices.SortStableFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Total, b.Total), cmp.Compare(a.Overhead, b.Overhead), cmp.Compare(sent(a), sent(b)))
	})
	for _, p := range points {
		if n := len(out); n == 0 || p.Overhead < out[n-1].Overhead {
			out = append(out, p)
		}
	}
	slices.Reverse(out)
	return out
}

// point is the point of a candidate, which the curve keeps.
func (c *Curve) point(s *Search, name string, cand *candidate) Point {
	p := s.point(name, cand)
	c.plans = append(c.plans, pointPlan{p, s, cand})
	return p
}

func (s *Search) point(name string, c *candidate) Point {
	p := Point{Name: name, Peak: c.t.peak, Arena: c.placed.Height, Total: c.placed.Height + s.m.fixedBytes(), Overhead: s.m.overhead(c.cost)}
	_, _, p.Again = s.m.again(c.t.steps)
	for _, x := range c.away {
		p.Moved += x.Bytes
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
func knee(points []Point, size func(Point) int64) int {
	first, last := points[0], points[len(points)-1]
	best, least := 0, math.Inf(1)
	for i, p := range points {
		x := float64(size(p)-size(last)) / math.Max(float64(size(first)-size(last)), 1)
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
		c.References = append(c.References, c.point(s, name, s.m.candidate(again)))
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

package planner

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/planner/check"
	"memopt/planner/recompute"
)

// What tests outside the package look at.

func init() { checking = true }

// Stretch is a life with the name of what lies there first.
type Stretch struct {
	Name string
	schedule.Life
}

// Stretches lists the plan's lives; work space has the name of its node.
func (p *Plan) Stretches() []Stretch {
	var all []Stretch
	for i, l := range p.t.lives {
		name := ""
		if l.scratch {
			name = "(" + p.Graph.Nodes[p.Steps[l.first].Node].Name + ")"
		} else {
			name = p.Graph.Values[l.owner].Name
		}
		at := int64(0)
		if !p.m.unplaced() {
			at = p.Offsets[i]
		}
		all = append(all, Stretch{name, schedule.Life{First: l.first, Last: l.last, Offset: at, Bytes: l.bytes}})
	}
	return all
}

// CheckSchedule is Check of a schedule that need not be the plan's own.
func CheckSchedule(p *Plan, s *schedule.Schedule) error {
	x, err := check.ReplayAs(p.decided(), s)
	if err != nil {
		return err
	}
	return x.Agrees(p.claims())
}

// Lab simulates any set of nodes run again.
type Lab struct{ m *model }

// NewLab binds a graph's dims.
func NewLab(g *graph.Graph, dims map[string]int64) (*Lab, error) {
	m, err := newModel(g, Request{Dims: dims})
	return &Lab{m}, err
}

// Repeatable lists the nodes that a plan may run again.
func (l *Lab) Repeatable() (all []*graph.Node) {
	for _, n := range l.m.g.Nodes {
		if l.m.mayRunAgain(n) {
			all = append(all, n)
		}
	}
	return all
}

// Simulate is the peak, the bytes alive at each step, the steps and the extra
// cost, as a share, of running a set of nodes again.
func (l *Lab) Simulate(again []bool) (peak int64, live []int64, steps []Step, overhead float64) {
	t := l.m.simulate(l.m.order(again))
	cost, _, _ := l.m.again(t.steps)
	return t.peak, t.live, t.steps, cost / l.m.total
}

// Peak is that of steps by another route: recompute.Check goes back over them.
func (l *Lab) Peak(steps []Step) int64 {
	var launches []int32
	for _, s := range steps {
		launches = append(launches, l.m.op[s.Node])
	}
	peak, _, err := recompute.Check(l.m.problem(1, nil), launches)
	if err != nil {
		panic(err)
	}
	return peak
}

// Resize is the plan's steps under other dims, placed anew: what its formulas are held against.
func (p *Plan) Resize(dims map[string]int64) (*Plan, error) {
	r := p.Request
	r.Dims = dims
	r.Budget, r.ActivationBudget, r.MaxOverhead = Size{}, Size{}, 0
	x, err := Look(p.Graph, r)
	if err != nil {
		return nil, err
	}
	return x.begin().planOf(p.Steps), nil
}

// planOf is a whole plan of steps that were chosen elsewhere.
func (s *Search) planOf(steps []Step) *Plan {
	c := s.m.candidateOf(steps, given)
	return s.complete(c, c.placed.Height)
}

// Floor is the floor that plans of the graph show.
func (l *Lab) Floor() Floor { return l.m.floor(nil) }

// LeastOverhead is the bound for peaks within a limit.
func (l *Lab) LeastOverhead(limit int64) float64 {
	r, err := recompute.New(l.m.problem(1, nil))
	if err != nil {
		panic(err)
	}
	least, ok := r.Bound(limit, 0)
	if !ok {
		return math.Inf(1)
	}
	return least / l.m.total
}

// Anyhow is a plan of the plain steps with some nodes run again at other places:
// each of again is the place and a number that picks a node that may run there.
func (l *Lab) Anyhow(again [][2]int, dims map[string]int64) *Plan {
	m := l.m
	steps := m.order(nil)
	for _, a := range again {
		// What is replaced early may not be read later.
		most := 0
		for most < len(steps) && m.g.Nodes[steps[most].Node].Op.Overwrites == nil {
			most++
		}
		at := a[0] % (most + 1)
		var may []int32
		for _, s := range steps[:at] {
			if m.mayRunAgain(m.g.Nodes[s.Node]) {
				may = append(may, s.Node)
			}
		}
		if len(may) > 0 {
			steps = slices.Insert(steps, at, Step{Node: may[a[1]%len(may)], Again: true})
		}
	}
	return (&Search{m: m, r: Request{Dims: dims}}).begin().planOf(steps)
}

// Again is, by node, what the plan runs again.
func (p *Plan) Again() []bool { return ranAgain(p.Steps, len(p.Graph.Nodes)) }

// Simulate simulates the plan's steps with every life.
func (p *Plan) Simulate() (launches int) { return len(p.m.simulate(p.Steps).steps) }

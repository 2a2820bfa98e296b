package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/planner/pack"
	"memopt/planner/recompute"
)

// Summary is one schedule's figures.
type Summary struct {
	Peak        int64  // most bytes alive at one step
	PeakNode    string // that step's node
	PeakFormula string // what is alive there, in the graph's dims
	Arena       int64  // height after placement
	Stashed     int64  // bytes that pass from forward to backward
	Flops       int64
	ExtraFlops  int64
	Overhead    float64 // extra cost as a share of the plain step's
	Again       int     // nodes that run again
}

// Holding is a value that takes bytes at the peak.
type Holding struct {
	Value string `json:"value"`
	Bytes int64  `json:"bytes"`
	Until string `json:"held_until,omitempty"` // the node until which it is held outside the graph, if it is
}

// Memory is who owns what at the peak. Total is what a budget binds.
type Memory struct {
	Weights     int64 `json:"weights"`
	Gradients   int64 `json:"gradients"`
	Optimizer   int64 `json:"optimizer"`
	Activations int64 `json:"activations"`
	Staging     int64 `json:"staging"`
	Total       int64 `json:"total"`
}

// dominant is the three largest values alive at the peak.
func (m *model) dominant(t *timeline) []Holding {
	const most = 3
	alive := slices.DeleteFunc(slices.Clone(t.lives), func(l life) bool { return !l.alive(t.at) })
	slices.SortStableFunc(alive, func(a, b life) int { return cmp.Compare(b.bytes, a.bytes) })
	top := []Holding{}
	for _, l := range alive[:min(most, len(alive))] {
		name := "work space"
		if !l.scratch {
			name = m.g.Values[l.owner].Name
		}
		top = append(top, Holding{name, l.bytes, m.heldAt(t, &l, t.at)})
	}
	return top
}

// candidate is a list of steps, simulated and placed.
type candidate struct {
	t      *timeline
	cost   float64 // of what runs again
	placed pack.Solution
	answer recompute.Answer // what it was solved as, but for the launches
	by     string           // who chose what runs again
	tries  []Tried          // what led to that
	away   []Move           // what is moved elsewhere and back
	wait   int64            // for copies, ns
}

func (c *candidate) Height() int64 { return c.placed.Height }
func (c *candidate) Peak() int64   { return c.t.peak }
func (c *candidate) Cost() float64 { return c.cost }

// candidate is the plain order with some nodes that run again.
func (m *model) candidate(again []bool) *candidate { return m.candidateOf(m.order(again), "") }

// keepAll is the candidate with everything kept.
func (m *model) keepAll() *candidate {
	if m.kept == nil {
		m.kept = m.candidate(nil)
	}
	return m.kept
}

// candidateOf simulates and places given steps.
func (m *model) candidateOf(steps []Step, by string) *candidate {
	c, _ := m.place(&candidate{t: m.simulate(steps), by: by}, 0, 0)
	return c
}

// placeWithin places a candidate again, in an arena of so many bytes, if it is higher and can be lower; the candidate is
// unchanged if that fails. The lowest arena found without a capacity may be above a capacity that can be met.
func (m *model) placeWithin(c *candidate, room int64) *candidate {
	if c.placed.Height <= room || c.t.peak > room {
		return c
	}
	if d, fits := m.place(c, room, placingLooks); fits {
		return d
	}
	return c
}

// placingLooks is how much a search for places within a capacity may look at. Of 59 plans of convolution nets and
// transformers that needed one, 52 were placed within half a million to a hundred million, and 43 of those within this.
// Where none are found another plan is, sooner.
const placingLooks = 3 << 23

// place is a simulated candidate with its price and with places for its lives in an arena of a capacity (0: the lowest
// there is), with so many looks for them (0: as many as pay), and whether they are within. Where lives have no
// places, the arena is the bytes alive. A plan that runs so much again that its bytes are no number has no places, and
// no arena holds it.
func (m *model) place(of *candidate, capacity int64, looks int) (c *candidate, fits bool) {
	d := *of
	c = &d
	c.cost, _, _ = m.again(c.t.steps)
	c.cost += float64(c.wait)
	if m.unplaced() {
		c.placed = pack.Solution{Offsets: make([]int64, len(c.t.lives)), Height: c.t.peak, Bound: c.t.peak}
		return c, capacity == 0 || c.t.peak <= capacity
	}
	problem := pack.Problem{Buffers: make([]pack.Buffer, len(c.t.lives)), Capacity: capacity}
	effort := pack.Effort{Looks: looks, Context: m.ctx}
	for i, l := range c.t.lives {
		problem.Buffers[i] = pack.Buffer{First: l.first, Last: l.last, Size: l.bytes, Align: alignment}
	}
	var err error
	if top := c.t.topLives(capacity); top != nil {
		err = m.placeUnder(top, c, problem, effort)
	} else {
		c.placed, err = m.pack(problem, effort)
	}
	var beyond *pack.CapacityError
	if err != nil && !errors.As(err, &beyond) {
		c.placed = pack.Solution{Height: math.MaxInt64}
	}
	return c, err == nil
}

func (m *model) summary(c *candidate) Summary {
	s := Summary{Peak: c.t.peak, Arena: c.placed.Height, Flops: m.flopsSum, Stashed: m.stashedBy(c.t), ExtraFlops: m.ownFlops, Overhead: m.overhead(c.cost)}
	if len(c.t.steps) > 0 {
		s.PeakNode = m.g.Nodes[c.t.steps[c.t.at].Node].Name
		s.PeakFormula = m.formula(c.t, c.t.at)
	}
	_, flops, launches := m.again(c.t.steps)
	s.ExtraFlops, s.Again = s.ExtraFlops+flops, launches
	return s
}

// formula is the bytes alive at a step, as a formula of the dims. Values that are alike are added once, so many times.
func (m *model) formula(t *timeline, at int) string {
	count := map[uint64]int64{} // by look
	var first []int32           // the first value of each
	space := false
	for _, l := range t.lives {
		switch {
		case !l.alive(at):
		case l.scratch:
			space = true
		default:
			k := m.like.Look[l.owner]
			if count[k] == 0 {
				first = append(first, l.owner)
			}
			count[k]++
		}
	}
	sum := graph.Num(0)
	err := graph.Try(func() {
		for _, o := range first {
			sum = sum.Add(m.g.Values[o].Bytes().Mul(graph.Num(count[m.like.Look[o]])))
		}
		if space {
			sum = sum.Add(m.spaceFormula(m.g.Nodes[t.steps[at].Node]))
		}
	})
	if err != nil {
		return fmt.Sprint(t.live[at])
	}
	return sum.String()
}

// stashedBy is the bytes alive at the border between forward and backward that forward nodes made.
func (m *model) stashedBy(t *timeline) (sum int64) {
	border := m.border(t.steps)
	for _, l := range t.lives {
		if !l.scratch && int(l.first) < border && int(l.last) > border && !m.lasting[l.owner] {
			sum += l.bytes
		}
	}
	return sum
}

// memory splits what is held at the peak by owner class.
func (m *model) memory(c *candidate) Memory {
	mem := Memory{Weights: m.outside.State - m.outside.States, Optimizer: m.outside.States, Staging: m.outside.Staging}
	isGrad := make([]bool, len(m.g.Values))
	for _, d := range m.g.Grads {
		isGrad[m.owner[d.Grad.ID]] = true
	}
	for _, l := range c.t.lives {
		if !l.scratch && l.alive(c.t.at) && isGrad[l.owner] {
			mem.Gradients += l.bytes
		}
	}
	mem.Activations = c.placed.Height - mem.Gradients
	mem.Total = mem.Weights + mem.Optimizer + mem.Staging + c.placed.Height
	return mem
}

// fixedBytes is what lies outside the arena.
func (m *model) fixedBytes() int64 { return m.outside.Fixed() }

// Saved names the values whose bytes pass from the forward to the backward pass: what a framework that is given the
// plan must save, by the name of the storage. Parameters, states and inputs are there anyway and not among them.
func (p *Plan) Saved() []string {
	border := p.m.border(p.Steps)
	holds := make([]int32, len(p.t.lives)) // by life: what was written there last
	instance := 0
	for _, s := range p.Steps[:border] {
		for _, v := range p.m.p.Outputs.Of(p.m.op[s.Node]) {
			holds[p.t.buffer[instance]] = p.m.owners[v]
			instance++
		}
	}
	names := []string{}
	for i, l := range p.t.lives {
		if !l.scratch && int(l.first) < border && int(l.last) > border {
			names = append(names, p.Graph.Values[holds[i]].Name)
		}
	}
	slices.Sort(names)
	return names
}

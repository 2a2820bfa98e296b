package planner

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/planner/pack"
)

// Picture is a plan over its launches, for drawings: what is alive when, and where it lies.
type Picture struct {
	Launches []PictureLaunch
	Lives    []PictureLife
	// Peak is the first launch at which the most bytes are alive.
	Peak int
}

// PictureLaunch is one launch: the bytes alive during it, and during the same node in the step without recomputation
// (during the node before it, if it runs again).
type PictureLaunch struct {
	Node         string
	Phase        string // forward, backward or update
	Again        bool
	Live, Before int64
}

// Class is what a life is for.
type Class uint8

// The classes, by what lies in a life first.
const (
	Kept      Class = iota // made in the forward pass, read in the backward pass
	Passing                // made in the forward pass, spent there
	Remade                 // computed again
	Returning              // made in the backward pass: gradients of all kinds
	Updates                // made by the update
	WorkSpace              // of one launch
)

// String is the class in legends.
func (c Class) String() string {
	return [...]string{"kept for backward", "forward only", "computed again", "made in backward", "made by updates", "work space"}[c]
}

// PictureLife is a stretch of the arena in half-open launches [First, Last). Value is what lies there first; Over
// counts what is written over it.
type PictureLife struct {
	Value         string
	Class         Class
	First, Last   int
	Offset, Bytes int64
	Over          int
}

// drawn is where lives are drawn: those that have no places somewhere near the bottom.
func (p *Plan) drawn() []int64 {
	if !p.m.unplaced() {
		return p.Offsets
	}
	problem := pack.Problem{Buffers: make([]pack.Buffer, len(p.t.lives))}
	for i, l := range p.t.lives {
		problem.Buffers[i] = pack.Buffer{First: l.first, Last: l.last, Size: l.bytes}
	}
	s, err := pack.Solve(problem, pack.Effort{Looks: noSearch, Context: p.m.ctx})
	if err != nil {
		panic(fmt.Sprintf("planner: lives cannot be drawn: %v", err)) // without a capacity anything can be placed
	}
	return s.Offsets
}

// Picture draws nothing; it says what there is to draw.
func (p *Plan) Picture() *Picture {
	m := p.m
	pic := &Picture{Peak: p.t.at, Launches: make([]PictureLaunch, len(p.Steps)), Lives: make([]PictureLife, len(p.t.lives))}
	plain := m.simulate(m.order(nil))
	before := make([]int64, len(p.Graph.Nodes))
	for i, s := range plain.steps {
		before[s.Node] = plain.live[i]
	}
	last := int64(0)
	for i, s := range p.Steps {
		n := p.Graph.Nodes[s.Node]
		if !s.Again {
			last = before[s.Node]
		}
		pic.Launches[i] = PictureLaunch{n.Name, n.Phase.String(), s.Again, p.t.live[i], last}
	}
	border, offsets := m.border(p.Steps), p.drawn()
	for i, l := range p.t.lives {
		x := PictureLife{First: int(l.first), Last: int(l.last), Offset: offsets[i], Bytes: l.bytes, Over: -1}
		maker := p.Steps[l.first]
		if !l.scratch {
			x.Value = p.Graph.Values[l.owner].Name
		}
		switch phase := p.Graph.Nodes[maker.Node].Phase; {
		case l.scratch:
			x.Value, x.Class, x.Over = p.Graph.Nodes[maker.Node].Name, WorkSpace, 0
		case maker.Again:
			x.Class = Remade
		case phase == graph.Updating:
			x.Class = Updates
		case phase == graph.Backward:
			x.Class = Returning
		case x.Last > border:
			x.Class = Kept
		default:
			x.Class = Passing
		}
		pic.Lives[i] = x
	}
	for _, life := range p.t.buffer {
		pic.Lives[life].Over++
	}
	return pic
}

// Picture is that of the step as it is.
func (c *Curve) Picture() *Picture {
	kept := c.plans[0] // Kept
	m, cand := kept.search.m, kept.plan
	p := &Plan{Graph: m.g, m: m, t: cand.t, Steps: cand.t.steps, Offsets: cand.placed.Offsets}
	return p.Picture()
}

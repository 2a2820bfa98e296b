package planner

import (
	"context"
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/planner/launch"
	"memopt/planner/operators"
	"memopt/planner/outside"
	"memopt/planner/profile"
	"memopt/planner/recompute"
)

// model is a graph with numbers for its dims: what the strategies and the simulation work on. It does not change once
// it is made and priced. An owner is a value that others may show or be written over: all have its bytes.
type model struct {
	g       *graph.Graph
	binding *graph.Binding
	ctx     context.Context // polled by whatever works on the model
	lowered bool            // for a device that runs kernels
	log     *passLog        // what the passes of searches did

	like           *operators.Alike
	bytes          []int64 // by value
	owner          []int32 // by value: whose storage its bytes are in
	fixed, lasting []bool  // by owner: outside the arena; read after the last step
	outside        outside.Layout
	senders        *outside.States // once it was asked which states can stream
	unit           int64           // bytes of lives count in whole units: of the alignment, or 1 if they have no places

	// p is the step without its names. Operators are the nodes that are no views, in the graph's order; values are the
	// owners in the arena, in the order in which they are written.
	p       recompute.Problem
	nodes   []int32           // by operator: its node
	op      []int32           // by node: its operator, of a view the next one
	owners  []int32           // by value of p
	number  []int32           // by owner: its value in p, −1 outside the arena
	maker   []int32           // by value of p: the operator that writes it
	ends    map[int32][]int32 // by operator: the values of p that are held until it has run
	forward int               // how many nodes stand before the first that is not forward

	kind     []int32            // by node: the number of its price
	prices   []operators.Price  // of nodes that are alike; the first is a view's
	profile  *profile.Profile   // prices are its nanoseconds; nil: flops and bytes
	once     []int64            // by operator: nanoseconds of its first run, where there is a profile
	rates    map[string]float64 // by node: what a unit of its plain cost costs, where that was measured
	rate     float64            // and of the others
	flop     float64            // the time of a flop, in quarters of that of a byte that moves
	total    float64            // cost of one plain step
	flopsSum int64
	kept     *candidate // with everything kept, once that was asked for
	plain    *model     // the form that costs are relative to; nil is this one
	own      float64    // what this form costs beyond that
	ownFlops int64
}

const (
	// What a step may come to: bytes of all values and their work space, and operations. Some of it runs again, so sums
	// of several times as many bytes, and of twice the operations, have to be numbers.
	mostBytes = 1 << 60
	mostFlops = 1 << 62
	alignment = schedule.Aligned
)

// newModel binds the dims that a request has. Of the rest of it the context, the device and the passes that are off
// matter here.
func newModel(g *graph.Graph, r Request) (*model, error) {
	b, err := graph.Bind(r.Dims)
	if err != nil {
		return nil, err
	}
	log, err := newPassLog(r.Without)
	if err != nil {
		return nil, err
	}
	if err := g.CheckBinding(b); err != nil {
		return nil, err
	}
	values, nodes := len(g.Values), len(g.Nodes)
	m := &model{
		g: g, binding: b, ctx: r.Context, lowered: r.Lowered, log: log, like: operators.AlikeOf(g), unit: alignment,
		bytes: make([]int64, values), owner: make([]int32, values), fixed: make([]bool, values), lasting: make([]bool, values),
		op: make([]int32, nodes), number: slices.Repeat([]int32{-1}, values), forward: nodes,
		kind: make([]int32, nodes), prices: make([]operators.Price, 1), rate: 1, flop: g.BytesPerFlop() / 4,
	}
	if launch.Allocated(g) {
		m.unit = 1
	}
	m.p.Context = m.ctx
	if err := m.values(); err != nil {
		return nil, err
	}
	m.outside = outside.Of(g, m.bytes, outside.Streaming(g, b, r.States, r.StatesStay))
	if r.OutputsGiven {
		m.give()
	}
	for _, step := range []func() error{m.operators, m.replacements} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if m.profile = r.Prices(); m.profile != nil {
		m.time()
	}
	if err := outside.CheckStates(g, r.States); err != nil {
		return nil, err
	}
	return m, r.Elsewhere.Check(r.Prices())
}

// values evaluates the bytes of all values, of which those that are not computed lie outside the arena.
func (m *model) values() error {
	sizes, room := map[uint64]int64{}, int64(mostBytes)
	for i, v := range m.g.Values {
		bytes, met := sizes[m.like.Look[i]]
		if !met {
			shape, err := m.binding.Shape(v.Shape)
			if err == nil {
				bytes, err = operators.BytesOf(v, shape, m.binding)
			}
			if err != nil {
				return fmt.Errorf("value %q: %w", v.Name, err)
			}
			sizes[m.like.Look[i]] = bytes
		}
		if room -= bytes; room < 0 {
			return fmt.Errorf("value %q: it and those before it take more than %d bytes, which is the most", v.Name, int64(mostBytes))
		}
		m.owner[i], m.bytes[i], m.fixed[i] = int32(i), bytes, v.Kind != graph.Computed
	}
	return nil
}

// give takes the outputs out of the arena that fill the memory they lie in.
func (m *model) give() {
	owner := slices.Clone(m.owner)
	for _, n := range m.g.Nodes {
		if n.Op.View {
			owner[n.Outputs[0].ID] = owner[n.Inputs[0].ID]
		}
		for o, in := range n.Op.Overwrites {
			if n.Outputs[o] != nil {
				owner[n.Outputs[o].ID] = owner[n.Inputs[in].ID]
			}
		}
	}
	for _, v := range m.g.Outputs {
		if o := owner[v.ID]; m.bytes[o] == m.bytes[v.ID] {
			m.fixed[o] = true
		}
	}
}

// operators prices the nodes and makes p of them.
func (m *model) operators() error {
	p, used, room, work := &m.p, int64(0), int64(mostBytes), int64(mostFlops)
	for _, bytes := range m.bytes {
		used += bytes
	}
	room -= used
	p.Inputs.Reserve(len(m.g.Nodes), 3*len(m.g.Nodes)) // mostly a node reads no more than that, and makes one value
	p.Outputs.Reserve(len(m.g.Nodes), len(m.g.Nodes))
	var touched []int32
	for i, n := range m.g.Nodes {
		stop.Poll(m.ctx)
		op := int32(len(m.nodes))
		if m.op[i] = op; n.Phase != graph.Forward {
			m.forward = min(m.forward, i)
		}
		if n.Op.View {
			m.owner[n.Outputs[0].ID] = m.owner[n.Inputs[0].ID]
			continue
		}
		scratch, err := m.price(n)
		if err != nil {
			return fmt.Errorf("node %q (%s): %w", n.Name, n.Op.FullName(), err)
		}
		if room, work = room-scratch, work-m.flops(n.ID); room < 0 || work < 0 {
			return fmt.Errorf("node %q (%s): up to here the step takes more than %d bytes or %d operations, which is the most",
				n.Name, n.Op.FullName(), int64(mostBytes), int64(mostFlops))
		}
		for o, in := range n.Op.Overwrites {
			if n.Outputs[o] != nil {
				m.owner[n.Outputs[o].ID] = m.owner[n.Inputs[in].ID]
			}
		}
		if n.Phase == graph.Forward && p.Border == op {
			p.Border++
		}
		m.nodes = append(m.nodes, n.ID)
		touched = m.touched(touched[:0], n.Inputs)
		p.Inputs.Add(touched...)
		touched = m.touched(touched[:0], n.Outputs)
		p.Outputs.Add(touched...)
		for len(m.maker) < len(m.owners) {
			m.maker = append(m.maker, op)
		}
		cost := m.plainCost(n.ID)
		p.Cost, p.Work = append(p.Cost, cost), append(p.Work, scratch)
		m.total, m.flopsSum = m.total+cost, m.flopsSum+m.flops(n.ID)
	}
	m.last()
	return nil
}

// touched adds the values of p that values of the graph are, each once. What is not in the arena is none.
func (m *model) touched(all []int32, values []*graph.Value) []int32 {
	for _, v := range values {
		if v == nil || m.fixed[m.owner[v.ID]] {
			continue
		}
		o := m.owner[v.ID]
		if m.number[o] < 0 {
			m.number[o] = int32(len(m.owners))
			m.owners, m.p.Bytes = append(m.owners, o), append(m.p.Bytes, m.bytes[o])
		}
		if k := m.number[o]; !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

// last tells how long values stay: those that are read after the last step, or held outside the graph (graph.Hold).
func (m *model) last() {
	g, p := m.g, &m.p
	for _, v := range g.Outputs {
		m.lasting[m.owner[v.ID]] = true
	}
	for _, u := range g.Updates {
		m.lasting[m.owner[u.New.ID]] = true
	}
	if len(g.Holds) > 0 {
		p.Until, m.ends = make([]int32, len(p.Bytes)), map[int32][]int32{}
	}
	for _, h := range g.Holds {
		if v := m.number[m.owner[h.Value.ID]]; v >= 0 {
			p.Until[v] = max(p.Until[v], m.op[h.Until.ID]+1)
		}
	}
	for v, until := range p.Until {
		if until > 0 {
			m.ends[until-1] = append(m.ends[until-1], int32(v))
		}
	}
	p.Held = make([]bool, len(p.Bytes))
	for v, o := range m.owners {
		p.Held[v] = m.lasting[o] || int(m.until(int32(v))) == len(m.nodes) && len(m.nodes) > 0
	}
	p.Over.Reserve(len(m.nodes), 0)
	var over []int32
	for op, n := range m.nodes {
		over = m.overwritable(over[:0], m.g.Nodes[n], int32(op))
		p.Over.Add(over...)
	}
}

// until is how many operators run first before a value of p is held no more.
func (m *model) until(v int32) int32 {
	if m.p.Until == nil || v < 0 {
		return 0
	}
	return m.p.Until[v]
}

// overwritable adds the values of p whose bytes output 0 may be written over once they die: as large as it, and not held
// up to the node.
func (m *model) overwritable(all []int32, n *graph.Node, op int32) []int32 {
	out := n.Outputs[0]
	if out == nil || m.owner[out.ID] != out.ID || m.fixed[out.ID] || m.bytes[out.ID] == 0 {
		return all
	}
	size := m.bytes[out.ID]
	for _, v := range graph.Overwritable(n, func(v *graph.Value) int32 { return m.owner[v.ID] }) {
		o := m.owner[v.ID]
		if !m.fixed[o] && m.bytes[v.ID] == size && m.bytes[o] == size && m.until(m.number[o]) <= op {
			all = append(all, m.number[o])
		}
	}
	return all
}

// problem is p with bytes in whole units. forced names, by node, what must run again; nil is nothing.
func (m *model) problem(unit int64, forced []bool) *recompute.Problem {
	p := m.p
	if unit > 1 {
		up := func(bytes []int64) []int64 {
			bytes = slices.Clone(bytes)
			for i, b := range bytes {
				bytes[i] = (b + unit - 1) / unit * unit
			}
			return bytes
		}
		p.Bytes, p.Work = up(p.Bytes), up(p.Work)
	}
	if slices.Contains(forced, true) {
		p.Forced = make([]bool, len(p.Bytes))
		for v, op := range m.maker {
			p.Forced[v] = forced[m.nodes[op]] && !p.Held[v] && m.until(int32(v)) <= p.Border
		}
	}
	return &p
}

// unplaced reports whether lives get no places: the arena is then the bytes alive at once.
func (m *model) unplaced() bool { return m.unit == 1 }

// align is bytes in whole units.
func (m *model) align(bytes int64) int64 { return (bytes + m.unit - 1) / m.unit * m.unit }

// mayRunAgain reports whether a plan may repeat a node.
func (m *model) mayRunAgain(n *graph.Node) bool { return !n.Op.View && m.p.Again[m.op[n.ID]] }

// repeatable reports whether running a node again changes nothing.
func repeatable(n *graph.Node) bool {
	return n.Phase == graph.Forward && n.Op.Recompute != graph.Never && !n.Op.View && n.Op.Overwrites == nil
}

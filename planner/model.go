package planner

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"memopt/memopt/graph"
	"memopt/memopt/stop"
	"memopt/planner/recompute"
)

// model is a graph with numbers for its dims: what the strategies and the simulation work on. Slices are indexed by
// value or node ID.
type model struct {
	g       *graph.Graph
	binding *graph.Binding
	ctx     context.Context // polled by whatever works on the model

	like     *alike
	bytes    []int64     // by value; views have none of their own
	shapes   [][]int     // by number of a look (like.look)
	owner    []int32     // by value: whose storage its bytes are in
	fixed    []bool      // by owner: outside the arena
	lasting  []bool      // by owner: read after the last step
	may      []bool      // by node: a plan may run it again
	heights  [2]int64    // of the spaces outside the arena: state and staging
	states   int64       // bytes of optimizer states
	scratch  []int64     // by node
	lowered  bool        // for a device that runs kernels
	unit     int64       // bytes of lives count in whole units: of the alignment, or 1 if they have no places
	kind     []int32     // by node: the number of its price
	prices   []price     // of nodes that are alike; the first is a view's
	ops      []*graph.Op // by number of a price; nil for views
	cost     []float64
	rates    map[string]float64 // by node: what a unit of its plain cost costs, where that was measured
	rate     float64            // and of the others
	flop     float64            // the time of a flop, in quarters of that of a byte that moves
	inputs   recompute.Lists    // by node: owners read, each once, without fixed ones
	outputs  recompute.Lists    // by node: owners written, in the arena
	total    float64            // cost of one plain step
	flopsSum int64
	plain    *model  // the form that costs are told against; nil is this one
	own      float64 // what this form costs beyond that
	ownFlops int64
	forward  int // how many nodes stand before the first that is not forward
	sim      *simulator
	bare     nameless  // made when it is first asked for
	spare    [][]int32 // tables out of use
	log      *passLog  // what the passes of searches did
}

// price is what a node takes, before it is weighed: operations, and bytes read and written.
type price struct {
	flops int64
	moved float64 // a node may read what is large many times
}

// flops is a node's operations.
func (m *model) flops(node int32) int64 { return m.prices[m.kind[node]].flops }

// What a step may come to: bytes of all values and their work space, and operations. Some of it runs again, so sums of
// several times as many bytes, and of twice the operations, have to be numbers.
const (
	mostBytes = 1 << 60
	mostFlops = 1 << 62
)

// alignment of every offset: a cache line, and enough for any vector load.
const alignment = 64

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
	m := &model{
		g: g, binding: b, ctx: r.Context, lowered: r.Lowered, log: log, like: newAlike(g),
		bytes: make([]int64, len(g.Values)), owner: make([]int32, len(g.Values)),
		fixed: make([]bool, len(g.Values)), lasting: make([]bool, len(g.Values)),
		scratch: make([]int64, len(g.Nodes)), kind: make([]int32, len(g.Nodes)), prices: make([]price, 1), ops: make([]*graph.Op, 1), cost: make([]float64, len(g.Nodes)),
		rate: 1, flop: g.BytesPerFlop() / 4, forward: len(g.Nodes), unit: alignment,
	}
	if allocated(g) {
		m.unit = 1
	}
	sizes := make([]int64, len(m.like.looks))
	m.shapes = make([][]int, len(m.like.looks))
	for k, v := range m.like.looks {
		if m.shapes[k], err = b.Shape(v.Shape); err != nil {
			return nil, fmt.Errorf("value %q: %w", v.Name, err)
		}
		if sizes[k], err = m.bytesOf(v); err != nil {
			return nil, fmt.Errorf("value %q: %w", v.Name, err)
		}
	}
	room, work := int64(mostBytes), int64(mostFlops)
	for i, k := range m.like.look {
		if room -= sizes[k]; room < 0 {
			return nil, fmt.Errorf("value %q: it and those before it take more than %d bytes, which is the most", g.Values[i].Name, int64(mostBytes))
		}
		m.owner[i], m.bytes[i] = int32(i), sizes[k]
		m.settle(i, m.like.looks[k].Kind)
	}
	m.reserve()
	var touched []int32
	for i, is := range m.like.traits {
		stop.Poll(m.ctx)
		if is&isForward == 0 {
			m.forward = min(m.forward, i)
		}
		reads, makes := m.like.reads.Of(int32(i)), m.like.makes.Of(int32(i))
		if is&isView != 0 {
			m.owner[makes[0]] = m.owner[reads[0]]
		} else if err := m.price(g.Nodes[i]); err != nil {
			n := g.Nodes[i]
			return nil, fmt.Errorf("node %q (%s): %w", n.Name, n.Op.FullName(), err)
		}
		room, work = room-m.scratch[i], work-m.flops(int32(i))
		if room < 0 || work < 0 {
			n := g.Nodes[i]
			return nil, fmt.Errorf("node %q (%s): up to here the step takes more than %d bytes or %d operations, which is the most",
				n.Name, n.Op.FullName(), int64(mostBytes), int64(mostFlops))
		}
		if is&overwrites != 0 {
			for o, in := range m.ops[m.kind[i]].Overwrites {
				if makes[o] >= 0 {
					m.owner[makes[o]] = m.owner[reads[in]]
				}
			}
		}
		touched = m.touched(touched, reads)
		m.inputs.Add(touched...)
		touched = m.touched(touched, makes)
		m.outputs.Add(touched...)
	}
	for _, v := range g.Outputs {
		m.lasting[m.owner[v.ID]] = true
	}
	for _, u := range m.like.updates {
		m.lasting[m.owner[u.made]] = true
	}
	if err := m.replacements(); err != nil {
		return nil, err
	}
	m.sim = newSimulator(m)
	return m, nil
}

// settle gives a value that is not computed its place outside the arena.
func (m *model) settle(v int, kind graph.Kind) {
	space := &m.heights[0]
	switch kind {
	case graph.Computed:
		return
	case graph.Input:
		space = &m.heights[1]
	case graph.State:
		m.states += m.bytes[v]
	}
	m.fixed[v] = true
	*space = align(*space) + m.bytes[v]
}

// allocated reports whether a graph runs under an allocator of its own, which decides where values lie.
func allocated(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Recorded, func(r graph.Recorded) bool { return r.Name == graph.Allocator })
}

// unplaced reports whether lives get no places: the arena is then the bytes alive at once.
func (m *model) unplaced() bool { return m.unit == 1 }

// align is bytes in whole units.
func (m *model) align(bytes int64) int64 { return (bytes + m.unit - 1) / m.unit * m.unit }

// shape is a value's in numbers.
func (m *model) shape(v *graph.Value) []int { return m.shapes[m.like.look[v.ID]] }

// bytesOf is what a value takes. Its shape is numbers already, and their product is quicker than a formula; the formula
// says what is wrong with a product that is too large.
func (m *model) bytesOf(v *graph.Value) (int64, error) {
	product := uint64(v.Type.Size())
	for _, n := range m.shape(v) {
		high, low := bits.Mul64(product, uint64(n))
		if high != 0 || low > math.MaxInt64 {
			return m.binding.Eval(v.Bytes())
		}
		product = low
	}
	return int64(product), nil
}

// price evaluates the cost and work space of a node that is no view, once for those that are alike.
func (m *model) price(n *graph.Node) (err error) {
	k := m.like.first(n)
	if k != n.ID {
		m.kind[n.ID] = m.kind[k]
	} else {
		var p price
		if n.Op.Flops != nil {
			if failed := graph.Try(func() { p.flops, err = m.binding.Eval(n.Op.Flops(n)) }); failed != nil {
				return failed
			}
			if err != nil {
				return err
			}
		}
		if p.moved, err = m.transfers(n); err != nil {
			return err
		}
		m.kind[n.ID], m.prices, m.ops = int32(len(m.prices)), append(m.prices, p), append(m.ops, n.Op)
	}
	if k != n.ID && !m.lowered { // a kernel may need what is not told by the node alone
		m.scratch[n.ID] = m.scratch[k]
	} else if m.scratch[n.ID], err = m.workSpace(n); err != nil {
		return err
	}
	m.cost[n.ID] = m.plainCost(n.ID)
	m.total += m.cost[n.ID]
	m.flopsSum += m.flops(n.ID)
	return nil
}

// workSpace is the bytes that a node needs besides its outputs: what its kernels do where those run, else what the
// processor does.
func (m *model) workSpace(n *graph.Node) (bytes int64, err error) {
	if m.lowered {
		l, err := graph.Lower(n, m.binding, graph.PlanLimits)
		if err != nil {
			return 0, err
		}
		if l.Refused == "" {
			return l.Scratch, nil
		}
	}
	if n.Op.Scratch == nil {
		return 0, nil
	}
	if failed := graph.Try(func() { bytes, err = m.binding.Eval(n.Op.Scratch(n)) }); failed != nil {
		return 0, failed
	}
	return bytes, err
}

// spaceFormula is work space as a formula; what kernels need is a number.
func (m *model) spaceFormula(n *graph.Node) graph.Dim {
	if m.lowered || n.Op.Scratch == nil {
		return graph.Num(m.scratch[n.ID])
	}
	return n.Op.Scratch(n)
}

// reserve makes room for what all nodes touch.
func (m *model) reserve() {
	ins, outs := 0, 0
	count := func(values []int32) (n int) {
		for _, v := range values {
			if v >= 0 && !m.fixed[v] {
				n++
			}
		}
		return n
	}
	for i := range int32(len(m.g.Nodes)) {
		ins, outs = ins+count(m.like.reads.Of(i)), outs+count(m.like.makes.Of(i))
	}
	m.inputs.Reserve(len(m.g.Nodes), ins)
	m.outputs.Reserve(len(m.g.Nodes), outs)
}

// touched lists the owners of values, each once, that live in the arena. It writes over room.
func (m *model) touched(room, values []int32) []int32 {
	owners := room[:0]
	for _, v := range values {
		if v < 0 || m.fixed[m.owner[v]] {
			continue
		}
		if o := m.owner[v]; !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	return owners
}

// table is room for a number by value. What stands in it means nothing.
func (m *model) table() []int32 {
	last := len(m.spare) - 1
	if last < 0 {
		return make([]int32, len(m.g.Values))
	}
	t := m.spare[last]
	m.spare = m.spare[:last]
	return t
}

// done gives tables back.
func (m *model) done(tables ...[]int32) { m.spare = append(m.spare, tables...) }

// mayRunAgain reports whether a plan may repeat a node.
func (m *model) mayRunAgain(n *graph.Node) bool { return m.may[n.ID] }

// repeatable reports whether running a node again changes nothing.
func repeatable(n *graph.Node) bool {
	return n.Phase == graph.Forward && n.Op.Recompute != graph.Never && !n.Op.View && n.Op.Overwrites == nil
}

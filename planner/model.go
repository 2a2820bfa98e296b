package planner

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"memopt/memopt/graph"
	"memopt/planner/recompute"
)

// model is a graph with numbers for its dims: what the strategies and the
// simulation work on. Slices are indexed by value or node ID.
type model struct {
	g       *graph.Graph
	binding *graph.Binding

	like     *alike
	bytes    []int64 // by value; views have none of their own
	shapes   [][]int // by number of a shape (like.shape)
	owner    []int32 // by value: whose storage its bytes are in
	fixed    []bool  // by owner: outside the arena
	lasting  []bool  // by owner: read after the last step
	may      []bool  // by node: a plan may run it again
	scratch  []int64 // by node
	lowered  bool    // for a device that runs kernels
	flops    []int64 // by node
	moved    []int64 // by node: bytes read and written
	cost     []float64
	inputs   recompute.Lists // by node: owners read, each once, without fixed ones
	outputs  recompute.Lists // by node: owners written, in the arena
	total    float64         // cost of one plain step
	flopsSum int64
	plain    *model  // the form that costs are told beside; nil is this one
	own      float64 // what this form costs beyond that
	ownFlops int64
	backward int // first step of the plain order that is not forward
	sim      *simulator
	bare     nameless // made when it is first asked for
}

// alignment of every offset: a cache line, and enough for any vector load.
const alignment = 64

func newModel(g *graph.Graph, dims map[string]int64, lowered bool) (*model, error) {
	b, err := graph.Bind(dims)
	if err != nil {
		return nil, err
	}
	if err := g.CheckBinding(b); err != nil {
		return nil, err
	}
	m := &model{
		g: g, binding: b, lowered: lowered, like: newAlike(g),
		bytes: make([]int64, len(g.Values)), owner: make([]int32, len(g.Values)),
		fixed: make([]bool, len(g.Values)), lasting: make([]bool, len(g.Values)),
		scratch: make([]int64, len(g.Nodes)), flops: make([]int64, len(g.Nodes)), moved: make([]int64, len(g.Nodes)), cost: make([]float64, len(g.Nodes)),
		backward: len(g.Nodes),
	}
	m.shapes = make([][]int, len(m.like.shapes))
	for i, v := range g.Values {
		m.owner[i] = int32(i)
		if k := m.like.shape[i]; m.shapes[k] == nil {
			if m.shapes[k], err = b.Shape(v.Shape); err != nil {
				return nil, fmt.Errorf("value %q: %w", v.Name, err)
			}
		}
		if m.bytes[i], err = m.bytesOf(v); err != nil {
			return nil, fmt.Errorf("value %q: %w", v.Name, err)
		}
		m.fixed[i] = v.Kind != graph.Computed
	}
	m.reserve()
	var touched []int32
	for i, n := range g.Nodes {
		if n.Phase != graph.Forward && m.backward == len(g.Nodes) {
			m.backward = i
		}
		if n.Op.View {
			out, in := n.Outputs[0].ID, n.Inputs[0].ID
			m.owner[out] = m.owner[in]
		}
		for o, in := range n.Op.Overwrites {
			if n.Outputs[o] != nil {
				m.owner[n.Outputs[o].ID] = m.owner[n.Inputs[in].ID]
			}
		}
		if err := m.price(n); err != nil {
			return nil, fmt.Errorf("node %q (%s): %w", n.Name, n.Op.FullName(), err)
		}
		touched = m.touched(touched, n.Inputs)
		m.inputs.Add(touched...)
		touched = m.touched(touched, n.Outputs)
		m.outputs.Add(touched...)
	}
	for _, v := range g.Outputs {
		m.lasting[m.owner[v.ID]] = true
	}
	for _, u := range g.Updates {
		m.lasting[m.owner[u.New.ID]] = true
	}
	if err := m.replacements(); err != nil {
		return nil, err
	}
	m.sim = newSimulator(m)
	return m, nil
}

// shape is a value's in numbers.
func (m *model) shape(v *graph.Value) []int { return m.shapes[m.like.shape[v.ID]] }

// bytesOf is what a value takes. Its shape is numbers already, and their product
// is quicker than a formula; the formula says what is wrong with a product that
// is too large.
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

// price evaluates cost and work space, once for nodes that are alike.
func (m *model) price(n *graph.Node) (err error) {
	if n.Op.View {
		return nil
	}
	k := m.like.first(n)
	if k != n.ID {
		m.flops[n.ID], m.moved[n.ID] = m.flops[k], m.moved[k]
	} else {
		if n.Op.Flops != nil {
			if failed := graph.Try(func() { m.flops[n.ID], err = m.binding.Eval(n.Op.Flops(n)) }); failed != nil {
				return failed
			}
			if err != nil {
				return err
			}
		}
		if m.moved[n.ID], err = m.transfers(n); err != nil {
			return err
		}
	}
	if k != n.ID && !m.lowered { // a kernel may need what is not told by the node alone
		m.scratch[n.ID] = m.scratch[k]
	} else if m.scratch[n.ID], err = m.workSpace(n); err != nil {
		return err
	}
	m.cost[n.ID] = m.plainCost(n.ID)
	m.total += m.cost[n.ID]
	m.flopsSum += m.flops[n.ID]
	return nil
}

// workSpace is the bytes that a node needs beside its outputs: what its kernels
// do where those run, else what the processor does.
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
	if m.lowered {
		return graph.Num(m.scratch[n.ID])
	}
	return n.Op.Scratch(n)
}

// reserve makes room for what all nodes touch.
func (m *model) reserve() {
	ins, outs := 0, 0
	for _, x := range m.g.Nodes {
		ins, outs = ins+len(x.Inputs), outs+len(x.Outputs)
	}
	m.inputs.Reserve(len(m.g.Nodes), ins)
	m.outputs.Reserve(len(m.g.Nodes), outs)
}

// touched lists the owners of values, each once, that live in the arena. It
// writes over room.
func (m *model) touched(room []int32, vs []*graph.Value) []int32 {
	owners := room[:0]
	for _, v := range vs {
		if v == nil || m.fixed[m.owner[v.ID]] {
			continue
		}
		if o := m.owner[v.ID]; !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	return owners
}

// mayRunAgain reports whether a plan may repeat a node.
func (m *model) mayRunAgain(n *graph.Node) bool { return m.may[n.ID] }

// repeatable reports whether running a node again changes nothing.
func repeatable(n *graph.Node) bool {
	return n.Phase == graph.Forward && n.Op.Recompute != graph.Never && !n.Op.View && n.Op.Overwrites == nil
}

package session

import (
	"context"
	"fmt"

	"memopt/memopt/graph"
	"memopt/planner"
	"memopt/planner/pack"
)

// pattern is a program prepared for some shapes and results: its steps, and the place of each
// value.
type pattern struct {
	p       *program
	binding *graph.Binding
	steps   []step
	tensors []*graph.Tensor // by value; nil: not needed
	lives   []life
	life    []int32 // by owner of bytes: index in lives; −1: not in the arena
	direct  []int32 // by value: index of the result that it is computed into; −1: none
	results []*graph.Value
	key     string
	height  int64
	bound   int64 // most bytes alive at once
	inputs  int64 // bytes of the inputs in use
	outputs int64
	// Of a device:
	schedule *planner.Schedule
	places   Places          // where inputs and outputs are bound
	device   Device          // nil: the processor
	block    *block          // memory of its values
	state    int64           // bytes of weights on the device
	fed      map[string]bool // inputs whose values are on the device
}

// step is one node.
type step struct {
	call    graph.Call
	run     func(*graph.Call)
	scratch int32 // index in lives; −1: none
	begins  []int32
	ends    []int32 // lives that end here
}

// life is the live range of some bytes, in steps.
type life struct {
	first, last int32
	bytes       int64
	offset      int64
	name        string
}

// align is the alignment of values in a pattern: a cache line.
const align = 64

func aligned(n int64) int64 { return (n + align - 1) / align * align }

// plan makes the pattern for sizes of dims and some results.
func (s *Session) plan(ctx context.Context, p *program, b *graph.Binding, fetched []*graph.Value) (*pattern, error) {
	t := &pattern{p: p, binding: b, results: fetched, tensors: make([]*graph.Tensor, len(p.g.Values)), life: make([]int32, len(p.g.Values)), direct: make([]int32, len(p.g.Values))}
	nodes := t.needed()
	for i := range t.life {
		t.life[i], t.direct[i] = -1, -1
	}
	if err := t.shape(nodes); err != nil {
		return nil, err
	}
	t.place(nodes)
	problem := pack.Problem{Buffers: make([]pack.Buffer, len(t.lives))}
	alive, at := int64(0), map[int32]int64{}
	for i, l := range t.lives {
		problem.Buffers[i] = pack.Buffer{First: l.first, Last: l.last, Size: aligned(l.bytes), Align: align}
		at[l.first] += aligned(l.bytes)
		at[l.last] -= aligned(l.bytes)
	}
	for i := range len(t.steps) {
		alive += at[int32(i)]
		t.bound = max(t.bound, alive)
	}
	if !s.options.Pattern {
		return t, nil
	}
	placed, err := pack.Solve(problem, pack.Effort{Context: ctx})
	if err != nil {
		return nil, err
	}
	for i := range t.lives {
		t.lives[i].offset = placed.Offsets[i]
	}
	t.height = placed.Height
	return t, nil
}

// needed lists the nodes that the results depend on.
func (t *pattern) needed() []*graph.Node {
	live := make([]bool, len(t.p.g.Values))
	for _, v := range t.results {
		live[v.ID] = true
	}
	keep, count := make([]bool, len(t.p.g.Nodes)), 0
	for i := len(t.p.g.Nodes) - 1; i >= 0; i-- {
		n := t.p.g.Nodes[i]
		for _, v := range n.Outputs {
			keep[i] = keep[i] || v != nil && live[v.ID]
		}
		if !keep[i] {
			continue
		}
		count++
		for _, v := range n.Inputs {
			if v != nil {
				live[v.ID] = true
			}
		}
	}
	nodes := make([]*graph.Node, 0, count)
	for i, n := range t.p.g.Nodes {
		if keep[i] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// shape sets the shapes of all values that the nodes use, and the content of constants.
func (t *pattern) shape(nodes []*graph.Node) error {
	const mostBytes = 1 << 60
	room := int64(mostBytes)
	give := func(v *graph.Value) error {
		if v == nil || t.tensors[v.ID] != nil {
			return nil
		}
		if x := t.p.fixed[v.ID]; x != nil {
			t.tensors[v.ID] = x
			return nil
		}
		if v.Kind == graph.Const {
			x, err := v.Tensor(t.binding)
			t.tensors[v.ID] = x
			return err
		}
		shape, err := t.binding.Shape(v.Shape)
		if err != nil {
			return fmt.Errorf("value %q: %w", v.Name, err)
		}
		n, err := t.binding.Eval(v.Bytes())
		if err != nil {
			return fmt.Errorf("value %q: %w", v.Name, err)
		}
		if room -= n; room < 0 {
			return fmt.Errorf("value %q: it and the values before it take more than %d bytes, the maximum", v.Name, int64(mostBytes))
		}
		t.tensors[v.ID] = &graph.Tensor{Type: v.Type, Shape: shape}
		return nil
	}
	for _, n := range nodes {
		for _, list := range [][]*graph.Value{n.Inputs, n.Outputs} {
			for _, v := range list {
				if err := give(v); err != nil {
					return err
				}
			}
		}
	}
	for _, v := range t.results {
		if err := give(v); err != nil {
			return err
		}
	}
	for _, v := range t.p.g.Inputs {
		if x := t.tensors[v.ID]; x != nil {
			t.inputs += t.bytes(v)
		}
	}
	return nil
}

// bytes is the bytes of a value.
func (t *pattern) bytes(v *graph.Value) int64 {
	x := t.tensors[v.ID]
	return int64(x.Len()) * x.Type.Size()
}

// place makes steps of nodes, and finds the live ranges of their values.
func (t *pattern) place(nodes []*graph.Node) {
	owner := t.p.owner
	last := make([]int32, len(t.p.g.Values)) // by owner: the last step that reads it
	steps := int32(0)
	for _, n := range nodes {
		if n.Op.View {
			continue
		}
		for _, v := range n.Inputs {
			if v != nil {
				last[owner[v.ID].ID] = steps
			}
		}
		steps++
	}
	// A result is computed in its final place, unless it shares its bytes with another value.
	for k, v := range t.results {
		o := owner[v.ID]
		last[o.ID] = steps
		if o.Kind == graph.Computed && t.direct[o.ID] < 0 && t.bytes(o) == t.bytes(v) {
			t.direct[o.ID] = int32(k)
		}
		t.outputs += t.bytes(v)
	}
	t.steps = make([]step, 0, steps)

	for _, n := range nodes {
		if n.Op.View {
			continue
		}
		at := int32(len(t.steps))
		st := step{call: graph.Call{Node: n, In: t.list(n.Inputs), Out: t.list(n.Outputs)}, run: n.Op.Eval, scratch: -1}
		if n.Op.Fast != nil {
			st.run = n.Op.Fast
		}
		if n.Op.Scratch != nil {
			if bytes, err := t.binding.Eval(n.Op.Scratch(n)); err == nil && bytes > 0 {
				st.scratch = t.live(at, at+1, bytes, "work space of "+n.Name)
				st.begins, st.ends = append(st.begins, st.scratch), append(st.ends, st.scratch)
			}
		}
		for i, v := range n.Outputs {
			if v == nil || t.direct[v.ID] >= 0 {
				continue
			}
			end := max(last[v.ID], at) + 1
			if i == 0 {
				if l := t.overwritable(n, at, last); l >= 0 {
					t.life[v.ID] = l
					t.lives[l].last = end
					continue
				}
			}
			t.life[v.ID] = t.live(at, end, t.bytes(v), v.Name)
			st.begins = append(st.begins, t.life[v.ID])
		}
		t.steps = append(t.steps, st)
	}
	for l := range t.lives {
		if at := t.lives[l].last - 1; at < steps && !(t.steps[at].scratch == int32(l)) {
			t.steps[at].ends = append(t.steps[at].ends, int32(l))
		}
	}
}

func (t *pattern) live(first, last int32, bytes int64, name string) int32 {
	t.lives = append(t.lives, life{first: first, last: last, bytes: bytes, name: name})
	return int32(len(t.lives) - 1)
}

func (t *pattern) list(vs []*graph.Value) []*graph.Tensor {
	out := make([]*graph.Tensor, len(vs))
	for i, v := range vs {
		if v != nil {
			out[i] = t.tensors[v.ID]
		}
	}
	return out
}

// overwritable is the live range of an input that ends here and that output 0 may be computed into:
// of the same size, and read through no other input. −1: none.
func (t *pattern) overwritable(n *graph.Node, at int32, last []int32) int32 {
	for _, v := range graph.Overwritable(n, func(v *graph.Value) *graph.Value { return t.p.owner[v.ID] }) {
		o, size := t.p.owner[v.ID], t.bytes(n.Outputs[0])
		if l := t.life[o.ID]; size > 0 && l >= 0 && last[o.ID] == at && t.bytes(v) == size && t.lives[l].bytes == size {
			return l
		}
	}
	return -1
}

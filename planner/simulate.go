package planner

import "memopt/memopt/graph"

// Step is one launch: a node, for the first time or again.
type Step struct {
	Node  int32
	Again bool
}

// order is the plain order with the nodes of again put in where they are
// first needed. Views are not steps.
func (m *model) order(again []bool) []Step {
	steps := make([]Step, 0, len(m.g.Nodes)+16)
	made := make([]bool, len(m.g.Nodes))
	var remake func(node int32)
	remake = func(node int32) {
		if made[node] {
			return
		}
		made[node] = true
		for _, in := range m.inputs[node] {
			if p := m.g.Values[in].Def; again[p.ID] {
				remake(p.ID)
			}
		}
		steps = append(steps, Step{node, true})
	}
	for i, n := range m.g.Nodes {
		if n.Op.View {
			continue
		}
		if n.Phase != graph.Forward {
			for _, in := range m.inputs[i] {
				if p := m.g.Values[in].Def; again[p.ID] {
					remake(p.ID)
				}
			}
		}
		steps = append(steps, Step{Node: int32(i)})
	}
	return steps
}

// A storage is the bytes of one owner, computed once: number 2·owner for the
// first time, 2·owner+1 for again.

// timeline is the exact simulation of a list of steps.
type timeline struct {
	steps []Step
	// By storage: the buffer it lies in, −1 if it is never written.
	buffer []int32
	lives  []life // by buffer, then one for each step with work space
	live   []int64
	peak   int64
	at     int // the first step of the peak
}

// life is one stretch of arena: half-open steps [first, last).
type life struct {
	first, last int32
	bytes       int64
	owner       int32 // the value that lies there first
	scratch     bool
}

// simulate derives every life from the steps.
func (m *model) simulate(steps []Step) *timeline {
	t := &timeline{steps: steps}
	end := int32(len(steps))
	n := 2 * len(m.g.Values)
	current := make([]uint8, len(m.g.Values)) // by owner: which computation is read now
	last := make([]int32, n)                  // by storage: last step that touches it

	for i, s := range steps {
		if s.Again {
			for _, o := range m.outputs[s.Node] {
				current[o] = 1
			}
		}
		for _, o := range m.inputs[s.Node] {
			last[2*o+int32(current[o])] = int32(i)
		}
		for _, o := range m.outputs[s.Node] {
			last[2*o+int32(current[o])] = int32(i)
		}
	}
	for o, is := range m.lasting {
		if is && !m.fixed[o] {
			last[2*int32(o)+int32(current[o])] = end
		}
	}

	clear(current)
	t.buffer = make([]int32, n)
	for i := range t.buffer {
		t.buffer[i] = -1
	}
	for i, s := range steps {
		node := m.g.Nodes[s.Node]
		now := int32(i)
		// The reads come first: a node that runs again reads what is current.
		over := int32(-1)
		if out := node.Outputs[0]; out != nil && len(node.Op.InPlace) > 0 {
			over = m.overwritable(t, node, current, last, now)
		}
		if s.Again {
			for _, o := range m.outputs[s.Node] {
				current[o] = 1
			}
		}
		for _, o := range m.outputs[s.Node] {
			st := 2*o + int32(current[o])
			if over >= 0 && o == node.Outputs[0].ID {
				t.buffer[st] = over
				t.lives[over].last = max(t.lives[over].last, last[st]+1)
				continue
			}
			t.buffer[st] = int32(len(t.lives))
			t.lives = append(t.lives, life{first: now, last: min(last[st]+1, end), bytes: m.bytes[o], owner: o})
		}
		if m.scratch[s.Node] > 0 {
			t.lives = append(t.lives, life{first: now, last: now + 1, bytes: m.scratch[s.Node], owner: -1, scratch: true})
		}
	}

	diff := make([]int64, end+1)
	for i := range t.lives {
		l := &t.lives[i]
		l.last = min(l.last, end)
		diff[l.first] += l.bytes
		diff[l.last] -= l.bytes
	}
	t.live = diff[:end]
	sum := int64(0)
	for i, d := range diff[:end] {
		sum += d
		t.live[i] = sum
		if sum > t.peak {
			t.peak, t.at = sum, i
		}
	}
	return t
}

// overwritable finds a buffer that output 0 may be written over: an input
// whose storage dies here, is as large, and is read through no other input.
func (m *model) overwritable(t *timeline, n *graph.Node, current []uint8, last []int32, now int32) int32 {
	out := n.Outputs[0].ID
	if m.owner[out] != out || m.fixed[out] {
		return -1
	}
	ins, _ := n.Op.Ports()
	for _, i := range n.Op.InPlace {
		to := i
		if i < len(ins) && ins[i].Variadic {
			to = len(n.Inputs) - 1
		}
		for k := i; k <= to; k++ {
			v := n.In(k)
			if v == nil || m.fixed[m.owner[v.ID]] || m.bytes[v.ID] != m.bytes[out] || m.bytes[out] == 0 {
				continue
			}
			o := m.owner[v.ID]
			st := 2*o + int32(current[o])
			if m.bytes[o] != m.bytes[out] || last[st] != now || t.buffer[st] < 0 || t.lives[t.buffer[st]].last > now+1 {
				continue
			}
			shared := false
			for j, w := range n.Inputs {
				shared = shared || j != k && w != nil && m.owner[w.ID] == o
			}
			if !shared {
				return t.buffer[st]
			}
		}
	}
	return -1
}

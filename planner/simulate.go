package planner

import (
	"memopt/memopt/stop"
	"memopt/planner/recompute"
	"slices"
)

// Step is one launch: a node, for the first time or again.
type Step struct {
	Node  int32 `json:"node"`
	Again bool  `json:"again,omitempty"`
}

// timeline is the exact simulation of a list of steps.
type timeline struct {
	steps []Step
	// By instance: the life it lies in. Every launch makes an instance of each owner that it writes, in the order of
	// outputs. Readers read the newest, but for what lasts to the end, or is still held: that stays where it was made
	// first.
	buffer []int32
	lives  []life  // work space has lives of its own between the others
	live   []int64 // by step: bytes alive
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

// simulator is what every simulation of a model needs: facts that do not change, and memory to use again, since a
// search simulates thousands of sets.
type simulator struct {
	plain   []int32         // the plain order: nodes that are no views
	later   []bool          // by place in that: not of the forward pass
	forward int             // how many of them come before the first that is not forward: where the passes meet, with whatever runs again behind
	maker   []int32         // by owner: the node, −1
	over    recompute.Lists // by node: owners that output 0 may be written over, if they die
	out     []int32         // by node: the owner of output 0, where there are any
	ends    []int32         // owners in the arena that are read after the last step
	holds   *holds          // nil if nothing is held
	made    []bool          // by node: it was made again
	current []int32         // by owner: the instance that is read now
	last    []int32         // by instance: last step that touches it
	trials  *trials         // made when one is asked for
}

func newSimulator(m *model) *simulator {
	s := &simulator{
		maker: m.table(), made: make([]bool, len(m.g.Nodes)), current: m.table(), forward: -1, out: make([]int32, len(m.g.Nodes)),
	}
	for v := range s.maker {
		s.maker[v] = -1
	}
	s.plain, s.later = make([]int32, 0, len(m.g.Nodes)), make([]bool, 0, len(m.g.Nodes))
	s.holds = newHolds(m)
	s.over.Reserve(len(m.g.Nodes), 0)
	var over []int32
	for i, is := range m.like.traits {
		n, later := int32(i), is&isForward == 0
		makes := m.like.makes.Of(n)
		for _, v := range makes {
			if v >= 0 {
				s.maker[v] = n
			}
		}
		if over = over[:0]; is&isView == 0 {
			if later && s.forward < 0 {
				s.forward = len(s.plain)
			}
			s.plain, s.later = append(s.plain, n), append(s.later, later)
			over = slices.DeleteFunc(m.overwritable(over, n), func(o int32) bool { return s.holds.until(o) > int32(len(s.plain)-1) })
			if len(over) > 0 {
				s.out[n] = makes[0]
			}
		}
		s.over.Add(over...)
	}
	if s.forward < 0 {
		s.forward = len(s.plain)
	}
	for o, is := range m.lasting {
		if is && !m.fixed[o] {
			s.ends = append(s.ends, int32(o))
		}
	}
	return s
}

// another is the same model with a simulator of its own, so that both may simulate at once.
func (m *model) another() *model {
	n, sim := *m, *m.sim
	sim.made, sim.current = make([]bool, len(sim.made)), make([]int32, len(sim.current))
	sim.last, sim.trials, sim.holds = nil, nil, sim.holds.another()
	n.sim, n.spare = &sim, nil
	return &n
}

// overwritable adds the owners whose bytes output 0 may be written over once they die: inputs that the operator allows,
// as large, and read through no other input.
func (m *model) overwritable(owners []int32, node int32) []int32 {
	op := m.ops[m.kind[node]]
	out, reads := m.like.makes.Of(node)[0], m.like.reads.Of(node)
	if len(op.InPlace) == 0 || out < 0 || m.owner[out] != out || m.fixed[out] || m.bytes[out] == 0 {
		return owners
	}
	ins, _ := op.Ports()
	for _, i := range op.InPlace {
		to := i
		if i < len(ins) && ins[i].Variadic {
			to = len(reads) - 1
		}
		for k := i; k <= min(to, len(reads)-1); k++ {
			v := reads[k]
			if v < 0 || m.fixed[m.owner[v]] || m.bytes[v] != m.bytes[out] || m.bytes[m.owner[v]] != m.bytes[out] {
				continue
			}
			shared := false
			for j, w := range reads {
				shared = shared || j != k && w >= 0 && m.owner[w] == m.owner[v]
			}
			if !shared {
				owners = append(owners, m.owner[v])
			}
		}
	}
	return owners
}

// order is the plain order with the nodes of again put in where they are first needed. Views are not steps.
func (m *model) order(again []bool) []Step {
	steps := make([]Step, 0, len(m.g.Nodes)+16)
	s := m.sim
	clear(s.made)
	s.holds.begin()
	for i, n := range s.plain {
		if i >= s.forward && s.later[i] {
			steps = m.remake(steps, again, n)
		}
		steps = append(steps, Step{Node: n})
		s.holds.end(n)
	}
	return steps
}

// stays reports whether an owner that was made is where it was made first, whatever ran again.
func (m *model) stays(owner int32) bool { return m.lasting[owner] || m.sim.holds.held(owner) }

// remake puts in what a node reads and is to be made again.
func (m *model) remake(steps []Step, again []bool, node int32) []Step {
	for _, in := range m.inputs.Of(node) {
		if p := m.sim.maker[in]; again[p] && !m.sim.made[p] && !m.stays(in) {
			m.sim.made[p] = true
			steps = append(m.remake(steps, again, p), Step{p, true})
		}
	}
	return steps
}

// lastReads is, by instance, the last step that touches it. The list is good until it is made for other steps.
func (m *model) lastReads(steps []Step) []int32 {
	end := int32(len(steps))
	current, last := m.sim.current, m.sim.last[:0]
	m.sim.holds.begin()
	for i, s := range steps {
		for _, o := range m.inputs.Of(s.Node) {
			last[current[o]] = int32(i)
		}
		for _, o := range m.outputs.Of(s.Node) {
			if !s.Again || !m.stays(o) {
				current[o] = int32(len(last))
			}
			last = append(last, int32(i))
		}
		if !s.Again {
			for _, o := range m.sim.holds.end(s.Node) {
				last[current[o]] = int32(i)
			}
		}
	}
	for _, o := range m.sim.ends {
		last[current[o]] = end
	}
	m.sim.last = last
	return last
}

// sumUp makes differences the bytes alive, and finds their peak.
func sumUp(live []int64) (peak int64, at int) {
	sum := int64(0)
	for i, d := range live {
		sum += d
		live[i] = sum
		if sum > peak {
			peak, at = sum, i
		}
	}
	return peak, at
}

// simulate derives every life from the steps.
func (m *model) simulate(steps []Step) *timeline {
	stop.Poll(m.ctx)
	end := int32(len(steps))
	current, last := m.sim.current, m.lastReads(steps)
	t := &timeline{steps: steps, lives: make([]life, 0, len(last)+len(last)/8), buffer: make([]int32, 0, len(last)), live: make([]int64, end+1)}
	m.sim.holds.begin()
	for i, s := range steps {
		now := int32(i)
		// The reads come first: a node that runs again reads what is current.
		over, into := int32(-1), int32(-1)
		for _, o := range m.sim.over.Of(s.Node) {
			in := current[o]
			if b := t.buffer[in]; last[in] == now && t.lives[b].last <= now+1 {
				over, into = b, m.sim.out[s.Node]
				break
			}
		}
		for _, o := range m.outputs.Of(s.Node) {
			made := int32(len(t.buffer))
			if !s.Again || !m.stays(o) {
				current[o] = made
			}
			if o == into {
				t.buffer = append(t.buffer, over)
				t.lives[over].last = max(t.lives[over].last, min(last[made]+1, end))
				continue
			}
			t.buffer = append(t.buffer, int32(len(t.lives)))
			t.lives = append(t.lives, life{first: now, last: min(last[made]+1, end), bytes: m.bytes[o], owner: o})
		}
		if m.scratch[s.Node] > 0 {
			t.lives = append(t.lives, life{first: now, last: now + 1, bytes: m.scratch[s.Node], owner: -1, scratch: true})
		}
		if !s.Again {
			m.sim.holds.end(s.Node)
		}
	}

	for _, l := range t.lives {
		t.live[l.first] += l.bytes
		t.live[l.last] -= l.bytes
	}
	t.live = t.live[:end]
	t.peak, t.at = sumUp(t.live)
	return t
}

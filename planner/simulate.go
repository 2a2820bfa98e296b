package planner

import (
	"slices"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/planner/launch"
)

// Step is one launch: a node, for the first time or again.
type Step = launch.Step

// timeline is the exact simulation of a list of steps.
type timeline struct {
	steps []Step
	// By instance: the life it lies in. Every launch makes an instance of each value that it writes, in the order of
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
	owner       int32 // the value of the graph that lies there first
	scratch     bool
}

// alive reports whether there is anything at a step.
func (l *life) alive(at int) bool { return int(l.first) <= at && at < int(l.last) }

// order is the plain order with the nodes of again put in where they are first needed behind the forward pass. Views
// are not steps, and no set is that nothing runs again.
func (m *model) order(again []bool) []Step {
	steps := make([]Step, 0, len(m.nodes)+16)
	made, ran := make([]bool, len(m.nodes)), make([]bool, len(m.nodes))
	var remake func(op int32)
	remake = func(op int32) {
		for _, v := range m.p.Inputs.Of(op) {
			if by := m.maker[v]; again[m.nodes[by]] && !made[by] && !m.stays(v, ran) {
				made[by] = true
				remake(by)
				steps = append(steps, Step{Node: m.nodes[by], Again: true})
			}
		}
	}
	for op, n := range m.nodes {
		if again != nil && op >= int(m.p.Border) && m.g.Nodes[n].Phase != graph.Forward {
			remake(int32(op))
		}
		steps, ran[op] = append(steps, Step{Node: n}), true
	}
	return steps
}

// stays reports whether a value of p that was made is where it was made first, whatever ran again: it lasts, or is held
// until an operator that has not run.
func (m *model) stays(v int32, ran []bool) bool {
	until := m.until(v)
	return m.lasting[m.owners[v]] || until > 0 && !ran[until-1]
}

// hold keeps what one launch made until a step, though nothing reads it.
type hold struct{ instance, until int32 }

// lastReads is, by instance, the last step that touches or holds it.
func (m *model) lastReads(steps []Step, holds []hold) []int32 {
	end := int32(len(steps))
	current, ran, last := make([]int32, len(m.owners)), make([]bool, len(m.nodes)), make([]int32, 0, len(steps)+len(steps)/8)
	for i, s := range steps {
		op := m.op[s.Node]
		for _, v := range m.p.Inputs.Of(op) {
			last[current[v]] = int32(i)
		}
		for _, v := range m.p.Outputs.Of(op) {
			if !s.Again || !m.stays(v, ran) {
				current[v] = int32(len(last))
			}
			last = append(last, int32(i))
		}
		if !s.Again {
			ran[op] = true
			for _, v := range m.ends[op] {
				last[current[v]] = int32(i)
			}
		}
	}
	for v, o := range m.owners {
		if m.lasting[o] {
			last[current[v]] = end
		}
	}
	for _, h := range holds {
		last[h.instance] = max(last[h.instance], h.until)
	}
	return last
}

// simulate derives every life from the steps.
func (m *model) simulate(steps []Step) *timeline { return m.simulateHolding(steps, nil) }

// simulateHolding is simulate where something is held, too.
func (m *model) simulateHolding(steps []Step, holds []hold) *timeline {
	stop.Poll(m.ctx)
	end, last := int32(len(steps)), m.lastReads(steps, holds)
	current, ran := make([]int32, len(m.owners)), make([]bool, len(m.nodes))
	t := &timeline{steps: steps, lives: make([]life, 0, len(last)+len(last)/8), buffer: make([]int32, 0, len(last)), live: make([]int64, end+1)}
	for i, s := range steps {
		now, op := int32(i), m.op[s.Node]
		over := int32(-1) // the life that the first output is written over
		for _, v := range m.p.Over.Of(op) {
			// The reads come first: a node that runs again reads what is current.
			if in := current[v]; last[in] == now && t.lives[t.buffer[in]].last <= now+1 {
				over = t.buffer[in]
				break
			}
		}
		for k, v := range m.p.Outputs.Of(op) {
			made := int32(len(t.buffer))
			if !s.Again || !m.stays(v, ran) {
				current[v] = made
			}
			until := min(last[made]+1, end)
			if k == 0 && over >= 0 {
				t.buffer = append(t.buffer, over)
				t.lives[over].last = max(t.lives[over].last, until)
				continue
			}
			t.buffer = append(t.buffer, int32(len(t.lives)))
			t.lives = append(t.lives, life{first: now, last: until, bytes: m.p.Bytes[v], owner: m.owners[v]})
		}
		if work := m.p.Work[op]; work > 0 {
			t.lives = append(t.lives, life{first: now, last: now + 1, bytes: work, owner: -1, scratch: true})
		}
		ran[op] = ran[op] || !s.Again
	}
	for _, l := range t.lives {
		t.live[l.first] += l.bytes
		t.live[l.last] -= l.bytes
	}
	t.peak, t.at = sumUp(t.live)
	t.live = t.live[:end]
	return t
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

// border is the first of some steps that is not forward: one of the backward pass, or one that runs again for it.
func (m *model) border(steps []Step) int {
	i := slices.IndexFunc(steps, func(s Step) bool { return s.Again || m.g.Nodes[s.Node].Phase != graph.Forward })
	if i < 0 {
		return len(steps)
	}
	return i
}

// ranAgain is, by node, what steps really repeat: a set may name nodes that are not needed again.
func ranAgain(steps []Step, nodes int) []bool {
	again := make([]bool, nodes)
	for _, s := range steps {
		again[s.Node] = again[s.Node] || s.Again
	}
	return again
}

// heldAt is the node until which what lives there is held outside the graph, at a step up to that: so it is there
// whatever a plan does. "" is that it is not held.
func (m *model) heldAt(t *timeline, l *life, at int) string {
	if l.scratch || t.steps[l.first].Again {
		return ""
	}
	until := m.until(m.number[l.owner])
	if until == 0 || slices.Contains(t.steps[:at], Step{Node: m.nodes[until-1]}) {
		return ""
	}
	return m.g.Nodes[m.nodes[until-1]].Name
}

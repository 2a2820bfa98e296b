package planner

import "slices"

// trials is what finding the peaks of many sets of nodes needs. Between places of the plain order that want something
// made again nothing has to be looked for: the steps are those of the order, and what they read and write stands in
// tables.
type trials struct {
	reads, writes []touch // of the plain order
	readOf        []int32 // by place: its first of those; one more at the end
	writeOf       []int32 // likewise
	overlays      []overlay
	overOf        []int32  // by place: its first of those; one more at the end
	demands       []demand // by node
	later         []int32  // by owner: the first place behind the forward pass that may want it made again; one behind all places if none does
	wanting       []bool   // by place: it may want something
	plain         bool     // every owner is written by one node, and none is held

	// Of the set at hand.
	steps   []Step
	touched []touch   // by instance: its owner, and the last step that touches it
	laid    []overlay // steps, and instances that they may write over
	live    []int64   // by step
}

// touch is a place that reads or writes an owner, or a step that does.
type touch struct{ at, owner int32 }

// overlay is a place whose output 0 may be written over an owner if it dies there, and the bytes of that.
type overlay struct {
	at, owner int32
	bytes     int64
}

// demand is the bytes that a node writes, and needs as work space.
type demand struct{ out, scratch int64 }

func (m *model) newTrials() *trials {
	s, n := m.sim, len(m.sim.plain)
	t := &trials{
		readOf: make([]int32, n+1), writeOf: make([]int32, n+1), overOf: make([]int32, n+1), demands: make([]demand, len(m.g.Nodes)),
		later: slices.Repeat([]int32{int32(n)}, len(m.g.Values)), wanting: make([]bool, n+1), plain: s.holds == nil,
	}
	written := make([]bool, len(m.g.Values))
	for i, node := range s.plain {
		at := int32(i)
		for _, o := range m.inputs.Of(node) {
			t.reads = append(t.reads, touch{at, o})
			if i >= s.forward && s.later[i] && !m.lasting[o] {
				t.later[o] = min(t.later[o], at)
			}
		}
		x := &t.demands[node]
		x.scratch = m.scratch[node]
		for _, o := range m.outputs.Of(node) {
			t.writes = append(t.writes, touch{at, o})
			x.out += m.bytes[o]
			t.plain = t.plain && !written[o]
			written[o] = true
		}
		for _, o := range s.over.Of(node) {
			t.overlays = append(t.overlays, overlay{at, o, m.bytes[s.out[node]]})
		}
		t.readOf[i+1], t.writeOf[i+1], t.overOf[i+1] = int32(len(t.reads)), int32(len(t.writes)), int32(len(t.overlays))
	}
	return t
}

// trial is the steps and the peak of a set of nodes that run again. The steps are good until the next trial.
func (m *model) trial(again []bool) (steps []Step, peak int64) {
	s := m.sim
	if s.trials == nil {
		s.trials = m.newTrials()
	}
	t := s.trials
	if !t.plain {
		all := m.simulate(m.order(again))
		return all.steps, all.peak
	}
	clear(s.made)
	clear(t.wanting)
	for node, is := range again {
		if is {
			for _, o := range m.outputs.Of(int32(node)) {
				t.wanting[t.later[o]] = true
			}
		}
	}
	t.steps, t.touched, t.laid = t.steps[:0], t.touched[:0], t.laid[:0]
	for at, n := 0, len(s.plain); at < n; {
		if t.wanting[at] {
			m.runAgain(again, s.plain[at])
		}
		to := at + 1
		for to < n && !t.wanting[to] {
			to++
		}
		m.runPlain(at, to)
		at = to
	}
	end := int32(len(t.steps))
	for _, o := range s.ends {
		t.touched[s.current[o]].at = end
	}
	return t.steps, t.sum(m.bytes)
}

// runPlain takes the steps of some places, none of which behind the first wants anything made again.
func (m *model) runPlain(from, to int) {
	s, t := m.sim, m.sim.trials
	k, i := len(t.steps), len(t.touched)
	writes := t.writes[t.writeOf[from]:t.writeOf[to]]
	t.steps = slices.Grow(t.steps, to-from)[:k+to-from]
	steps := t.steps[k:]
	for j, node := range s.plain[from:to] {
		steps[j] = Step{Node: node}
	}
	t.touched = slices.Grow(t.touched, len(writes))[:i+len(writes)]
	touched, current := t.touched, s.current
	more := int32(k - from) // steps that ran again before
	for j, w := range writes {
		touched[i+j] = touch{w.at + more, w.owner}
		current[w.owner] = int32(i + j)
	}
	for _, r := range t.reads[t.readOf[from]:t.readOf[to]] {
		touched[current[r.owner]].at = r.at + more
	}
	for _, x := range t.overlays[t.overOf[from]:t.overOf[to]] {
		t.laid = append(t.laid, overlay{x.at + more, current[x.owner], x.bytes})
	}
}

// runAgain runs again what a node reads and is to be made again.
func (m *model) runAgain(again []bool, node int32) {
	s, t := m.sim, m.sim.trials
	for _, in := range m.inputs.Of(node) {
		p := s.maker[in]
		if !again[p] || s.made[p] || m.lasting[in] {
			continue
		}
		s.made[p] = true
		m.runAgain(again, p)
		now := int32(len(t.steps))
		t.steps = append(t.steps, Step{p, true})
		for _, o := range m.inputs.Of(p) {
			t.touched[s.current[o]].at = now
		}
		for _, o := range s.over.Of(p) {
			t.laid = append(t.laid, overlay{now, s.current[o], m.bytes[s.out[p]]})
		}
		for _, o := range m.outputs.Of(p) {
			if !m.lasting[o] {
				s.current[o] = int32(len(t.touched))
			}
			t.touched = append(t.touched, touch{now, o})
		}
	}
}

// sum finds the peak of the bytes alive.
func (t *trials) sum(bytes []int64) (peak int64) {
	n := len(t.steps)
	t.live = slices.Grow(t.live[:0], n+2)[:n+2]
	live := t.live // first what dies, by the step behind it
	clear(live)
	for _, x := range t.touched {
		live[x.at+1] -= bytes[x.owner]
	}
	moved := int32(-1)
	for _, x := range t.laid {
		if x.at != moved && t.touched[x.owner].at == x.at {
			moved = x.at
			live[x.at] -= x.bytes // what it is written over still counts
			live[x.at+1] += x.bytes
		}
	}
	alive := int64(0)
	for i, s := range t.steps {
		x := &t.demands[s.Node]
		alive += live[i] + x.out
		peak = max(peak, alive+x.scratch)
	}
	return peak
}

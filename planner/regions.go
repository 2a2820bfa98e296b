package planner

import (
	"maps"
	"slices"

	"memopt/internal/graph"
)

// Region is a stretch of the forward pass that a trainer runs again as one, before the first step of the backward pass
// that needs something it dropped: what a checkpoint around a module is. What leaves the region is kept.
type Region struct {
	Nodes []int32 // forward nodes, in order; a node is in one region at most
	Keep  []bool  // by Nodes: its results are kept instead, until the region has passed them; nil keeps none
	Whole bool    // runs again to its last node, not just to the last result that is needed
	Holds bool    // holds what it made again of its results until all of the backward pass through it has run
	Drops bool    // drops what leaves it, too
	Away  bool    // what it alone reads of what is made before it is elsewhere until it runs again
}

// Checkpointed is what a step takes under regions, as a point beside the plans of a frontier.
type Checkpointed struct {
	Point
	Once  int   // nodes that regions run again and no plan does: those that draw random numbers, or change something
	Moved int64 // bytes that are elsewhere; 0 where lives have places, as all is kept there
}

// UnderRegions is a step under regions.
func UnderRegions(g *graph.Graph, r Request, regions []Region) (c Checkpointed, err error) {
	s, err := Look(g, r)
	if err == nil {
		err = s.prepare()
	}
	if err != nil {
		return c, err
	}
	o := s.m.regioned(regions)
	for _, step := range o.steps {
		if step.Again && !repeatable(g.Nodes[step.Node]) {
			c.Once++
		}
	}
	t := s.m.simulateHolding(o.steps, o.holds)
	if s.m.unplaced() {
		for _, a := range o.away {
			c.Moved += s.m.p.Bytes[a.value]
			for at := a.from; at < a.until; at++ {
				t.live[at] -= s.m.p.Bytes[a.value]
			}
		}
		t.peak = 0
		for at, bytes := range t.live {
			if bytes > t.peak {
				t.peak, t.at = bytes, at
			}
		}
	}
	found, _ := s.m.place(&candidate{t: t}, 0, 0)
	c.Point = s.point("", found)
	return c, nil
}

// absence is the steps at which a value is elsewhere.
type absence struct {
	value       int32
	from, until int
}

// regionOrder makes the steps of regions.
type regionOrder struct {
	*model
	regions []Region
	in      []int32   // by operator: its region, or −1
	keeps   []bool    // by operator
	leaves  []bool    // by value of p: a forward node beside the region reads it, or it stays to the end
	dropped []bool    // by value of p
	needed  []bool    // by value of p: it is dropped, and something beside its region reads it
	first   []int32   // by value of p: the instance of its first run
	ran     []bool    // by region: it ran again
	closing [][]int32 // by operator: the regions whose last reader it is
	passed  [][]int32 // by region: instances that it holds to its end

	steps     []Step
	instances int32
	holds     []hold
	away      []absence
}

// regioned is the plain order with each region put in where something of it is needed first.
func (m *model) regioned(regions []Region) *regionOrder {
	o := &regionOrder{model: m, regions: regions, in: slices.Repeat([]int32{-1}, len(m.nodes)), keeps: make([]bool, len(m.nodes)),
		leaves: make([]bool, len(m.owners)), dropped: make([]bool, len(m.owners)), needed: make([]bool, len(m.owners)), first: make([]int32, len(m.owners)),
		ran: make([]bool, len(regions)), closing: make([][]int32, len(m.nodes)), passed: make([][]int32, len(regions))}
	for k, r := range regions {
		for i, n := range r.Nodes {
			if m.g.Nodes[n].Op.View || m.g.Nodes[n].Op.Overwrites != nil {
				continue
			}
			o.in[m.op[n]] = int32(k)
			o.keeps[m.op[n]] = r.Keep != nil && r.Keep[i]
		}
	}
	o.drop()
	for op, n := range m.nodes {
		if m.g.Nodes[n].Phase != graph.Forward {
			for _, v := range m.p.Inputs.Of(int32(op)) {
				o.want(v)
			}
		}
		o.launch(int32(op), false)
		for _, k := range o.closing[op] {
			for _, made := range o.passed[k] {
				o.holds = append(o.holds, hold{made, int32(len(o.steps) - 1)})
			}
		}
	}
	return o
}

// drop finds the values that are dropped, and those of them that are made again.
func (o *regionOrder) drop() {
	last := slices.Repeat([]int32{-1}, len(o.regions))
	for v, owner := range o.owners {
		o.leaves[v] = o.lasting[owner]
	}
	for op, n := range o.nodes {
		for _, v := range o.p.Inputs.Of(int32(op)) {
			k := o.in[o.maker[v]]
			if k < 0 || k == o.in[op] {
				continue
			}
			if o.g.Nodes[n].Phase == graph.Forward {
				o.leaves[v] = true
			} else {
				last[k] = int32(op)
			}
			o.needed[v] = true
		}
	}
	for v, op := range o.maker {
		k := o.in[op]
		o.dropped[v] = k >= 0 && !o.keeps[op] && !o.lasting[o.owners[v]] && (o.regions[k].Drops || !o.leaves[v])
		o.needed[v] = o.needed[v] && o.dropped[v]
	}
	for k, op := range last {
		if op >= 0 {
			o.closing[op] = append(o.closing[op], int32(k))
		}
	}
}

// want runs the region of a value again, if the value was dropped and the region did not run yet.
func (o *regionOrder) want(v int32) {
	if k := o.in[o.maker[v]]; o.dropped[v] && !o.ran[k] {
		o.again(k)
	}
}

// again runs a region again.
func (o *regionOrder) again(k int32) {
	o.ran[k] = true
	r, end := o.regions[k], 0
	for i, n := range r.Nodes {
		if r.Whole || slices.ContainsFunc(o.made(n), func(v int32) bool { return o.needed[v] }) {
			end = i + 1
		}
	}
	if r.Away {
		o.send(k)
	}
	waiting := []int32{} // instances that are kept and that the region has not passed
	for i, n := range r.Nodes {
		op := o.op[n]
		switch {
		case o.in[op] != k || o.g.Nodes[n].Op.View:
		case o.keeps[op]:
			for _, v := range o.made(n) {
				waiting = append(waiting, o.first[v])
			}
		case i < end:
			for _, v := range o.p.Inputs.Of(op) {
				if o.in[o.maker[v]] != k {
					o.want(v)
				}
			}
			for i, v := range o.made(n) {
				if r.Holds && o.leaves[v] {
					o.passed[k] = append(o.passed[k], o.instances+int32(i))
				}
			}
			o.launch(op, true)
			for _, made := range waiting {
				o.holds = append(o.holds, hold{made, int32(len(o.steps) - 1)})
			}
			waiting = waiting[:0]
		}
	}
	o.passed[k] = append(o.passed[k], waiting...)
}

// send has what a region alone reads elsewhere, from its forward pass until now.
func (o *regionOrder) send(k int32) {
	last := map[int32]int{} // by value: its last reader of the forward pass
	for op := range o.p.Border {
		for _, v := range o.p.Inputs.Of(op) {
			if o.in[o.maker[v]] == k || o.dropped[v] || o.lasting[o.owners[v]] {
				continue
			}
			if o.in[op] == k {
				if _, shared := last[v]; !shared || last[v] >= 0 {
					last[v] = int(op)
				}
			} else {
				last[v] = -1
			}
		}
	}
	for _, v := range slices.Sorted(maps.Keys(last)) {
		if from := max(last[v]+1, int(o.until(v))); last[v] >= 0 && from < len(o.steps) {
			o.away = append(o.away, absence{v, from, len(o.steps)})
		}
	}
}

// made is the values of p that a node makes.
func (o *regionOrder) made(n int32) []int32 {
	if o.g.Nodes[n].Op.View {
		return nil
	}
	return o.p.Outputs.Of(o.op[n])
}

// launch adds a step.
func (o *regionOrder) launch(op int32, again bool) {
	for _, v := range o.p.Outputs.Of(op) {
		if !again {
			o.first[v] = o.instances
		}
		o.instances++
	}
	o.steps = append(o.steps, Step{Node: o.nodes[op], Again: again})
}

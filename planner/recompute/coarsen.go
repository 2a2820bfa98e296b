package recompute

import (
	"slices"

	"memopt/planner/internal/numbers"
)

// coarse is the program without cheap operators. A value that a cheap operator makes of one other, as a norm or an
// activation does of a product, passes: it is not in the coarse program, its readers read the other value instead, and
// have work space for making it. A search in the coarse program chooses among the few values that matter, where one in
// the whole program exchanges each of ten that stand for the same. The gates of a recurrent cell pass the same way for
// the sum that they are made of.
type coarse struct {
	s       *Solver   // of the whole program
	solver  *Solver   // of the coarse program; nil if that is hardly shorter
	ops     []int32   // by coarse operator: that of the whole program; at last the number of those
	of      []int32   // by value: the value that stands for it
	passing []bool    // by value
	price   []float64 // by passing value: cost to make it of what stands for it
	room    []int64   // … and the bytes that takes besides
}

// What the coarse program leaves out: more makes it shorter, and its plans rougher.
const (
	coarseSmall  = 4096  // a value matters from one of so many parts of the peak
	coarseCheap  = 0.002 // an operator is cheap up to this part of the whole cost
	coarseRounds = 8     // walks that tell where passing values are touched; more drop all of them
	coarsest     = 0.95  // the coarse program is solved if it has at most this part of the operators
)

// coarsePlan solves the coarse program, and carries its plan over to the whole one.
func (s *Solver) coarsePlan(limit, work int64) []func() plan {
	if s.coarser == nil {
		s.coarser = s.newCoarse()
	}
	l := s.coarser
	if l.solver == nil {
		return nil
	}
	a, ok := l.solver.solve(limit, Ask{}, work)
	if !ok || a.plan.gone == nil {
		return nil
	}
	return []func() plan{func() plan { return l.plan(a.plan, limit) }}
}

// newCoarse makes the coarse program. Its bounds are not those of the whole one, so they are not refined. It has no
// solver if it is hardly shorter, or if values are forced.
func (s *Solver) newCoarse() *coarse {
	p, n := s.p, len(s.p.Bytes)
	l := &coarse{s: s, of: numbers.Below(n), passing: make([]bool, n), price: make([]float64, n), room: make([]int64, n)}
	family, small := s.families(), s.smallAlive()
	made := make([]bool, n)
	q := &Problem{Bytes: p.Bytes, Held: p.Held, Context: p.Context}
	for op := range int32(len(p.Cost)) {
		if op == p.Border {
			q.Border = int32(len(l.ops))
		}
		ins, cheap := s.standing(l.of, op), s.cheap(op)
		if cheap && len(ins) == 1 {
			l.pass(op, ins[0], family[ins[0]])
		}
		var outs []int32
		for _, v := range p.Outputs.Of(op) {
			if s.matters(v) && !l.passing[v] {
				outs = append(outs, v)
			}
		}
		if len(outs) == 0 && (cheap || len(ins) == 0) {
			continue
		}
		cost, work := l.chain(op)
		for _, v := range outs {
			work -= p.Bytes[v]
		}
		l.ops = append(l.ops, op)
		q.Cost, q.Work, q.Again = append(q.Cost, cost), append(q.Work, max(0, work)+small[op]), append(q.Again, p.Again[op])
		q.Inputs.Add(ins...)
		q.Outputs.Add(outs...)
		q.Over.Add(l.over(op, outs)...)
		for _, v := range outs {
			made[v] = true
		}
	}
	if p.Until != nil {
		q.Until = make([]int32, n)
		for v := range q.Until {
			if made[v] {
				at, _ := slices.BinarySearch(l.ops, p.Until[v])
				q.Until[v] = int32(at)
			}
		}
	}
	if int(p.Border) == len(p.Cost) {
		q.Border = int32(len(l.ops))
	}
	if float64(len(l.ops)) <= coarsest*float64(len(p.Cost)) && p.Forced == nil {
		if t, err := New(q); err == nil {
			t.isCoarse, t.off, l.solver = true, s.off, t
		}
	}
	l.ops = append(l.ops, int32(len(p.Cost)))
	return l
}

// matters reports whether a value is large enough to be in the coarse program.
func (s *Solver) matters(v int32) bool {
	return s.p.Bytes[v] > s.plainPeak/coarseSmall && s.sim.maker[v] >= 0
}

// smallAlive is, by operator, the bytes of the values that do not matter, as if none of them were dropped.
func (s *Solver) smallAlive() []int64 {
	n := int32(len(s.p.Cost))
	sum := make([]int64, n+1)
	for v, x := range s.spans {
		if s.sim.maker[v] >= 0 && !s.matters(int32(v)) {
			sum[x.made] += s.p.Bytes[v]
			sum[min(max(x.last, x.made, s.p.until(int32(v))-1)+1, n)] -= s.p.Bytes[v]
		}
	}
	for op := range n {
		sum[op+1] += sum[op]
	}
	return sum
}

// cheap reports whether an operator of the forward pass may be rerun for little.
func (s *Solver) cheap(op int32) bool {
	return op < s.p.Border && s.p.Again[op] && s.p.Cost[op] < coarseCheap*s.total
}

// standing lists what stands for the inputs of an operator.
func (s *Solver) standing(of []int32, op int32) (ins []int32) {
	for _, v := range s.p.Inputs.Of(op) {
		if s.matters(v) && !slices.Contains(ins, of[v]) {
			ins = append(ins, of[v])
		}
	}
	return ins
}

// families is, by value, the bytes of what could pass for it and is read by the backward pass.
func (s *Solver) families() []int64 {
	bytes, of := make([]int64, len(s.p.Bytes)), numbers.Below(len(s.p.Bytes))
	for op := range s.p.Border {
		ins := s.standing(of, op)
		if !s.cheap(op) || len(ins) != 1 {
			continue
		}
		for _, v := range s.p.Outputs.Of(op) {
			if !s.mayPass(v) {
				continue
			}
			if of[v] = ins[0]; s.spans[v].last >= s.p.Border {
				bytes[ins[0]] += s.p.Bytes[v]
			}
		}
	}
	return bytes
}

// mayPass reports whether a value may pass. One that several operators of the forward pass read may not: each would
// make it again, where it could wait for the next.
func (s *Solver) mayPass(v int32) bool {
	return s.matters(v) && s.droppable(v) && s.readers(v) <= 1
}

// pass lets the outputs of a cheap operator pass, unless the value that stands for them is larger than the output and
// than its whole family.
func (l *coarse) pass(op, in int32, family int64) {
	s := l.s
	cost, room := l.chain(op)
	for _, v := range s.p.Outputs.Of(op) {
		if s.mayPass(v) && s.p.Bytes[in] <= max(s.p.Bytes[v], family) {
			l.of[v], l.passing[v] = in, true
			l.price[v], l.room[v] = cost, room
		}
	}
}

// readers counts the operators of the forward pass that read a value and make something that matters.
func (s *Solver) readers(v int32) (n int) {
	for _, op := range s.uses.Of(v) {
		if op < s.p.Border && slices.ContainsFunc(s.p.Outputs.Of(op), s.matters) {
			n++
		}
	}
	return n
}

// chain is the cost of an operator with the passing values that it reads, and the bytes that takes besides what stands
// for those.
func (l *coarse) chain(op int32) (cost float64, most int64) {
	p := l.s.p
	cost = p.Cost[op]
	sum := p.Work[op]
	for _, v := range p.Inputs.Of(op) {
		if l.passing[v] {
			cost += l.price[v]
			most = max(most, sum-p.Work[op]+l.room[v])
			sum += p.Bytes[v]
		}
	}
	for i, v := range p.Outputs.Of(op) {
		if i > 0 || !l.lies(op) {
			sum += p.Bytes[v]
		}
	}
	return cost, max(most, sum)
}

// lies reports whether the first output of an operator may lie over a passing value.
func (l *coarse) lies(op int32) bool {
	return slices.ContainsFunc(l.s.p.Over.Of(op), func(v int32) bool { return l.passing[v] })
}

// over is what an operator may write over in the coarse program.
func (l *coarse) over(op int32, outs []int32) (over []int32) {
	s := l.s
	if len(outs) == 0 || outs[0] != s.p.Outputs.Of(op)[0] || l.lies(op) {
		return nil
	}
	for _, v := range s.p.Over.Of(op) {
		if s.matters(v) {
			over = append(over, v)
		}
	}
	return over
}

// plan is the plan of the whole program that drops what a plan of the coarse one does, and passing values wherever they
// were read.
func (l *coarse) plan(from plan, limit int64) plan {
	s := l.s
	p := s.plainPlan.clone()
	for v := range s.spans {
		switch {
		case l.passing[v]:
			p.gone[v] = true
		case l.solver.droppable(int32(v)):
			p.gone[v] = from.gone[v]
		}
	}
	for _, e := range from.events {
		p.events = append(p.events, event{l.ops[e.at], e.value})
	}
	// To recompute a passing value at a place may touch others there, so that takes a few rounds.
	for range coarseRounds {
		known := len(p.events)
		if !s.sim.run(p, limit) {
			break
		}
		for k, op := range s.sim.ops[:s.sim.launches] {
			at := s.sim.place[k] + 1
			if at <= s.p.Border || int(at) == len(s.p.Cost) {
				continue
			}
			for _, values := range [][]int32{s.p.Inputs.Of(op), s.p.Outputs.Of(op)} {
				for _, v := range values {
					if l.passing[v] && at >= s.p.until(v) {
						p.events = append(p.events, event{at, v})
					}
				}
			}
		}
		slices.SortFunc(p.events, event.compare)
		if p.events = slices.Compact(p.events); len(p.events) == known {
			break
		}
	}
	return p
}

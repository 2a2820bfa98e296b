package planner

import (
	"slices"

	"memopt/planner/recompute"
)

// nameless is a model without its names: what is asked of it is asked of one table.
type nameless struct {
	p      *recompute.Problem
	owners []int32 // by the problem's values
}

// problem takes the names off a model. Operators are the nodes of the plain order; bytes are rounded up to a multiple
// of unit. forced names, by node, what must run again; nil is nothing.
func (m *model) problem(unit int64, forced []bool) *recompute.Problem {
	if m.bare.p == nil {
		m.bare = m.nameless()
	}
	p := *m.bare.p
	p.Context = m.ctx
	if unit > 1 {
		p.Bytes, p.Work = upTo(unit, p.Bytes), upTo(unit, p.Work)
	}
	if slices.Contains(forced, true) {
		p.Forced = make([]bool, len(p.Bytes))
		for v, o := range m.bare.owners {
			p.Forced[v] = forced[m.sim.maker[o]] && !p.Held[v] && m.sim.holds.until(o) <= p.Border
		}
	}
	return &p
}

// upTo rounds up to multiples.
func upTo(unit int64, bytes []int64) []int64 {
	up := make([]int64, len(bytes))
	for i, b := range bytes {
		up[i] = (b + unit - 1) / unit * unit
	}
	return up
}

func (m *model) nameless() (x nameless) {
	p := &recompute.Problem{Border: int32(m.sim.forward)}
	number := m.table() // by owner
	defer m.done(number)
	for i := range number {
		number[i] = -1
	}
	ops, reads, writes := len(m.sim.plain), 0, 0
	for _, n := range m.sim.plain {
		reads, writes = reads+len(m.inputs.Of(n)), writes+len(m.outputs.Of(n))
	}
	p.Cost, p.Work, p.Again = make([]float64, 0, ops), make([]int64, 0, ops), make([]bool, 0, ops)
	p.Bytes, p.Held, x.owners = make([]int64, 0, writes), make([]bool, 0, writes), make([]int32, 0, writes)
	p.Inputs.Reserve(ops, reads)
	p.Outputs.Reserve(ops, writes)
	p.Over.Reserve(ops, 0)
	var scratch []int32
	numbered := func(owners []int32) []int32 {
		scratch = scratch[:0]
		for _, o := range owners {
			if number[o] < 0 {
				number[o] = int32(len(p.Bytes))
				p.Bytes = append(p.Bytes, m.bytes[o])
				until := m.sim.holds.until(o)
				p.Held = append(p.Held, m.lasting[o] || int(until) == ops)
				if m.sim.holds != nil {
					p.Until = append(p.Until, until)
				}
				x.owners = append(x.owners, o)
			}
			scratch = append(scratch, number[o])
		}
		return scratch
	}
	for _, n := range m.sim.plain {
		p.Cost = append(p.Cost, m.cost[n])
		p.Work = append(p.Work, m.scratch[n])
		p.Again = append(p.Again, m.may[n])
		p.Inputs.Add(numbered(m.inputs.Of(n))...)
		p.Outputs.Add(numbered(m.outputs.Of(n))...)
		p.Over.Add(numbered(m.sim.over.Of(n))...)
	}
	x.p = p
	return x
}

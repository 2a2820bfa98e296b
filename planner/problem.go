package planner

import (
	"slices"

	"memopt/planner/recompute"
)

// problem takes the names off a model. Operators are the nodes of the plain
// order; bytes are rounded up to a multiple of unit. forced names, by node, what
// must run again; nil is nothing.
func (m *model) problem(unit int64, forced []bool) *recompute.Problem {
	p := &recompute.Problem{Border: int32(m.sim.forward)}
	up := func(bytes int64) int64 { return (bytes + unit - 1) / unit * unit }
	number := make([]int32, len(m.g.Values)) // by owner
	for i := range number {
		number[i] = -1
	}
	some := slices.Contains(forced, true)
	var scratch []int32
	numbered := func(owners []int32) []int32 {
		scratch = scratch[:0]
		for _, o := range owners {
			if number[o] < 0 {
				number[o] = int32(len(p.Bytes))
				p.Bytes = append(p.Bytes, up(m.bytes[o]))
				p.Held = append(p.Held, m.lasting[o])
				if some {
					p.Forced = append(p.Forced, forced[m.sim.maker[o]] && !m.lasting[o])
				}
			}
			scratch = append(scratch, number[o])
		}
		return scratch
	}
	ops, reads, writes := len(m.sim.plain), 0, 0
	for _, n := range m.sim.plain {
		reads, writes = reads+len(m.inputs[n]), writes+len(m.outputs[n])
	}
	p.Cost, p.Work, p.Again = make([]float64, 0, ops), make([]int64, 0, ops), make([]bool, 0, ops)
	p.Bytes, p.Held = make([]int64, 0, writes), make([]bool, 0, writes)
	p.Inputs.Reserve(ops, reads)
	p.Outputs.Reserve(ops, writes)
	p.Over.Reserve(ops, 0)
	for _, n := range m.sim.plain {
		p.Cost = append(p.Cost, m.cost[n])
		p.Work = append(p.Work, up(m.scratch[n]))
		p.Again = append(p.Again, m.may[n])
		p.Inputs.Add(numbered(m.inputs[n])...)
		p.Outputs.Add(numbered(m.outputs[n])...)
		p.Over.Add(numbered(m.sim.over[n])...)
	}
	return p
}

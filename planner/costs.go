package planner

import (
	"fmt"

	"memopt/memopt/graph"
)

// plainCost is what a node costs by flops and bytes moved, on one scale: in quarters of the time of a byte that moves.
func (m *model) plainCost(node int32) float64 {
	p := m.prices[m.kind[node]]
	return float64(p.flops)*m.flop + p.moved/4
}

// transfers evaluates the bytes that a node reads and writes.
func (m *model) transfers(n *graph.Node) (sum float64, err error) {
	for i, v := range n.Inputs {
		switch {
		case v == nil:
		case n.Op.Reads == nil:
			sum += float64(m.bytes[v.ID])
		default:
			bytes, err := m.binding.Eval(readBytes(n, i))
			if err != nil {
				return 0, err
			}
			sum += float64(bytes)
		}
	}
	for _, v := range n.Outputs {
		if v != nil {
			sum += float64(m.bytes[v.ID])
		}
	}
	return sum, nil
}

// readBytes is what a node reads of an input, where that need not be all.
func readBytes(n *graph.Node, input int) graph.Dim {
	return n.Op.Reads(n, input).Mul(graph.Num(n.Inputs[input].Type.Size()))
}

// reprice puts measured rates in the place of flops and bytes: by node, what a unit of its plain cost takes on the
// device. A node that was not measured has the rate of all that were, together. Rates go with a node, not times, so
// that what was measured on one batch prices another.
func (m *model) reprice(rates map[string]float64) error {
	if len(rates) == 0 {
		return nil
	}
	units, times := 0.0, 0.0
	for _, n := range m.g.Nodes {
		if rate, known := rates[n.Name]; known && !n.Op.View {
			if !(rate >= 0 && rate <= mostRate) {
				return fmt.Errorf("node %q (%s) cannot take %v for a unit of its work", n.Name, n.Op.FullName(), rate)
			}
			units += m.plainCost(n.ID)
			times += rate * m.plainCost(n.ID)
		}
	}
	if units == 0 || times == 0 {
		return nil
	}
	m.total, m.bare, m.rates, m.rate = 0, nameless{}, rates, times/units
	for _, n := range m.g.Nodes {
		if n.Op.View {
			continue
		}
		m.cost[n.ID] = m.rateOf(n) * m.plainCost(n.ID)
		m.total += m.cost[n.ID]
	}
	return nil
}

// rateOf is what a unit of a node's plain cost costs.
func (m *model) rateOf(n *graph.Node) float64 {
	if rate, known := m.rates[n.Name]; known {
		return rate
	}
	return m.rate
}

// mostRate is above any time a unit can take, and leaves room to add up.
const mostRate = 1e200

// PlainCosts is what each node costs by flops and bytes moved under the plan's dims, by name: what a measured time is
// divided by to be a rate. Views cost nothing and are left out.
func (p *Plan) PlainCosts() map[string]float64 {
	costs := map[string]float64{}
	for _, n := range p.Graph.Nodes {
		if !n.Op.View {
			costs[n.Name] = p.m.plainCost(n.ID)
		}
	}
	return costs
}

package planner

import (
	"fmt"
	"maps"
	"math"

	"memopt/internal/graph"
	"memopt/planner/operators"
	"memopt/planner/profile"
)

// flops is a node's operations.
func (m *model) flops(node int32) int64 { return m.prices[m.kind[node]].Flops }

// plainCost is what a node costs by flops and bytes moved, on one scale: in quarters of the time of a byte that moves.
func (m *model) plainCost(node int32) float64 {
	p := m.prices[m.kind[node]]
	return float64(p.Flops)*m.flop + p.Moved/4
}

// price evaluates what a node that is no view takes, once for those that are alike, and its work space.
func (m *model) price(n *graph.Node) (scratch int64, err error) {
	k := m.like.First(n)
	if k == n.ID {
		p, err := operators.PriceOf(n, m.binding, m.bytes)
		if err != nil {
			return 0, err
		}
		m.kind[k], m.prices = int32(len(m.prices)), append(m.prices, p)
	}
	if m.kind[n.ID] = m.kind[k]; k != n.ID && !m.lowered { // a kernel may need what is not told by the node alone
		return m.p.Work[m.op[k]], nil
	}
	return operators.WorkSpace(n, m.binding, m.lowered)
}

// spaceFormula is work space as a formula; what kernels need is a number.
func (m *model) spaceFormula(n *graph.Node) graph.Dim {
	if m.lowered || n.Op.Scratch == nil {
		return graph.Num(m.p.Work[m.op[n.ID]])
	}
	return n.Op.Scratch(n)
}

// time puts nanoseconds of the profile's device in the place of flops and bytes: what a first run takes into the total,
// what a second run takes into the cost of each operator. The step's slower clock counts.
func (m *model) time() {
	var sum profile.Price
	once, again := make([]profile.Price, len(m.nodes)), make([]profile.Price, len(m.nodes))
	met := make([]int32, len(m.prices)) // by price: the first operator that has it, above 0
	each, touches := m.profile.OneByOne(), operators.TouchesFor(m.profile, m.g, m.bytes)
	for op, id := range m.nodes {
		k := m.kind[id]
		if first := met[k]; first > 0 && !each {
			once[op], again[op] = once[first-1], again[first-1]
		} else {
			w := operators.Timed(m.g.Nodes[id], m.prices[k])
			w.Touches = touches.Of(id)
			met[k], once[op], again[op] = int32(op+1), m.profile.Price(w), m.profile.PriceAgain(w)
		}
		sum = sum.Plus(once[op])
	}
	clock := sum.Clock()
	m.total = float64(clock(sum))
	m.once = make([]int64, len(m.nodes))
	for op := range m.nodes {
		m.p.Cost[op] = float64(clock(again[op]))
		m.once[op] = clock(once[op])
	}
}

// Prices is the profile that costs are nanoseconds of, or nil: costs of single nodes go first.
func (r Request) Prices() *profile.Profile {
	if len(r.Costs) > 0 {
		return nil
	}
	return r.Profile
}

// mostRate is above any time that a unit of cost can take, and leaves room to add up.
const mostRate = 1e200

// reprice puts measured rates in the place of flops and bytes: by node, what a unit of its plain cost takes on the
// device. A node that was not measured has the rate of all that were, together. Rates go with a node, not times, so
// that what was measured on one batch prices another.
func (m *model) reprice(rates map[string]float64) error {
	if len(rates) == 0 {
		return nil
	}
	units, times := 0.0, 0.0
	for _, id := range m.nodes {
		n := m.g.Nodes[id]
		if rate, known := rates[n.Name]; known {
			if !(rate >= 0 && rate <= mostRate) {
				return fmt.Errorf("node %q (%s) cannot take %v for a unit of its work", n.Name, n.Op.FullName(), rate)
			}
			units += m.plainCost(id)
			times += rate * m.plainCost(id)
		}
	}
	if units == 0 || times == 0 {
		return nil
	}
	m.total, m.rates, m.rate = 0, rates, times/units
	for op, id := range m.nodes {
		m.p.Cost[op] = m.rateOf(m.g.Nodes[id]) * m.plainCost(id)
		m.total += m.p.Cost[op]
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

// PlainCosts is what each node costs by flops and bytes moved under the plan's dims, by name: what a measured time is
// divided by to be a rate. Views cost nothing and are left out.
func (p *Plan) PlainCosts() map[string]float64 {
	costs := map[string]float64{}
	for _, id := range p.m.nodes {
		costs[p.Graph.Nodes[id].Name] = p.m.plainCost(id)
	}
	return costs
}

// Work is what one run of a node does under the plan's dims, as a profile prices it.
func (p *Plan) Work(node string) (w profile.Work) {
	for _, id := range p.m.nodes {
		if n := p.Graph.Nodes[id]; n.Name == node {
			return operators.Timed(n, p.m.prices[p.m.kind[id]])
		}
	}
	return w
}

// Timed reports whether the plan's costs are time, of a profile or as measured.
func (p *Plan) Timed() bool { return p.Request.timed() }

func (r Request) timed() bool { return r.Profile != nil || len(r.Costs) > 0 }

// Unit is what extra costs of the plan are.
func (p *Plan) Unit() string { return Unit(p.Timed()) }

// Unit is what extra costs are: time of a device, or compute, which is flops and bytes.
func Unit(timed bool) string {
	if timed {
		return "time"
	}
	return "compute"
}

// relate tells what a step costs against the plain form that the request names: the difference counts as extra cost of
// every plan. It prices both.
func (m *model) relate(r Request) error {
	if err := m.reprice(r.Costs); err != nil {
		return err
	}
	if r.Plain == nil || r.Plain == m.g {
		return nil
	}
	plain, err := r.plainModel()
	if err != nil {
		return err
	}
	m.plain, m.own, m.total = plain, m.total-plain.total, plain.total
	m.ownFlops = m.flopsSum - plain.flopsSum
	return nil
}

// plainModel is the model of the plain step.
func (r Request) plainModel() (*model, error) {
	if x := r.plain; x != nil && x.m.g == r.Plain && x.m.lowered == r.Lowered && x.r.Profile == r.Profile && len(r.Costs) == 0 && x.m.rates == nil && maps.Equal(x.r.Dims, r.Dims) {
		return x.m, nil
	}
	plain, err := newModel(r.Plain, r)
	if err != nil {
		return nil, err
	}
	return plain, plain.reprice(r.Costs)
}

// overhead is an extra cost as a share of the plain step's.
func (m *model) overhead(extra float64) float64 { return share(m.own+extra, m.total) }

// share is a cost as a share of another, which may be far below 1: measured costs are in seconds. Of nothing it is 0,
// never -0, which files would tell.
func share(cost, of float64) float64 {
	if cost == 0 || of == 0 {
		return 0
	}
	return cost / of
}

// allows is the extra cost that a limit of overhead leaves for what runs again; without one it leaves any.
func (m *model) allows(overhead float64) float64 {
	if overhead <= 0 {
		return math.Inf(1)
	}
	return overhead*m.total - m.own
}

// again is what the repeated launches of steps take: their cost and operations, and how many they are.
func (m *model) again(steps []Step) (cost float64, flops int64, launches int) {
	for _, s := range steps {
		if s.Again {
			cost, flops, launches = cost+m.p.Cost[m.op[s.Node]], flops+m.flops(s.Node), launches+1
		}
	}
	return cost, flops, launches
}

// Cost is what a step under the plan costs, in the units of its costs, and what the plain step does.
func (p *Plan) Cost() (cost, plain float64) {
	again, _, _ := p.m.again(p.Steps)
	return p.m.total + p.m.own + again + float64(p.wait()), p.m.total
}

// FormOverhead is what the form of the step costs above the plain step, as a share of that: the plan's overhead if
// nothing ran again.
func (p *Plan) FormOverhead() float64 { return p.m.overhead(0) }

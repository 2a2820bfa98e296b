package planner

import (
	"cmp"
	"slices"
)

// Bound is what no plan in this order can undercut.
type Bound struct {
	Overhead float64 // least extra cost at the plan's arena limit, as a share of the step's
	Gap      float64 // the plan's overhead above it
}

// bound is the bound of a candidate against the plain one.
func (m *model) bound(plain, c *candidate, limit int64) Bound {
	if m.total == 0 {
		return Bound{}
	}
	b := Bound{Overhead: m.costBound(plain.t, limit) / m.total}
	b.Gap = c.cost/m.total - b.Overhead
	return b
}

// costBound is a proven lower bound on the extra cost of any plan whose peak
// is within limit: at each step over the limit, enough bytes must go, and
// whatever goes must be made again, which costs its producer's run at least.
// The cheapest way to cover the deficit by fractions is a knapsack. It charges
// no chains of recomputation, so it is not tight.
func (m *model) costBound(plain *timeline, limit int64) float64 {
	best := 0.0
	for _, at := range overLimit(plain, limit) {
		best = max(best, m.knapsack(plain, at, plain.live[at]-limit))
	}
	return best
}

// sampled is how many steps the bound looks at: the worst of as many windows.
const sampled = 32

func overLimit(t *timeline, limit int64) (at []int) {
	width := max(1, (len(t.live)+sampled-1)/sampled)
	for from := 0; from < len(t.live); from += width {
		worst := from
		for i := from; i < min(from+width, len(t.live)); i++ {
			if t.live[i] > t.live[worst] {
				worst = i
			}
		}
		if t.live[worst] > limit {
			at = append(at, worst)
		}
	}
	return at
}

// knapsack covers a deficit of bytes at a step of the plain order.
func (m *model) knapsack(plain *timeline, at int, deficit int64) float64 {
	made, last := make([]int32, len(m.g.Values)), make([]int32, len(m.g.Values))
	for i, s := range plain.steps {
		for _, o := range m.inputs[s.Node] {
			last[o] = int32(i)
		}
		for _, o := range m.outputs[s.Node] {
			made[o], last[o] = int32(i), int32(i)
		}
	}
	node := m.g.Nodes[plain.steps[at].Node]
	type item struct {
		bytes int64
		cost  float64
	}
	var items []item
	for _, n := range m.g.Nodes {
		if !m.mayRunAgain(n) {
			continue
		}
		bytes := int64(0)
		for _, o := range m.outputs[n.ID] {
			// What the step itself touches must be there, unless its result
			// may be written over it.
			touched := slices.Contains(m.inputs[node.ID], o) && len(node.Op.InPlace) == 0 || slices.Contains(m.outputs[node.ID], o)
			if int(made[o]) <= at && int(last[o]) >= at && !touched && !m.lasting[o] {
				bytes += m.bytes[o]
			}
		}
		if bytes > 0 {
			items = append(items, item{bytes, m.cost[n.ID]})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Compare(a.cost*float64(b.bytes), b.cost*float64(a.bytes))
	})
	cost := 0.0
	for _, x := range items {
		if deficit <= x.bytes {
			return cost + x.cost*float64(max(deficit, 0))/float64(x.bytes)
		}
		cost += x.cost
		deficit -= x.bytes
	}
	return cost
}

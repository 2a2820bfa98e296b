package check

import (
	"context"
	"fmt"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/planner/operators"
	"memopt/planner/profile"
)

// Rates are what costs are counted in: times that were measured of single nodes, by name, or else nanoseconds of a profile, or else
// flops and bytes.
type Rates struct {
	Costs   map[string]float64
	Profile *profile.Profile // nil where there are Costs
	Context context.Context
	Each    bool // nodes that are alike are priced one by one, for tests
}

// priced is what nodes cost: operations, and in the place of bytes moved the whole cost.
type priced struct {
	of   []operators.Price
	sum  operators.Price
	once []int64 // nanoseconds of first runs, by a profile
}

// prices works out what each node costs: operations and bytes moved by the balance of the device, or in proportion to
// that what was measured of it. What was not measured has the rate of all that was. Nodes that are alike cost the same,
// which tests do not take for granted.
func (r Rates) prices(g *graph.Graph, b *graph.Binding, bytes []int64) (x priced, err error) {
	x.of = make([]operators.Price, len(g.Nodes))
	works := make([]operators.Price, len(g.Nodes))
	units, times := 0.0, 0.0
	like := operators.AlikeOf(g)
	for i, n := range g.Nodes {
		stop.Poll(r.Context)
		if n.Op.View {
			continue
		}
		if k := like.First(n); k != n.ID && !r.Each {
			x.of[i], works[i] = x.of[k], works[k]
		} else {
			of, err := operators.PriceOf(n, b, bytes)
			if err != nil {
				return x, fmt.Errorf("node %q (%s): %w", n.Name, n.Op.FullName(), err)
			}
			works[i] = of
			x.of[i] = operators.Price{Flops: of.Flops, Moved: float64(of.Flops)*g.BytesPerFlop()/4 + of.Moved/4}
		}
		if rate, known := r.Costs[n.Name]; known {
			units, times = units+x.of[i].Moved, times+rate*x.of[i].Moved
		}
	}
	if r.Profile != nil {
		return r.timed(g, bytes, x, works), nil
	}
	for i, n := range g.Nodes {
		if units > 0 && times > 0 {
			rate, known := r.Costs[n.Name]
			if !known {
				rate = times / units
			}
			x.of[i].Moved *= rate
		}
		x.sum.Flops, x.sum.Moved = x.sum.Flops+x.of[i].Flops, x.sum.Moved+x.of[i].Moved
	}
	return x, nil
}

// timed puts nanoseconds in the place of costs, by the slower clock of the step. A node costs what its second run takes.
func (r Rates) timed(g *graph.Graph, bytes []int64, x priced, works []operators.Price) priced {
	var sum profile.Price
	once, again := make([]profile.Price, len(g.Nodes)), make([]profile.Price, len(g.Nodes))
	touches := operators.TouchesFor(r.Profile, g, bytes)
	for i, n := range g.Nodes {
		if x.sum.Flops += x.of[i].Flops; !n.Op.View {
			w := operators.Timed(n, works[i])
			w.Touches = touches.Of(n.ID)
			once[i], again[i] = r.Profile.Price(w), r.Profile.PriceAgain(w)
			sum = sum.Plus(once[i])
		}
	}
	clock := sum.Clock()
	x.once = make([]int64, len(g.Nodes))
	for i, n := range g.Nodes {
		if !n.Op.View {
			x.once[i] = clock(once[i])
			x.of[i].Moved = float64(clock(again[i]))
		}
	}
	x.sum.Moved = float64(clock(sum))
	return x
}

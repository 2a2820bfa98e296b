package planner

import (
	"testing"

	"memopt/internal/graph"
	"memopt/internal/joint"
)

// regionsOf is a recorded step, and its forward nodes that run.
func regionsOf(t *testing.T) (*model, []int32) {
	t.Helper()
	g, err := joint.Read("../memopt/lab/corpus/steps/gpt2-6L.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	m, err := newModel(g, Request{})
	if err != nil {
		t.Fatal(err)
	}
	var forward []int32
	for _, n := range g.Nodes {
		if n.Phase == graph.Forward && !n.Op.View {
			forward = append(forward, n.ID)
		}
	}
	return m, forward
}

func (m *model) under(regions ...Region) (*timeline, float64) {
	steps, holds := m.regioned(regions)
	cost, _, _ := m.again(steps)
	return m.simulateHolding(steps, holds), cost
}

// TestRegionsOfOneNode: regions of one node that drop what they make are the nodes themselves running again.
func TestRegionsOfOneNode(t *testing.T) {
	m, forward := regionsOf(t)
	again, regions := make([]bool, len(m.g.Nodes)), []Region{}
	for i, n := range forward {
		if i%3 == 0 && m.mayRunAgain(m.g.Nodes[n]) {
			again[n] = true
			regions = append(regions, Region{Nodes: []int32{n}, Drops: true})
		}
	}
	got, cost := m.under(regions...)
	want := m.simulate(m.order(again))
	wanted, _, _ := m.again(want.steps)
	if got.peak != want.peak || cost != wanted {
		t.Errorf("peak %d at cost %g, want %d at %g", got.peak, cost, want.peak, wanted)
	}
}

// TestRegions: a region that keeps everything changes nothing; to drop more lowers what is kept for the backward pass and costs
// more; to run to the last node, or to hold what was made, costs and takes no less.
func TestRegions(t *testing.T) {
	m, forward := regionsOf(t)
	plain := m.simulate(m.order(nil))
	half := forward[len(forward)/4 : len(forward)/2]
	keep := make([]bool, len(half))
	for i := range keep {
		keep[i] = true
	}
	all, cost := m.under(Region{Nodes: half, Keep: keep})
	if cost != 0 || all.peak < plain.peak {
		t.Errorf("all kept: peak %d at cost %g, plain %d", all.peak, cost, plain.peak)
	}
	before := m.stashedBy(plain)
	part := make([]bool, len(half))
	for i := range part {
		part[i] = i%2 == 0
	}
	some, someCost := m.under(Region{Nodes: half, Keep: part})
	none, noneCost := m.under(Region{Nodes: half})
	if s, n := m.stashedBy(some), m.stashedBy(none); !(n < s && s <= before && 0 < someCost && someCost < noneCost) {
		t.Errorf("kept for backward: %d plain, %d at cost %g, %d at cost %g", before, s, someCost, n, noneCost)
	}
	whole, wholeCost := m.under(Region{Nodes: half, Whole: true})
	held, heldCost := m.under(Region{Nodes: half, Whole: true, Holds: true})
	if wholeCost < noneCost || heldCost != wholeCost || held.peak < whole.peak {
		t.Errorf("cost %g, whole %g, held %g; peaks %d, %d", noneCost, wholeCost, heldCost, whole.peak, held.peak)
	}
}

package planner

import (
	"testing"

	"memopt/internal/graph"
	"memopt/internal/joint"
)

// regionsOf is a recorded step, and its forward nodes that run.
func regionsOf(t *testing.T, step string) (*model, []int32) {
	t.Helper()
	g, err := joint.Read("../memopt/lab/corpus/steps/" + step)
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
	o := m.regioned(regions)
	cost, _, _ := m.again(o.steps)
	return m.simulateHolding(o.steps, o.holds), cost
}

// TestRegionsOfOneNode: regions of one node that drop what they make are the nodes themselves running again.
func TestRegionsOfOneNode(t *testing.T) {
	m, forward := regionsOf(t, "gpt2-6L.json.gz")
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
	m, forward := regionsOf(t, "gpt2-6L.json.gz")
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

// TestRegionsAway: what a region alone reads is elsewhere between its passes, and costs no bytes then; what others read stays.
func TestRegionsAway(t *testing.T) {
	m, forward := regionsOf(t, "llama.json.gz") // under an allocator of its own
	half := forward[len(forward)/4 : len(forward)/2]
	here, err := UnderRegions(m.g, Request{}, []Region{{Nodes: half}})
	if err != nil {
		t.Fatal(err)
	}
	away, err := UnderRegions(m.g, Request{}, []Region{{Nodes: half, Away: true}})
	if err != nil {
		t.Fatal(err)
	}
	if here.Moved != 0 || away.Moved <= 0 || away.Peak > here.Peak || away.Peak < here.Peak-away.Moved || away.Overhead != here.Overhead {
		t.Errorf("here %+v, away %+v", here, away)
	}
}

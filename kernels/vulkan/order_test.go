package vulkan

import (
	"math/rand/v2"
	"testing"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// TestGrouped: work that accesses the same bytes keeps its order, with a barrier in between; there is no other
// barrier than the longest chain of it needs, and never one more than in the schedule's order.
func TestGrouped(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	fewer := 0
	for range 500 {
		var all []work
		chain, longest := []int{}, 0 // of each, the work that it waits for
		for i := range 1 + rng.IntN(40) {
			w := work{command: vk.Command{Kind: vk.Dispatch, Value: uint32(i)}}
			for _, to := range []*[]span{&w.reads, &w.writes} {
				for range rng.IntN(3) {
					at := rng.Int64N(200)
					*to = append(*to, span{schedule.Space(rng.IntN(2)), at, at + 1 + rng.Int64N(20)})
				}
			}
			chain = append(chain, 1)
			for k, o := range all {
				if meet(o, w) {
					chain[i] = max(chain[i], chain[k]+1)
				}
			}
			all, longest = append(all, w), max(longest, chain[i])
		}
		var c, plain Counts
		var h hazards
		inOrder(nil, all, &h, &plain)
		place, group := make([]int, len(all)), make([]int, len(all))
		groups, seen := 0, 0
		for i, x := range grouped(nil, all, &c) {
			if x.Kind == vk.Barrier {
				groups++
				continue
			}
			place[x.Value], group[x.Value] = i, groups
			seen++
		}
		if seen != len(all) || c.Dispatches != len(all) || c.Barriers != groups || c.InOrder != plain.Barriers {
			t.Fatalf("%d of %d dispatches: %+v, in order %+v", seen, len(all), c, plain)
		}
		if c.Barriers != longest-1 || c.Barriers > plain.Barriers {
			t.Fatalf("%d barriers for a chain of %d; in order %d", c.Barriers, longest, plain.Barriers)
		}
		for k, w := range all {
			for i, o := range all[:k] {
				if meet(o, w) && group[i] >= group[k] || group[i] == group[k] && place[i] > place[k] {
					t.Fatalf("%+v runs with %+v", o, w)
				}
			}
		}
		if c.Barriers < plain.Barriers {
			fewer++
		}
	}
	if fewer < 100 {
		t.Errorf("only %d lists have fewer barriers", fewer)
	}
}

func meet(a, b work) bool {
	h := hazards{a.reads, a.writes}
	return h.between(b.reads, b.writes)
}

// TestGroupsBack: recording compares work with a bounded number of groups.
func TestGroupsBack(t *testing.T) {
	var all []work
	for range 3 * groupsBack {
		all = append(all, work{writes: []span{{at: 0, end: 64}}})
	}
	all = append(all, work{writes: []span{{at: 64, end: 128}}})
	var c Counts
	if got := grouped(nil, all, &c); c.Barriers != 3*groupsBack-1 || len(got) != len(all)+c.Barriers || c.InOrder != c.Barriers {
		t.Errorf("%d commands, %+v", len(got), c)
	}
}

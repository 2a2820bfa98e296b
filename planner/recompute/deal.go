package recompute

import (
	"cmp"
	"math"
	"slices"

	"memopt/planner/mixes"
)

// dealing is how a mix becomes a plan. Of equal parts, those made first get the choices with the fewest bytes, or those
// made last (back). Values that are recomputed before the second place, but not demanded by their parts, are dropped
// after it, or not (brief).
type dealing struct{ back, brief bool }

var dealings, setDealings = []dealing{{}, {brief: true}, {back: true}}, []dealing{{}, {back: true}}

// plan drops at the border what a mix does not keep at the first place, and after the second place what it does not
// keep there.
func (t *knapsack) plan(mix mixes.Mix, w dealing) plan {
	kept := make([]bool, len(t.values))
	lost, there := make([]bool, len(t.s.p.Bytes)), make([]bool, len(t.s.p.Bytes))
	for i, k := range t.kinds {
		chosen := slices.Clone(mix[i])
		slices.SortFunc(chosen, func(a, b int32) int {
			return cmp.Or(cmp.Compare(k.choices[a].Bytes[0], k.choices[b].Bytes[0]), cmp.Compare(a, b))
		})
		if w.back {
			slices.Reverse(chosen)
		}
		for n, part := range k.parts {
			c := &k.choices[chosen[n]]
			for j, v := range part {
				x := t.values[v]
				kept[v] = c.kept[0]>>j&1 == 1
				lost[x.value] = x.at[1] && c.kept[1]>>j&1 == 0 && t.s.droppable(x.value)
				there[x.value] = c.between>>j&1 == 1
			}
		}
	}
	p := t.s.keeping(t.first, func(i int) bool { return kept[i] })
	if sim := t.s.sim; w.brief && sim.run(p, math.MaxInt64) {
		for _, op := range sim.ops[sim.start[t.s.p.Border]:sim.start[t.second.at+1]] {
			for _, v := range t.s.p.Outputs.Of(op) {
				there[v] = true
			}
		}
	}
	for v, is := range lost {
		if is && there[v] {
			p.events = append(p.events, event{t.second.at + 1, int32(v)})
		}
	}
	return p
}

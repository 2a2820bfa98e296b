package recompute

import "slices"

// Floor is the peak that no plan goes below, and the operator that sets it.
type Floor struct {
	Peak int64
	Op   int32
}

// FloorOf is the largest need of a single operator: its inputs and outputs, and what is alive across it in every plan and
// cannot be elsewhere.
func FloorOf(p *Problem) Floor {
	maker := makers(p)
	life := spans(p)
	n := int32(len(p.Cost))
	across, movable := make([]int64, n+2), make([]int64, n+2) // bytes; of those, what may be elsewhere
	end := func(v int32) int32 {                              // the place after the last at which every plan has it
		if m := maker[v]; m >= 0 && (!p.Again[m] || p.Held[v]) {
			return max(life[v].last, p.until(v))
		}
		return p.until(v)
	}
	held := func(v, at int32) bool { return life[v].made < at && at < end(v) }
	for v, x := range life {
		if to := end(int32(v)); maker[v] >= 0 && x.made+1 < to {
			across[x.made+1] += p.Bytes[v]
			across[to] -= p.Bytes[v]
			if from := max(x.made+1, p.until(int32(v))); p.Away != nil && p.Away[v] && from < to {
				movable[from] += p.Bytes[v]
				movable[to] -= p.Bytes[v]
			}
		}
	}
	var f Floor
	sum, could := int64(0), int64(0)
	for op := range n {
		sum, could = sum+across[op], could+movable[op]
		need, away := sum+p.Work[op], could
		for _, v := range p.Inputs.Of(op) {
			if p.Away != nil && p.Away[v] && held(v, op) && op >= p.until(v) {
				away -= p.Bytes[v] // it is read here
			}
			if !held(v, op) {
				need += p.Bytes[v]
			}
		}
		over := slices.ContainsFunc(p.Over.Of(op), func(v int32) bool { return !held(v, op) })
		for i, v := range p.Outputs.Of(op) {
			if i > 0 || !over {
				need += p.Bytes[v]
			}
		}
		if need -= min(away, p.Far); need > f.Peak {
			f = Floor{need, op}
		}
	}
	return f
}

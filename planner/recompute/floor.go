package recompute

// Floor is the peak that no plan goes below, and the operator that sets it.
type Floor struct {
	Peak int64
	Op   int32
}

// FloorOf is the largest need of a single operator: its inputs and outputs, and what is alive across it in every plan.
func FloorOf(p *Problem) Floor {
	maker := makers(p)
	life := spans(p)
	n := int32(len(p.Cost))
	across := make([]int64, n+2)
	end := func(v int32) int32 { // the place after the last at which every plan has it
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
		}
	}
	var f Floor
	sum := int64(0)
	for op := range n {
		sum += across[op]
		need := sum + p.Work[op]
		for _, v := range p.Inputs.Of(op) {
			if !held(v, op) {
				need += p.Bytes[v]
			}
		}
		over := false
		for _, v := range p.Over.Of(op) {
			over = over || !held(v, op)
		}
		for i, v := range p.Outputs.Of(op) {
			if i > 0 || !over {
				need += p.Bytes[v]
			}
		}
		if need > f.Peak {
			f = Floor{need, op}
		}
	}
	return f
}

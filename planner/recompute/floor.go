package recompute

// Floor is the peak that no plan goes below, and the operator that sets it.
type Floor struct {
	Peak int64
	Op   int32
}

// FloorOf is the largest need of a single operator: what it reads and writes, and
// what is alive across it in every plan.
func FloorOf(p *Problem) Floor {
	maker := makers(p)
	life := spans(p)
	n := int32(len(p.Cost))
	across := make([]int64, n+2)
	held := func(v, at int32) bool { // whatever the plan
		m := maker[v]
		return m >= 0 && (!p.Again[m] || p.Held[v]) && life[v].made < at && life[v].last > at
	}
	for v, x := range life {
		if m := maker[v]; m >= 0 && (!p.Again[m] || p.Held[v]) && x.made+1 < x.last {
			across[x.made+1] += p.Bytes[v]
			across[x.last] -= p.Bytes[v]
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

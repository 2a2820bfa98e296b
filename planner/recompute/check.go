package recompute

import (
	"fmt"
	"slices"
)

// Check replays launches by another route than the solver's: from the end, with the set of values that are still
// needed. It returns the peak and the extra cost.
func Check(p *Problem, launches []int32) (peak int64, extra float64, err error) {
	ran := make([]int, len(p.Cost))
	next := int32(0) // the operator to run first next
	there := make([]bool, len(p.Bytes))
	again := make([]bool, len(launches))
	for i, op := range launches {
		switch {
		case op < 0 || int(op) >= len(p.Cost):
			return 0, 0, fmt.Errorf("launch %d is of operator %d, which is none", i, op)
		case ran[op] == 0 && op != next:
			return 0, 0, fmt.Errorf("launch %d is the first of operator %d, before that of %d", i, op, next)
		case ran[op] == 0:
			next++
		case !p.Again[op]:
			return 0, 0, fmt.Errorf("launch %d runs operator %d again, which may not", i, op)
		default:
			extra += p.Cost[op]
			again[i] = true
		}
		ran[op]++
		for _, v := range p.Inputs.Of(op) {
			if !there[v] {
				return 0, 0, fmt.Errorf("launch %d reads value %d before it is made", i, v)
			}
		}
		for _, v := range p.Outputs.Of(op) {
			there[v] = true
		}
	}
	if int(next) < len(p.Cost) {
		return 0, 0, fmt.Errorf("operator %d never runs", next)
	}

	wanted, held := make([]bool, len(p.Bytes)), int64(0)
	ends := make([][]int32, len(p.Cost)+1) // by operator: what must be kept until it has run
	for v := range p.Until {
		if until := p.Until[v]; until > 0 {
			ends[until-1] = append(ends[until-1], int32(v))
		}
	}
	staying := make([]bool, len(p.Bytes))
	want := func(v int32) {
		if !wanted[v] {
			wanted[v] = true
			held += p.Bytes[v]
		}
	}
	for v, h := range p.Held {
		if h && there[v] {
			want(int32(v))
		}
	}
	for i := len(launches) - 1; i >= 0; i-- {
		op := launches[i]
		if !again[i] {
			for _, v := range ends[op] {
				staying[v] = true
				want(v)
			}
		}
		after := held
		outs := p.Outputs.Of(op)
		for _, v := range outs {
			if !wanted[v] || again[i] && (p.Held[v] || staying[v]) { // a copy that nobody reads
				after += p.Bytes[v]
			} else {
				wanted[v], staying[v] = false, false
				held -= p.Bytes[v]
			}
		}
		if slices.ContainsFunc(p.Over.Of(op), func(v int32) bool { return !wanted[v] }) {
			after -= p.Bytes[outs[0]] // it lies over what counts
		}
		for _, v := range p.Inputs.Of(op) {
			if !wanted[v] {
				after += p.Bytes[v]
			}
			want(v)
		}
		peak = max(peak, after+p.Work[op])
	}
	return peak, extra, nil
}

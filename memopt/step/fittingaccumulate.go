package step

import (
	"fmt"
	"math"
	"slices"

	"memopt/autograd"
	"memopt/internal/bytesize"
	"memopt/internal/graph"
	"memopt/memopt/feed"
	"memopt/memopt/fit"
	"memopt/planner"
)

// accumulates looks for the smallest number of micro-batches that divides the batch into equal parts and makes the
// step fit. beside are settings that go with the change.
func (f *Fitting) accumulates(beside ...planner.Setting) {
	dim := f.m.BatchDim()
	rows, now := f.Config.Dims[dim], max(f.Config.Accumulate, 1)
	if dim == "" || rows < 2 || f.m.again == nil || f.Config.Optimizer == "" {
		return
	}
	left := f.Left
	defer func() { f.Left = left }() // the rest of the search gets as much time as before
	f.Left = fit.MostNodes
	var parts []int64
	for k := int64(2); k <= rows && k*int64(now) <= math.MaxInt32; k++ {
		if rows%k == 0 {
			parts = append(parts, k)
		}
	}
	for _, budget := range []struct {
		setting string
		percent float64
		bytes   int64
	}{{"budget", f.m.Config.Budget.Percent, f.Config.Budget.Bytes}, {"activation_budget", f.m.Config.ActivationBudget.Percent, f.Config.ActivationBudget.Bytes}} {
		if budget.percent > 0 && budget.bytes > 0 { // the same percentage of a smaller step would be less
			beside = append(beside, planner.Setting{Name: budget.setting, Value: bytesize.Below(budget.bytes)})
		}
	}
	changes := func(k int64) []planner.Setting {
		return append([]planner.Setting{{Name: "accumulate", Value: fmt.Sprint(int64(now) * k)}, {Name: "dims", Value: fmt.Sprintf("%s=%d", dim, rows/k)}}, beside...)
	}
	plans := map[int64]*planner.Plan{}
	fits := func(k int64) bool {
		if _, tried := plans[k]; !tried {
			plans[k] = f.tried(changes(k))
		}
		return plans[k] != nil
	}
	if size := f.SizeFound(dim); size > 0 { // fits without accumulated gradients, which take a little more
		parts = slices.DeleteFunc(parts, func(k int64) bool { return rows/k > size })
		if len(parts) > 2 && !fits(parts[0]) && !fits(parts[len(parts)-1]) { // then none in between fits
			return
		}
		parts = parts[max(0, slices.IndexFunc(parts, fits)):]
	} else {
		at, _ := slices.BinarySearchFunc(parts, true, func(k int64, _ bool) int {
			if fits(k) {
				return 0
			}
			return -1
		})
		parts = parts[at:]
	}
	if len(parts) == 0 || !fits(parts[0]) {
		return
	}
	k := parts[0]
	note := fmt.Sprintf("%d runs of %s=%d for an update, the same %d rows; %s", int64(now)*k, dim, rows/k, rows*int64(now), f.m.takes(plans[k]).Cost())
	if f.m.normalizesBatches() {
		note += "; each run normalizes by its own rows"
	}
	f.Found = append(f.Found, planner.Change{Set: changes(k), Share: float64(k), Note: note})
}

// BatchDim is the first dim of all inputs, if it is one name and no other dim uses it, so that steps may take fewer
// rows; "" if there is none.
func (m *Model) BatchDim() (dim string) {
	for _, v := range m.Graph.Inputs {
		if v.Name == autograd.LearningRate || v.Name == autograd.MicroBatch {
			continue
		}
		if v.Rank() == 0 {
			return ""
		}
		name, is := feed.NameOf(v.Shape[0])
		if !is || dim != "" && name != dim {
			return ""
		}
		dim = name
		for _, d := range v.Shape[1:] {
			if slices.Contains(d.Names(), dim) {
				return ""
			}
		}
	}
	return dim
}

// normalizesBatches reports whether a node uses statistics of its batch.
func (m *Model) normalizesBatches() bool {
	return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool {
		return n.Phase == graph.Forward && len(n.Op.Running) > 0 && (n.Op.UsesRunning == nil || !n.Op.UsesRunning(n))
	})
}

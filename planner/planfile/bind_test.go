package planfile_test

import (
	"slices"
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/planfile"
)

// TestBindRequests: a plan that is read back knows what was asked of clusters.
func TestBindRequests(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 3, Width: 32, Heads: 2, Vocab: 50})
	dims := map[string]int64{"batch": 4, "seq": 16}
	plain, err := planner.Make(g, planner.Request{Dims: dims})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Tabulate(); err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, r := range plain.Clusters {
		if r.Freq == 3 && r.Strategy == 1 {
			id = r.ID
			break
		}
	}
	p, err := planner.Make(g, planner.Request{Dims: dims, Clusters: []cluster.Request{{ID: id, Type: 1, Count: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	q, err := planfile.Of(p, "gpt.onnx").Bind(g)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range p.Clusters {
		if got := q.Clusters[i]; got.Requested != r.Requested || got.Applied != r.Applied {
			t.Errorf("%s: requested %d and applied %d, read back as %d and %d", r.Key, r.Requested, r.Applied, got.Requested, got.Applied)
		}
		if r.ID == id && r.Strategy == 1 && r.Requested != 2 {
			t.Errorf("%s: requested %d, not 2", r.Key, r.Requested)
		}
	}
	f := planfile.Of(p, "gpt.onnx")
	f.Request.Config = "no request"
	if _, err := f.Bind(g); err == nil {
		t.Error("a request that is none is read")
	}
}

// TestBindRefuses breaks a plan file in one way each.
func TestBindRefuses(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(f *planfile.File)
		want  string
	}{
		{"a step is dropped", func(f *planfile.File) { f.Steps = slices.Delete(f.Steps, 1, 2) }, `"y" is read before it is made`},
		{"the last step is dropped", func(f *planfile.File) { f.Steps = f.Steps[:len(f.Steps)-1] }, `"e" is read before it is made`},
		{"a node that is not there", func(f *planfile.File) { f.Steps[0].Node = 99 }, `step 0 names node 99, which cannot be launched`},
		{"a node below all", func(f *planfile.File) { f.Steps[0].Node = -1 }, `step 0 names node -1, which cannot be launched`},
		{"a view", func(f *planfile.File) { f.Steps[0].Node = 3 }, `step 0 names node 3, which cannot be launched`},
		{"a node that may not run again", func(f *planfile.File) { f.Steps = append(f.Steps, planner.Step{Node: 5, Again: true}) }, `node "d" (Mul): may not run again`},
		{"a node runs twice", func(f *planfile.File) { f.Steps[4].Again = false }, `node "h" (Tanh): runs twice for the first time`},
		{"a node runs again first", func(f *planfile.File) { f.Steps[0].Again = true }, `node "h" (Tanh): runs again before it ran`},
		{"offsets are missing", func(f *planfile.File) { f.Offsets = f.Offsets[1:] }, `is written over input 0 (v)`},
		{"an offset is below the arena", func(f *planfile.File) { f.Offsets[0] = -64 }, `outside the arena`},
		{"an offset is above the arena", func(f *planfile.File) { f.Offsets[0] = 1 << 62 }, `outside the arena`},
		{"an offset is within a cache line", func(f *planfile.File) { f.Offsets[0]++ }, `which is no multiple of 64`},
		{"a node's text is another", func(f *planfile.File) { f.Program[0] = "" }, `the plan spells node 0 as`},
		{"a node's text is missing", func(f *planfile.File) { f.Program = f.Program[1:] }, `the plan spells node 0 as`},
		{"nodes are added", func(f *planfile.File) { f.Program = append(f.Program, f.Program[0]) }, `it goes on with`},
		{"the model has fewer nodes", func(f *planfile.File) { f.Model.Nodes-- }, `says that model.nodes is`},
		{"another part is forward", func(f *planfile.File) { f.Model.Forward++ }, `says that model.forward_nodes is`},
		{"another kind of graph", func(f *planfile.File) { f.Model.Kind = "training" }, `says that model.kind is "training"`},
		{"a strategy that is none", func(f *planfile.File) { f.Strategy = "best" }, `its strategy is "best"; there are keep-all`},
		{"the arena is lower", func(f *planfile.File) { f.Result.Arena -= 64 }, `outside the arena`},
		{"the arena is higher", func(f *planfile.File) { f.Result.Arena += 64 }, `the arena is`},
		{"the peak is lower", func(f *planfile.File) { f.Result.Peak-- }, `says that result.peak is`},
		{"the floor is lower", func(f *planfile.File) { f.Floor.Peak-- }, `says that floor.peak is`},
		{"another node sets the floor", func(f *planfile.File) { f.Floor.Node = "z" }, `says that floor.node is "z", but its plan has`},
		{"another node sets the peak", func(f *planfile.File) { f.Result.PeakNode = "z" }, `says that result.peak_node is "z"`},
		{"the peak has another formula", func(f *planfile.File) { f.Result.PeakFormula = "8*batch" }, `says that result.peak_formula is "8*batch"`},
		{"a budget is below the plan", func(f *planfile.File) { f.Request.ActivationBudget = 1 }, `leaves 1 bytes for an arena`},
		{"a budget of all is below the plan", func(f *planfile.File) { f.Request.Budget = f.Memory.Total - 1 }, `the plan has a budget`},
		{"the cost is over its limit", func(f *planfile.File) { f.Request.MaxOverhead = f.Result.Overhead / 2 }, `of extra cost, over its limit`},
		{"a limit of cost that is none", func(f *planfile.File) { f.Request.MaxOverhead = -1 }, `has a limit of -1 of extra cost`},
		{"a bound above the arena", func(f *planfile.File) { f.Result.PackBound = f.Result.Arena + 1 }, `claims that no arena is below`},
		{"something else is saved", func(f *planfile.File) { f.Saved = append(f.Saved, "zz") }, `says that saved is 2 entries long, but its plan has 1`},
		{"something saved is hidden", func(f *planfile.File) { f.Saved = f.Saved[1:] }, `says that saved is 0 entries long`},
		{"the largest values are others", func(f *planfile.File) { f.Dominant[0].Bytes++ }, `says that dominant[0].bytes is`},
		{"less is kept", func(f *planfile.File) { f.Result.Stashed-- }, `says that result.stashed is -1, but its plan has 0`},
		{"fewer nodes run again", func(f *planfile.File) { f.Result.Recomputed-- }, `says that result.recomputed_nodes is`},
		{"weights are smaller", func(f *planfile.File) { f.Memory.Weights-- }, `says that memory.weights is`},
		{"the step is smaller", func(f *planfile.File) { f.Memory.Total = 0 }, `says that memory.total is 0`},
		{"keeping everything takes more", func(f *planfile.File) { f.Baseline.Peak++ }, `says that baseline.peak is`},
		{"the step is dearer", func(f *planfile.File) { f.Baseline.Flops++ }, `says that baseline.flops is`},
		{"running again is cheaper", func(f *planfile.File) { f.Result.ExtraFlops-- }, `says that result.extra_flops is`},
		{"the table saves more", func(f *planfile.File) { f.Clusters[0].Bytes++ }, `says that clusters[0].bytes is`},
		{"the table costs less", func(f *planfile.File) { f.Clusters[0].Cost /= 2 }, `says that clusters[0].cost is`},
		{"the table is shorter", func(f *planfile.File) { f.Clusters = f.Clusters[1:] }, `says that clusters`},
		{"a formula is another", func(f *planfile.File) { f.Formulas.Flops = "batch" }, `says that formulas.flops is "batch"`},
		{"a formula holds for more", func(f *planfile.File) { f.Formulas.Ranges[0].To++ }, `says that formulas.ranges[0].to is`},
		{"the bound is nearer", func(f *planfile.File) { f.Bound.Gap -= 0.01 }, `above its bound, but its figures are`},
		{"dims are missing", func(f *planfile.File) { f.Dims = nil }, `dim "batch" has no value`},
		{"dims are others", func(f *planfile.File) { f.Dims["batch"] = 5 }, `is written over input 0 (h)`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := again(t)
			f := planfile.Of(p, "m.onnx")
			f.Dims = map[string]int64{"batch": 4}
			f.Offsets = slices.Clone(f.Offsets)
			c.spoil(f)
			_, err := f.Bind(p.Graph)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

package planner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/planner"
	"memopt/planner/pack"
	"memopt/planner/planfile"
	"memopt/planner/profile"
)

func mustMake(t *rapid.T, g *graph.Graph, r planner.Request) *planner.Plan {
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	return p
}

// sound is what holds for every plan.
func sound(t *rapid.T, p *planner.Plan) {
	if err := planner.Check(p); err != nil {
		t.Fatalf("%v\n%s", err, p.Graph)
	}
	if err := p.Tabulate(); err != nil {
		t.Fatalf("%v\n%s", err, p.Graph)
	}
	if p.Floor.Peak > p.Result.Peak || p.Floor.Peak > p.Baseline.Peak {
		t.Fatalf("floor %d (%s), but the peak is %d and %d with everything kept\n%s",
			p.Floor.Peak, p.Floor.Node, p.Result.Peak, p.Baseline.Peak, p.Graph)
	}
	if p.Result.Peak > p.Arena || p.Result.Peak > p.PackBound || p.PackBound > p.Arena {
		t.Fatalf("peak %d, bound of the packing %d, arena %d\n%s", p.Result.Peak, p.PackBound, p.Arena, p.Graph)
	}
	if m := p.Memory; m.Total != m.Weights+m.Gradients+m.Optimizer+m.Activations+m.Staging {
		t.Fatalf("the parts do not add up: %+v", m)
	}
	if p.Bound.Gap < -1e-9 || p.Bound.Overhead < 0 {
		t.Fatalf("overhead %v is below its bound: %+v\n%s", p.Result.Overhead, p.Bound, p.Graph)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	if peak := recount(p.Graph, s); peak != p.Result.Peak {
		t.Fatalf("the peak is %d, the plan says %d\n%s", peak, p.Result.Peak, p.Graph)
	}
	if s.Arena != p.Arena || p.Memory.Total != s.Arena+s.State+s.Staging {
		t.Fatalf("total %d for spaces of %d, %d and %d", p.Memory.Total, s.Arena, s.State, s.Staging)
	}
}

// recount is the peak of a schedule, counted plainly: at each launch, the bytes
// of the arena under a value that was written by then and is read then or
// later, or was written for the first time and is held.
func recount(g *graph.Graph, s *schedule.Schedule) (peak int64) {
	type write struct {
		owner       *graph.Value
		from, to    int64
		first, last int
	}
	type end struct {
		owner *graph.Value
		at    int
	}
	var writes []*write
	var ends []end
	owner := func(v *graph.Value) *graph.Value {
		for v.Def != nil && v.Def.Op.View {
			v = v.Def.Inputs[0]
		}
		return v
	}
	read := func(r schedule.Ref, at int) {
		if r.Value == nil || r.Space != schedule.Arena || r.Bytes == 0 {
			return
		}
		for _, w := range slices.Backward(writes) {
			if w.owner == owner(r.Value) && w.from == r.Offset {
				w.last = at
				return
			}
		}
		panic("nobody wrote " + r.Value.Name)
	}
	launches := 0
	for _, l := range s.Launches {
		at := launches
		if l.Node == nil {
			at = launches - 1 // copies read what lasts to the end
		} else {
			launches++
		}
		for _, r := range l.In {
			read(r, at)
		}
		if l.Node != nil && !l.Again {
			for _, h := range g.Holds {
				if h.Until == l.Node {
					ends = append(ends, end{owner(h.Value), at})
				}
			}
		}
		for _, r := range append(slices.Clone(l.Out), l.Scratch) {
			if r.Space == schedule.Arena && r.Bytes > 0 {
				w := &write{from: r.Offset, to: r.Offset + r.Bytes, first: at, last: at}
				if r.Value != nil {
					w.owner = owner(r.Value)
				}
				writes = append(writes, w)
			}
		}
	}
	for _, r := range s.Outputs {
		if r.Bytes > 0 {
			read(r, launches-1)
		}
	}
	for _, e := range ends {
		if i := slices.IndexFunc(writes, func(w *write) bool { return w.owner == e.owner }); i >= 0 {
			writes[i].last = max(writes[i].last, e.at)
		}
	}
	for at := range launches {
		var alive []*write
		for _, w := range writes {
			if w.first <= at && w.last >= at {
				alive = append(alive, w)
			}
		}
		slices.SortFunc(alive, func(a, b *write) int { return int(a.from - b.from) })
		end, sum := int64(0), int64(0)
		for _, w := range alive {
			sum += max(0, w.to-max(w.from, end))
			end = max(end, w.to)
		}
		peak = max(peak, sum)
	}
	return peak
}

// TestAnySet: whatever runs again, the plan is sound.
func TestAnySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 10), randomDims(t)
		sound(t, mustMake(t, g, planner.Request{Dims: dims, Again: randomAgain(t, g, dims)}))
	})
}

// TestAnyhow: whatever runs again, wherever and however often, the plan is sound,
// comes back from its file, and computes the same bits as a graph of its own.
func TestAnyhow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	twice := 0
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 8), map[string]int64{"batch": rapid.Int64Range(1, 3).Draw(t, "batch")}
		lab, err := planner.NewLab(g, dims)
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		again := make([][2]int, rapid.IntRange(1, 8).Draw(t, "launches"))
		for i := range again {
			again[i] = [2]int{rapid.IntRange(0, 1000).Draw(t, "place"), rapid.IntRange(0, 1000).Draw(t, "node")}
		}
		p := lab.Anyhow(again, dims)
		sound(t, p)
		runs := map[int32]int{}
		for _, s := range p.Steps {
			if runs[s.Node]++; runs[s.Node] == 3 {
				twice++
			}
		}
		if err := planfile.Of(p, "m.onnx").Save(path); err != nil {
			t.Fatal(err)
		}
		f, err := planfile.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		q, err := f.Bind(g)
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		if !slices.Equal(p.Steps, q.Steps) || p.Result != q.Result {
			t.Fatalf("the plan came back as another: %v, %v", p.Steps, q.Steps)
		}
		sameRewritten(t, p, g, dims)
	})
	if twice == 0 {
		t.Error("no node ran three times")
	}
}

// sameRewritten holds a plan as a graph of its own to the bits of the plain one.
func sameRewritten(t *rapid.T, p *planner.Plan, g *graph.Graph, dims map[string]int64) {
	r, err := p.Rewrite()
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	want := numbers(t, g, dims)
	for i, got := range numbers(t, r, dims) {
		if !bytes.Equal(got, want[i]) {
			t.Fatalf("other bits:\n%s\n%s", g, r)
		}
	}
}

// TestStrategies: every strategy and level gives a sound plan.
func TestStrategies(t *testing.T) {
	names, _ := planner.Strategies()
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 10), randomDims(t)
		for _, name := range append(names, "", "auto") {
			sound(t, mustMake(t, g, planner.Request{Dims: dims, Strategy: name}))
		}
		sound(t, mustMake(t, g, planner.Request{Dims: dims, Level: 1}))
		overhead := rapid.Float64Range(0.01, 1).Draw(t, "overhead")
		p := mustMake(t, g, planner.Request{Dims: dims, MaxOverhead: overhead})
		sound(t, p)
		if p.Result.Overhead > overhead {
			t.Fatalf("overhead %v is above the limit of %v", p.Result.Overhead, overhead)
		}
	})
}

// randomProfile prices operators in time half of the times.
func randomProfile(t *rapid.T) *profile.Profile {
	names := append(profile.Shipped(), slices.Repeat([]string{""}, len(profile.Shipped()))...)
	name := rapid.SampledFrom(names).Draw(t, "profile")
	if name == "" {
		return nil
	}
	p, err := profile.For(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBudgets: no plan is above its budget, less budget never gives a higher
// peak or arena, nor a plan where more budget gave none; what is refused is
// refused with the floor.
func TestBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 10), randomDims(t)
		plain := mustMake(t, g, planner.Request{Dims: dims})
		whole := rapid.Bool().Draw(t, "whole")
		var before *planner.Plan
		refused := false
		for i := range 20 {
			r := planner.Request{Dims: dims}
			limit := plain.Arena * int64(20-i) / 20
			if whole {
				limit += plain.Memory.Total - plain.Arena
				r.Budget.Bytes = limit
			} else {
				r.ActivationBudget.Bytes = limit
			}
			if limit == 0 {
				break // a budget of 0 is none
			}
			p, err := planner.Make(g, r)
			if err != nil {
				var be *planner.BudgetError
				if !errors.As(err, &be) {
					t.Fatal(err)
				}
				if be.Floor != plain.Floor || !strings.Contains(err.Error(), be.Floor.Node) {
					t.Fatalf("%v: floor %+v, not %+v", err, be.Floor, plain.Floor)
				}
				if be.Best <= be.Want {
					t.Fatalf("%v: %d would do for %d", err, be.Best, be.Want)
				}
				refused = true
				continue
			}
			if refused {
				t.Fatalf("%d bytes can be met, but more could not\n%s", limit, g)
			}
			sound(t, p)
			if got := map[bool]int64{false: p.Arena, true: p.Memory.Total}[whole]; got > limit {
				t.Fatalf("%d bytes for a budget of %d\n%s", got, limit, g)
			}
			if before != nil && (p.Result.Peak > before.Result.Peak || p.Arena > before.Arena) {
				t.Fatalf("peak %d, arena %d for %d bytes, but %d and %d for more\n%s",
					p.Result.Peak, p.Arena, limit, before.Result.Peak, before.Arena, g)
			}
			before = p
		}
	})
}

// TestAnyBudget: whatever the graph and the budget, the plan is sound and keeps
// it, and says no less than the floor and no more than the bound promise. CI runs
// it on 10 000 graphs.
func TestAnyBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 10), randomDims(t)
		plain := mustMake(t, g, planner.Request{Dims: dims})
		limit := rapid.Int64Range(1, max(plain.Arena, 1)).Draw(t, "limit")
		p, err := planner.Make(g, planner.Request{Dims: dims, ActivationBudget: planner.Size{Bytes: limit}, Profile: randomProfile(t)})
		if err != nil {
			var be *planner.BudgetError
			if !errors.As(err, &be) || be.Floor != plain.Floor || be.Best <= limit {
				t.Fatalf("%v within %d\n%s", err, limit, g)
			}
			return
		}
		sound(t, p)
		if p.Arena > limit || p.Result.Peak < p.Floor.Peak || p.Bound.Overhead > p.Result.Overhead+1e-9 {
			t.Fatalf("arena %d for a budget of %d, peak %d above a floor of %d, overhead %v above a bound of %v\n%s",
				p.Arena, limit, p.Result.Peak, p.Floor.Peak, p.Result.Overhead, p.Bound.Overhead, g)
		}
	})
}

// TestAllSets holds floor and bound against every set of up to 8 nodes.
func TestAllSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 6), randomDims(t)
		lab, err := planner.NewLab(g, dims)
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		nodes := lab.Repeatable()
		nodes = nodes[:min(8, len(nodes))]
		floor := lab.Floor()
		for set := range 1 << len(nodes) {
			again := make([]bool, len(g.Nodes))
			for i, n := range nodes {
				again[n.ID] = set>>i&1 == 1
			}
			peak, _, steps, overhead := lab.Simulate(again)
			if other := lab.Peak(steps); other != peak {
				t.Fatalf("the lives of the steps %v have a peak of %d, going back over them finds %d\n%s", steps, peak, other, g)
			}
			if peak < floor.Peak {
				t.Fatalf("floor %d (%s), but the steps %v have a peak of %d\n%s", floor.Peak, floor.Node, steps, peak, g)
			}
			if least := lab.LeastOverhead(peak); least > overhead+1e-9 {
				t.Fatalf("bound %v for a peak of %d, but the steps %v have it for %v\n%s", least, peak, steps, overhead, g)
			}
		}
	})
}

// fileBytes is a plan's JSON without the time it took.
func fileBytes(t *rapid.T, p *planner.Plan) []byte {
	f := planfile.Of(p, "m.onnx")
	f.PlanMS = 0
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSamePlan: the same request gives the same bytes, also on a graph that was
// read anew.
func TestSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 10), randomDims(t)
		r := planner.Request{Dims: dims, ActivationBudget: planner.Size{Percent: 80}}
		p, err := planner.Make(g, r)
		if err != nil {
			r = planner.Request{Dims: dims, Strategy: "recompute-all"}
			p = mustMake(t, g, r)
		}
		if !bytes.Equal(fileBytes(t, p), fileBytes(t, mustMake(t, g, r))) {
			t.Fatalf("two plans for one request\n%s", g)
		}
		again, err := graph.Parse(kernels.Library, g.String())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fileBytes(t, p), fileBytes(t, mustMake(t, again, r))) {
			t.Fatalf("the graph that was read back has another plan\n%s", g)
		}
	})
}

// TestPlanFile: a plan that is saved, read and bound is the same plan; another
// graph is refused with the first difference.
func TestPlanFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 10), randomDims(t)
		p := mustMake(t, g, planner.Request{Dims: dims, Level: rapid.IntRange(0, 1).Draw(t, "level"), Again: randomAgain(t, g, dims)})
		if err := planfile.Of(p, "m.onnx").Save(path); err != nil {
			t.Fatal(err)
		}
		f, err := planfile.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		q, err := f.Bind(g)
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		sound(t, q)
		if diff := cmp.Diff(string(fileBytes(t, p)), string(fileBytes(t, q))); diff != "" {
			t.Fatalf("the plan came back as another:\n%s", diff)
		}
		other := randomGraph(t, 3)
		if other.String() == g.String() {
			return
		}
		_, err = f.Bind(other)
		if err == nil || !strings.Contains(err.Error(), "another graph") {
			t.Fatalf("a plan for another graph: %v", err)
		}
		for i, n := range other.Nodes {
			if i < len(g.Nodes) && g.Nodes[i].String() != n.String() {
				begin := func(n *graph.Node) string { return n.String()[:min(len(n.String()), 100)] } // what is long is cut
				if !strings.Contains(err.Error(), begin(n)) || !strings.Contains(err.Error(), begin(g.Nodes[i])) {
					t.Fatalf("the first difference is %s, but the error is: %v", n, err)
				}
				return
			}
		}
	})
}

// TestFileIsWhole: a file that cannot be written leaves nothing behind.
func TestFileIsWhole(t *testing.T) {
	dir := t.TempDir()
	f := &planfile.File{Format: planfile.Format}
	if err := f.Save(filepath.Join(dir, "none", "plan.json")); err == nil {
		t.Error("saved into a folder that is not there")
	}
	if err := os.Mkdir(filepath.Join(dir, "plan.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(filepath.Join(dir, "plan.json")); err == nil {
		t.Error("saved over a folder")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestPlacing holds the offsets against the packing's own check.
func TestPlacing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 12), randomDims(t)
		g.Recorded = nil // or lives have no places
		p := mustMake(t, g, planner.Request{Dims: dims, Again: randomAgain(t, g, dims)})
		var problem pack.Problem
		for _, l := range p.Stretches() {
			problem.Buffers = append(problem.Buffers, pack.Buffer{First: l.First, Last: l.Last, Size: l.Bytes, Align: 64})
		}
		if err := pack.Check(problem, pack.Solution{Offsets: p.Offsets, Height: p.Arena, Bound: p.PackBound}); err != nil {
			t.Fatal(err)
		}
	})
}

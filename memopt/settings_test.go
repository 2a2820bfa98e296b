package memopt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/kernels/vulkan"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/cluster"
)

// hand is a plan that somebody's settings make.
type hand struct {
	name string
	told bool // the command has settings for it
	p    *planner.Plan
}

// hands are the plans of every level, with boundaries and without, by ONNX
// Runtime's rules and the mended ones, for each of its probe levels.
func hands(t *testing.T, m *step.Model, dims map[string]int64) (all []hand) {
	t.Helper()
	for _, r := range []cluster.Rules{
		{ProbeLevel: 1, Library: m.Graph.Lib}, {ProbeLevel: 1, Compat: "1.19"}, {ProbeLevel: 0, Library: m.Graph.Lib}, {ProbeLevel: 0, Compat: "1.19"},
	} {
		for _, r.Boundary = range []bool{true, false} {
			a, err := cluster.Analyse(m.Outline, r)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := a.Table(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for level := 1; level <= 2; level++ {
				copies := cluster.Rewrite(a, a.Choose(cluster.Level(cluster.KeysOf(lines), level)).Choices, 0)
				p, err := planner.Make(m.Graph, planner.Request{Dims: dims, Again: copied(m.Graph, copies)})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, hand{fmt.Sprintf("level %d, probe %d, boundaries %v, compat %q", level, r.ProbeLevel, r.Boundary, r.Compat), r.ProbeLevel == 1, p})
			}
		}
	}
	return all
}

// copied is the names of the nodes that a rewritten program runs again, but for
// views and what is folded away here.
func copied(g *graph.Graph, o *graph.Outline) (names []string) {
	for _, n := range g.Nodes {
		again := slices.ContainsFunc(o.Nodes, func(x graph.OutlineNode) bool {
			name, is := strings.CutSuffix(x.Name, "_recompute")
			return is && name == n.Name
		})
		if again && n.Phase == graph.Forward && n.Op.Recompute != graph.Never && !n.Op.View {
			names = append(names, n.Name)
		}
	}
	return names
}

// TestBudgetBeatsSettings: within the arena that any level takes a plan costs
// less, and within its cost one needs no more; on the three layers of Bloom that
// goes for flops too, and what is needed is less. The frontier has a point that
// is as good as whatever the command can be told to do.
func TestBudgetBeatsSettings(t *testing.T) {
	for _, c := range trainingGraphs {
		if !c.loss {
			continue
		}
		t.Run(c.file, func(t *testing.T) {
			m := openTraining(t, c.file, c.dims)
			plan := func(h hand, r planner.Request) planner.Summary {
				r.Dims = c.dims
				p, err := planner.Make(m.Graph, r)
				if err != nil {
					t.Fatalf("%s: %v", h.name, err)
				}
				return p.Result
			}
			curve, err := planner.Frontier(m.Graph, planner.Request{Dims: c.dims})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[planner.Summary]bool{}
			for _, h := range hands(t, m, c.dims) {
				was := h.p.Result
				if was.Again == 0 || seen[was] {
					continue
				}
				seen[was] = true
				within := plan(h, planner.Request{ActivationBudget: planner.Size{Bytes: h.p.Arena}})
				lowest := plan(h, planner.Request{MaxOverhead: was.Overhead})
				t.Logf("%s: %d bytes for %.3f %%; a plan within that %.3f %%; for that %d bytes", h.name, was.Peak, 100*was.Overhead, 100*within.Overhead, lowest.Peak)
				if within.Overhead >= was.Overhead {
					t.Errorf("%s costs %v; a plan within its arena %v", h.name, was.Overhead, within.Overhead)
				}
				if lowest.Peak > was.Peak {
					t.Errorf("%s needs %d bytes; a plan within its cost %d", h.name, was.Peak, lowest.Peak)
				}
				if c.large && (lowest.Peak >= was.Peak || lowest.ExtraFlops > was.ExtraFlops || within.ExtraFlops >= was.ExtraFlops) {
					t.Errorf("%s needs %d bytes and %d flops; plans %d bytes for %d flops, or %d flops", h.name, was.Peak, was.ExtraFlops, lowest.Peak, lowest.ExtraFlops, within.ExtraFlops)
				}
				if h.told && !slices.ContainsFunc(curve.Points, func(p planner.Point) bool { return p.Peak <= was.Peak && p.Overhead <= was.Overhead }) {
					t.Errorf("%s needs %d bytes for %v: no point of the frontier is as good", h.name, was.Peak, was.Overhead)
				}
			}
			if len(seen) < 2 {
				t.Errorf("%d settings compute anything again", len(seen))
			}
		})
	}
}

// TestFastPathsSetting: the setting knows every fast path, and no other.
func TestFastPathsSetting(t *testing.T) {
	for _, name := range append(vulkan.FastPathNames(), vulkan.FastPathsAuto, vulkan.FastPathsNone) {
		c := configs.Default()
		if err := c.Set("fast_paths", name, configs.Source{}); err != nil {
			t.Error(err)
		}
	}
	c := configs.Default()
	err := c.Set("fast_paths", "nonsuch", configs.Source{})
	if want := "use auto, none, " + strings.Join(vulkan.FastPathNames(), ", "); err == nil || !strings.HasSuffix(strings.ReplaceAll(err.Error(), " or ", ", "), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

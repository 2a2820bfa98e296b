package planner_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/planfile"
	"memopt/planner/shrink"
)

// TestRowsAreSimulated: what the table says of a row, alone and together with
// what is on, is what plans say that are made with it and without it.
func TestRowsAreSimulated(t *testing.T) {
	dims := map[string]int64{"batch": 2, "seq": 16}
	for _, family := range []string{"gpt", "bert", "llama", "resnet", "mlp"} {
		t.Run(family, func(t *testing.T) {
			g, err := zoo.New(zoo.Spec{Family: family, Layers: 2}, kernels.Library)
			if err != nil {
				t.Fatal(err)
			}
			g.Clean(graph.CleanOptions{Fuse: kernels.Fusions})
			if g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "sgd"}); err != nil {
				t.Fatal(err)
			}
			lossy := shrink.Lossy(g, graph.BFloat16)
			keys := shrink.Keys(lossy)
			form := func(on []bool) *graph.Graph {
				var chosen []shrink.Candidate
				for i, is := range on {
					if is {
						chosen = append(chosen, lossy[i])
					}
				}
				small, err := shrink.Apply(context.Background(), g, chosen)
				if err != nil {
					t.Fatal(err)
				}
				return small
			}
			// plan is one under requests, of the form in which some keys are on.
			plan := func(requests []cluster.Request, on map[string]bool, again ...string) *planner.Plan {
				t.Helper()
				now := make([]bool, len(lossy))
				for i, c := range lossy {
					now[i] = on[c.ID]
				}
				var extracts []planner.Extract
				for _, k := range keys {
					e := planner.Extract{ID: k.ID}
					for _, i := range k.Members {
						e.Nodes, e.On, e.How = append(e.Nodes, lossy[i].Value.Def.Name), append(e.On, now[i]), append(e.How, lossy[i].How)
						e.Savings = append(e.Savings, lossy[i].Before.Sub(lossy[i].After))
					}
					e.Form = func(alone, is bool) (*graph.Graph, error) {
						other := make([]bool, len(now))
						if !alone {
							copy(other, now)
						}
						for _, i := range k.Members {
							other[i] = is
						}
						return form(other), nil
					}
					extracts = append(extracts, e)
				}
				g := form(now)
				again = slices.DeleteFunc(again, func(name string) bool { // copies are of one form alone
					return !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Name == name })
				})
				p, err := planner.Make(g, planner.Request{Dims: dims, Boundary: true, Clusters: requests, Extracts: extracts, Again: again})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			tabulated := func(p *planner.Plan) *planner.Plan {
				t.Helper()
				if err := p.Tabulate(); err != nil {
					t.Fatal(err)
				}
				return p
			}
			flops := func(p *planner.Plan) int64 { return p.Baseline.Flops + p.Result.ExtraFlops }
			plain := tabulated(plan(nil, nil))
			if s := plain.Selection; s.Rows != 0 || s.PeakDrop != 0 || s.Flops != 0 {
				t.Errorf("nothing is on, but %+v", s)
			}
			checked := 0
			// Some rows are on: every third that runs again, and one that is rounded.
			var asked []cluster.Request
			rounded := map[string]bool{keys[len(keys)-1].ID: true}
			for i, r := range plain.Clusters {
				if r.How == "" && i%3 == 0 && !strings.Contains(r.Key, ",") {
					asked = append(asked, cluster.Request{ID: r.ID, Type: r.Strategy, Count: -1})
				}
			}
			some := tabulated(plan(asked, rounded))
			if got := plain.Result.Peak - some.Result.Peak; got != some.Selection.PeakDrop {
				t.Errorf("the peak falls by %d, the selection says %d", got, some.Selection.PeakDrop)
			}
			if got := flops(some) - flops(plain); got != some.Selection.Flops {
				t.Errorf("%d operations more, the selection says %d", got, some.Selection.Flops)
			}
			for _, r := range some.Clusters {
				if strings.Contains(r.Key, ",") {
					continue
				}
				one := cluster.Request{ID: r.ID, Type: r.Strategy, Count: -1}
				alone, other, sign := (*planner.Plan)(nil), (*planner.Plan)(nil), int64(1)
				if r.Applied > 0 {
					sign = -1
				}
				if r.How != "" {
					flipped := map[string]bool{}
					for id := range rounded {
						flipped[id] = true
					}
					flipped[r.ID] = r.Applied == 0
					alone, other = plan(nil, map[string]bool{r.ID: true}), plan(nil, flipped, ranAgain(some)...)
				} else {
					only := plan([]cluster.Request{one}, rounded)
					if len(only.Asked) != r.Freq {
						continue // the ID means other places too
					}
					alone = plan(nil, nil, ranAgain(only)...)
					var left []cluster.Request
					for _, a := range asked {
						if a.ID != r.ID || a.Type != r.Strategy {
							left = append(left, a)
						}
					}
					if r.Applied == 0 {
						left = append(left, one)
					}
					if other = plan(left, rounded); len(other.Asked) != len(some.Asked)+int(sign)*r.Freq {
						continue // another row is at the same places
					}
				}
				checked++
				if got := plain.Result.Peak - alone.Result.Peak; got != r.PeakAlone {
					t.Errorf("%s alone lowers the peak by %d, the table says %d", r.Key, got, r.PeakAlone)
				}
				if got := sign * (some.Result.Peak - other.Result.Peak); got != r.PeakEffect {
					t.Errorf("%s lowers the peak here by %d, the table says %d", r.Key, got, r.PeakEffect)
				}
				if got := sign * (flops(other) - flops(some)); got != r.ExtraFlops {
					t.Errorf("%s takes %d operations, the table says %d", r.Key, got, r.ExtraFlops)
				}
				here, _ := some.Cost()
				there, _ := other.Cost()
				_, whole := plain.Cost()
				if got := float64(sign) * (there - here) / whole; math.Abs(got-r.Cost) > 1e-3*math.Abs(got)+1e-9 {
					t.Errorf("%s costs %g of the step, the table says %g", r.Key, got, r.Cost)
				}
			}
			t.Logf("%d of %d rows, %d of them on", checked, len(some.Clusters), some.Selection.Rows)
			if checked < 3 {
				t.Errorf("only %d rows are compared", checked)
			}
		})
	}
}

// ranAgain is the names of the nodes that a plan runs again.
func ranAgain(p *planner.Plan) (names []string) {
	for _, st := range p.Steps {
		if name := p.Graph.Nodes[st.Node].Name; st.Again && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// TestNoTable: a plan whose outline cannot be analysed has no table, and says
// why.
func TestNoTable(t *testing.T) {
	g, err := zoo.Step(zoo.Spec{Family: "mlp", Layers: 2}, kernels.Library, autograd.Options{Optimizer: "sgd"})
	if err != nil {
		t.Fatal(err)
	}
	outline := cluster.Of(g)
	outline.Nodes[1].Outputs = outline.Nodes[0].Outputs
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 2}, Outline: outline})
	if err != nil {
		t.Fatal(err)
	}
	const want = "both compute"
	if err := p.Tabulate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want … %s …", err, want)
	}
	if w := planfile.Of(p, "mlp.onnx").Warnings; len(w) != 1 || !strings.Contains(w[0], want) {
		t.Errorf("warnings %q, want … %s …", w, want)
	}
}

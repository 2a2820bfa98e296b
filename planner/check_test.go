package planner_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/planner"
)

// checked is a plan with all that Check looks at: a node that runs again, a
// result in place, an early update, a copy at the end, work space, a view.
func checked(t *testing.T) (*planner.Plan, *schedule.Schedule) {
	text, err := os.ReadFile("testdata/checked.graph")
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.Parse(kernels.Library, string(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 4}, Again: []string{"h"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	if err := planner.CheckSchedule(p, s); err != nil {
		t.Fatal(err)
	}
	return p, s
}

// launch finds the launch of a node, or its second one for a name with '.
func launch(t *testing.T, s *schedule.Schedule, name string) int {
	name, again := strings.CutSuffix(name, "'")
	i := slices.IndexFunc(s.Launches, func(l schedule.Launch) bool {
		return l.Node != nil && l.Node.Name == name && l.Again == again
	})
	if i < 0 {
		t.Fatalf("no launch %q", name)
	}
	return i
}

// TestCheckSchedules breaks a good schedule in one way each.
func TestCheckSchedules(t *testing.T) {
	find := launch
	cases := []struct {
		name  string
		spoil func(t *testing.T, p *planner.Plan, s *schedule.Schedule)
		want  string
	}{
		{"a step is dropped", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := find(t, s, "z")
			s.Launches = slices.Delete(s.Launches, i, i+1)
		}, `node "s" (ReduceMean): "v" is read at arena`},
		{"what is held is made again", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			p.Graph.Holds = []graph.Hold{{Value: p.Graph.ByName("h"), Until: p.Graph.ByName("d").Def}}
			s.Launches[find(t, s, "h'")].Out[0].Offset = s.Launches[find(t, s, "h")].Out[0].Offset
			s.Launches[find(t, s, "d")].In[0].Offset = s.Launches[find(t, s, "h")].Out[0].Offset
		}, `node "d" (Mul): "h" is held until here, but was dropped and made again`},
		{"what is held is written over", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			p.Graph.Holds = []graph.Hold{{Value: p.Graph.ByName("z"), Until: p.Graph.ByName("e").Def}}
		}, `node "e" (Sub): "z" is held until here: "z" is read at arena`},
		{"what is held is not made", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			p.Graph.Holds = []graph.Hold{{Value: p.Graph.ByName("e"), Until: p.Graph.ByName("d").Def}}
		}, `node "d" (Mul): "e" is held until here, but was not made`},
		{"a step that nobody reads is dropped", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := find(t, s, "e")
			s.Launches = slices.Delete(s.Launches, i, i+1)
		}, `node "e" never runs`},
		{"the second run is dropped", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := find(t, s, "h'")
			s.Launches = slices.Delete(s.Launches, i, i+1)
		}, `node "d" (Mul): "h" is read at arena`},
		{"a step comes twice", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := find(t, s, "z")
			s.Launches = slices.Insert(s.Launches, i, s.Launches[i])
		}, `node "z" (Neg): runs twice for the first time`},
		{"a node runs again before it ran", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			s.Launches[find(t, s, "h")].Again = true
		}, `node "h" (Tanh): runs again before it ran`},
		{"an update runs again", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := find(t, s, "w2")
			l := s.Launches[i]
			l.Again = true
			s.Launches = slices.Insert(s.Launches, i+1, l)
		}, `node "w2" (SGD): may not run again`},
		{"a backward node runs again", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := find(t, s, "d")
			l := s.Launches[i]
			l.Again = true
			s.Launches = slices.Insert(s.Launches, i+1, l)
		}, `node "d" (Mul): may not run again`},
		{"two steps change places", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i, j := find(t, s, "y"), find(t, s, "z")
			s.Launches[i], s.Launches[j] = s.Launches[j], s.Launches[i]
		}, `node "z" (Neg): "y" is read at arena`},
		{"a view is launched", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			v := p.Graph.ByName("v")
			s.Launches = slices.Insert(s.Launches, 3, schedule.Launch{Node: v.Def})
		}, `node "v" (Reshape): a view is no launch`},
		{"an update comes before the last reader", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i, j := find(t, s, "w2"), find(t, s, "dx")
			s.Launches[i], s.Launches[j] = s.Launches[j], s.Launches[i]
		}, `node "w2" (SGD): "dw" is read at arena`},
		{"a copy comes twice with another's bytes", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			i := slices.IndexFunc(s.Launches, func(l schedule.Launch) bool { return l.Node == nil })
			s.Launches[i].In[0].Offset += 64
		}, `(copy): "d" is read at arena`},
		{"a copy is dropped", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := slices.IndexFunc(s.Launches, func(l schedule.Launch) bool { return l.Node == nil })
			s.Launches = slices.Delete(s.Launches, i, i+1)
		}, `after the step, the place of "m" does not hold "d"`},
		{"an output is looked for elsewhere", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			s.Outputs[0].Offset += 64
		}, `after the last launch: "e" is read at arena`},
		{"an input is another value", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			s.Launches[find(t, s, "z")].In[0].Value = p.Graph.ByName("h")
		}, `node "z" (Neg): input 0 is another value`},
		{"an output is another value", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			s.Launches[find(t, s, "z")].Out[0].Value = p.Graph.ByName("h")
		}, `node "z" (Neg): output 0 is another value`},
		{"an input is missing", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "z")]
			l.In = l.In[:0]
		}, `node "z" (Neg): 0 inputs and 1 outputs`},
		{"an input is read where half of it is", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			s.Launches[find(t, s, "z")].In[0].Bytes /= 2
		}, `node "z" (Neg): "y" is read at arena`},
		{"a result is written over an input that may not be", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "s")]
			l.Out[0].Offset = l.In[0].Offset
		}, `node "s" (ReduceMean): output 0 is written over input 0 (v)`},
		{"a result is written over a part of an input", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "z")]
			l.Out[0].Offset = l.In[0].Offset + 64
		}, `node "z" (Neg): output 0 is written over input 0 (y)`},
		{"a result is written elsewhere than it is read", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "d")]
			l.Out[0].Offset = l.In[0].Offset
		}, `node "dx" (LayerNormalizationGrad): "d" is read at arena`},
		{"two outputs overlap", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "dx")]
			l.Out[1].Offset = l.Out[0].Offset
		}, `node "dx" (LayerNormalizationGrad): output 0 and output 1 overlap`},
		{"work space overlaps an output", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "dx")]
			l.Scratch.Offset = l.Out[0].Offset
		}, `node "dx" (LayerNormalizationGrad): output 0 and work space overlap`},
		{"a result begins within a cache line", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			s.Launches[find(t, s, "z")].Out[0].Offset++
		}, `node "z" (Neg): output 0 begins at arena+`},
		{"work space overlaps an input", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "dx")]
			l.Scratch.Offset = l.In[0].Offset
		}, `node "dx" (LayerNormalizationGrad): work space is written over input 0 (d)`},
		{"a node writes to an input's place", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "h")]
			l.Out[0].Space, l.Out[0].Offset = schedule.Staging, 4096
		}, `node "h" (Tanh): writes to staging`},
		{"a node that replaces nothing writes to a state", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			l := &s.Launches[find(t, s, "h")]
			l.Out[0].Space, l.Out[0].Offset = schedule.State, 4096
		}, `node "h" (Tanh): writes to state`},
		{"parameters overlap", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			i := slices.IndexFunc(s.Fixed, func(r schedule.Ref) bool { return r.Space == schedule.State && r.Offset > 0 })
			s.Fixed[i].Offset = 0
		}, `overlaps another value in state`},
		{"the arena is said to be lower", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			s.Arena -= 64
		}, `the arena is`},
		{"the arena is said to be higher", func(t *testing.T, _ *planner.Plan, s *schedule.Schedule) {
			s.Arena += 64
		}, `but launches reach to`},
		{"the peak is said to be lower", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			p.Result.Peak -= 4
		}, `the peak is`},
		{"the peak is said to be higher", func(t *testing.T, p *planner.Plan, s *schedule.Schedule) {
			p.Result.Peak += 4
		}, `the peak is`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s := checked(t)
			c.spoil(t, p, s)
			err := planner.CheckSchedule(p, s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

// TestCheckRules spoils a good plan in one way for each rule that Check has of plans, beside those of launches.
func TestCheckRules(t *testing.T) {
	cases := []struct {
		rule  string
		spoil func(p *planner.Plan)
		want  string
	}{
		{"steps are nodes", func(p *planner.Plan) { p.Steps[0].Node = 99 }, "step 0 names node 99, which cannot be launched"},
		{"steps are no views", func(p *planner.Plan) { p.Steps[0].Node = 3 }, "step 0 names node 3, which cannot be launched"},
		{"each life has a place", func(p *planner.Plan) { p.Offsets = p.Offsets[:len(p.Offsets)-1] }, "makes one more life than have places"},
		{"each place has a life", func(p *planner.Plan) { p.Offsets = append(p.Offsets, 0) }, "1 places are left that no life has"},
		{"places are lines", func(p *planner.Plan) { p.Offsets[0] += 4 }, "which is no multiple of 64"},
		{"places are apart", func(p *planner.Plan) { p.Offsets[1] = p.Offsets[0] }, "is written over input"},
		{"bytes are those of the dims", func(p *planner.Plan) { p.Request.Dims = map[string]int64{"batch": 5} }, "the plan is wrong"},
		{"the arena is no lower", func(p *planner.Plan) { p.Arena -= 64 }, "outside the arena of"},
		{"the arena is no higher", func(p *planner.Plan) { p.Arena += 64 }, "but launches reach to"},
		{"the peak is that of the launches", func(p *planner.Plan) { p.Result.Peak-- }, "the peak is"},
		{"the floor is below the peak", func(p *planner.Plan) { p.Floor.Peak = p.Result.Peak + 1 }, "no plan is said to have a peak below"},
		{"the bound of placing is below the arena", func(p *planner.Plan) { p.PackBound = p.Arena + 1 }, "no arena is below"},
		{"weights are all parameters", func(p *planner.Plan) { p.Memory.Weights -= 64 }, "weights and states take"},
		{"staging is all inputs", func(p *planner.Plan) { p.Memory.Staging++ }, "and inputs"},
		{"gradients and activations are the arena", func(p *planner.Plan) { p.Memory.Activations++ }, "the arena takes"},
		{"the total is all", func(p *planner.Plan) { p.Memory.Total-- }, "and all of it"},
		{"what runs again is counted", func(p *planner.Plan) { p.Result.Again++ }, "1 launches run again, not 2"},
		{"operations of the plain step", func(p *planner.Plan) { p.Baseline.Flops++ }, "the plain step takes"},
		{"operations of what runs again", func(p *planner.Plan) { p.Result.ExtraFlops-- }, "operations and the plan"},
		{"cost of what runs again", func(p *planner.Plan) { p.Result.Overhead /= 2 }, "of the plain step more, not"},
		{"cost in measured times", func(p *planner.Plan) { p.Request.Costs = map[string]float64{"h": 2, "y": 1} }, "of the plain step more, not"},
		{"a budget of all binds", func(p *planner.Plan) { p.Request.Budget.Bytes = p.Memory.Total - 1 }, "the plan has a budget that leaves"},
		{"a budget of the arena binds", func(p *planner.Plan) { p.Request.ActivationBudget.Bytes = p.Arena - 1 }, "the plan has a budget that leaves"},
		{"a share binds", func(p *planner.Plan) { p.Request.ActivationBudget.Percent = 10 }, "the plan has a budget that leaves"},
		{"a limit of cost binds", func(p *planner.Plan) { p.Request.MaxOverhead = p.Result.Overhead / 2 }, "over its limit of"},
		{"work space is the device's", func(p *planner.Plan) { p.Request.Lowered = true }, "the plan is wrong"},
		{"a hold lasts", func(p *planner.Plan) {
			p.Graph.Holds = []graph.Hold{{Value: p.Graph.ByName("h"), Until: p.Graph.ByName("e").Def}}
		}, "the plan is wrong"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			p, _ := checked(t)
			c.spoil(p)
			if err := planner.Check(p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

// TestCheckPlans moves lives and steps of a plan itself.
func TestCheckPlans(t *testing.T) {
	p, _ := checked(t)
	lives := p.Stretches()
	for i, a := range lives {
		for j, b := range lives[:i] {
			if a.Bytes == 0 || b.Bytes == 0 || a.First >= b.Last || b.First >= a.Last {
				continue
			}
			offsets := slices.Clone(p.Offsets)
			p.Offsets[i] = p.Offsets[j]
			if err := planner.Check(p); err == nil {
				t.Errorf("%s lies over %s and nobody says so", a.Name, b.Name)
			}
			p.Offsets = offsets
		}
	}
	for i := range p.Steps {
		steps := p.Steps
		p.Steps = slices.Delete(slices.Clone(steps), i, i+1)
		if err := planner.Check(p); err == nil {
			t.Errorf("step %d is missing and nobody says so", i)
		}
		p.Steps = steps
	}
	for i := range p.Steps[1:] {
		steps := slices.Clone(p.Steps)
		p.Steps[i], p.Steps[i+1] = p.Steps[i+1], p.Steps[i]
		err := planner.Check(p)
		a, b := p.Graph.Nodes[steps[i].Node], p.Graph.Nodes[steps[i+1].Node]
		if reads := slices.ContainsFunc(b.Inputs, func(v *graph.Value) bool { return v != nil && v.Def == a }); reads && err == nil {
			t.Errorf("%s runs before %s and nobody says so", b.Name, a.Name)
		}
		p.Steps = steps
	}
	if err := planner.Check(p); err != nil {
		t.Fatal(err)
	}
}

// TestCheckViews: a row of 200 000 views, each of the one before, is checked as a short one
// is, and what is read through the last of them is looked for where the first one is.
func TestCheckViews(t *testing.T) {
	g := graph.New(kernels.Library, "views")
	b := graph.NewBuilder(g)
	x, err := b.Define(graph.Input, "x", graph.Float32, graph.Dims(4))
	if err != nil {
		t.Fatal(err)
	}
	v, shape := b.Op("Neg", nil, x), b.Ints(graph.Num(4))
	for i := range 200_000 {
		if v = b.Op("Reshape", nil, v, shape); i%2 == 0 {
			b.Op("Neg", nil, v)
		}
	}
	g.Outputs = []*graph.Value{b.Op("Neg", nil, v)}
	p, err := planner.Make(g, planner.Request{})
	if err != nil {
		t.Fatal(err)
	}
	last := len(p.Offsets) - 1
	p.Offsets[last] = p.Offsets[0]
	if err := planner.Check(p); err == nil {
		t.Error("what is read through all views is written over and nobody says so")
	}
}

// TestCheckEmptyStates: a state of no bytes lies where others do, and needs no update to be seen.
func TestCheckEmptyStates(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 4] = input
lr f32[] = input
step i64[] = input
v f32[4] = param
w f32[0] = param
m f32[batch, 0] = state
h = Mul(x, v)
s = ReduceMean(h) keepdims=0
backward:
d, dv = memopt.LayerNormalizationGrad(h, x, v)
update:
dw f32[0] = const {}
v2 = memopt.SGD(v, dv, lr, _, step)
w2 = memopt.SGD(w, dw, lr, _, step)
m2 = Neg(m)
output s
output d
update v = v2
update w = w2
update m = m2
`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 2}}); err != nil { // a wrong plan is a panic
		t.Fatal(err)
	}
}

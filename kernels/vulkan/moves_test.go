package vulkan_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/profile"
)

// movedRequest is a request for a plan that moves values to the host at so many bytes a nanosecond.
func movedRequest(t testing.TB, dims map[string]int64, rate float64) planner.Request {
	prices, err := profile.For("xeon-core")
	if err != nil {
		t.Fatal(err)
	}
	prices.Copies = map[string]profile.Copies{profile.Host: {Delay: 1, Out: rate, In: rate}}
	return planner.Request{Dims: dims, Profile: prices, Elsewhere: &planner.Elsewhere{Place: profile.Host}, Lowered: true}
}

// stepOf is a training step of a small model, with its dims.
func stepOf(t testing.TB, spec zoo.Spec, batch int64, o autograd.Options) (*graph.Graph, map[string]int64) {
	step, err := zoo.Step(spec, kernels.Library, o)
	if err != nil {
		t.Fatal(err)
	}
	dims := map[string]int64{}
	for _, name := range step.Names() {
		dims[name] = map[string]int64{"batch": batch, "seq": 7}[name]
	}
	return step, dims
}

// randomMoves is a plan of a random step that moves values, with the step and its dims; nil where none helps.
func randomMoves(t *testing.T, rng *rand.Rand) (*planner.Plan, planner.Request) {
	specs := []zoo.Spec{
		{Family: "mlp", Inputs: 8 + rng.IntN(9), Width: 8 + rng.IntN(20), Layers: 2 + rng.IntN(3), Classes: 5},
		{Family: "gpt", Layers: 1 + rng.IntN(2), Width: 24, Heads: 2, Vocab: 17, Positions: 8, Dropout: float64(rng.IntN(2)) / 5},
		{Family: "resnet", Layers: 1, Width: 4, Image: 8, Classes: 3},
	}
	g, dims := stepOf(t, specs[rng.IntN(len(specs))], 2+rng.Int64N(6), autograd.Options{Optimizer: "adamw", ClipNorm: float64(rng.IntN(2))})
	r := movedRequest(t, dims, []float64{1, 100}[rng.IntN(2)])
	plain, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	r.ActivationBudget.Bytes = plain.Floor.Peak + (plain.Arena-plain.Floor.Peak)*rng.Int64N(90)/100
	p, err := planner.Make(g, r)
	if none := (*planner.BudgetError)(nil); errors.As(err, &none) {
		r.ActivationBudget.Bytes = none.Best
		p, err = planner.Make(g, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Moves) == 0 {
		return nil, r
	}
	return p, r
}

// scheduled is a plan's schedule.
func scheduled(t testing.TB, p *planner.Plan) *schedule.Schedule {
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMovesSameBits: what a plan moves to the host changes no bit, whether copies end as late as they may or begin as early, on
// memory that the processor sees or does not, in chains; and a step uses what was promised on both sides.
func TestMovesSameBits(t *testing.T) {
	gpu := device(t)
	rounds := 6
	if os.Getenv("MEMOPT_TEST_LONG") != "" {
		rounds = 60
	}
	moved, values := 0, 0
	for round := range rounds {
		p, r := randomMoves(t, rand.New(rand.NewPCG(uint64(round), 47)))
		if p == nil {
			continue
		}
		moved, values = moved+1, values+len(p.Moves)
		r.Elsewhere, r.ActivationBudget = nil, planner.Size{}
		_, kept := planned(t, p.Graph, r)
		open := func(s *schedule.Schedule, o vulkan.Options) func() *vulkan.Device {
			return func() *vulkan.Device {
				d, err := vulkan.Open(s, gpu, o)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
		}
		want := twoSteps(t, kept, open(kept, vulkan.Options{}))
		s := scheduled(t, p)
		chained, _, err := p.Chained()
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			s *schedule.Schedule
			o vulkan.Options
		}{
			"as early as they may":               {s, vulkan.Options{}},
			"at the last moment":                 {s, vulkan.Options{Poison: true}},
			"in chains":                          {chained, vulkan.Options{}},
			"where the processor sees no memory": {s, vulkan.Options{Hidden: true}},
			"as memory comes":                    {s, vulkan.Options{Staged: true}},
			"in lanes of their own":              {s, vulkan.Options{FastPaths: []string{vulkan.CopyQueues}}},
			"in lanes, in chains, hidden":        {chained, vulkan.Options{FastPaths: []string{vulkan.CopyQueues}, Hidden: true, Staged: true}},
		} {
			got := twoSteps(t, c.s, open(c.s, c.o))
			for i, x := range got {
				if !bytes.Equal(x, want[i]) {
					t.Fatalf("round %d: when %d values are moved %s, result %d has other bits", round, len(p.Moves), name, i)
				}
			}
		}
		d := open(s, vulkan.Options{})()
		opened := d.Memory()
		trace, err := d.Run(schedule.Run{Inputs: someInputs(s)})
		if err != nil {
			t.Fatal(err)
		}
		if m := trace.Moved; m.Bytes != p.Moved.Bytes || m.Far != p.Moved.Peak || trace.Arena != p.Arena {
			t.Errorf("round %d: %+v in an arena of %d, the plan says %+v in %d", round, m, trace.Arena, p.Moved, p.Arena)
		}
		if opened.Host < p.Moved.Peak || opened.Requested != s.Arena+s.State+s.Staging || opened.Held != opened.Granted+opened.Own+opened.Host {
			t.Errorf("round %d: %+v is held, and %d bytes are moved", round, opened, p.Moved.Peak)
		}
		if now := d.Memory(); now.Held != opened.Held || now.Calls != opened.Calls {
			t.Errorf("round %d: a step takes memory: %+v, then %+v", round, opened, now)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d plans moved %d values", moved, values)
	if moved == 0 {
		t.Error("no plan moved anything")
	}
}

// deepMoves is the schedule of a step that is deep enough for moves, with its plan.
func deepMoves(t testing.TB) (*planner.Plan, *schedule.Schedule) {
	g, dims := stepOf(t, zoo.Spec{Family: "mlp", Inputs: 12, Width: 20, Layers: 4, Classes: 5}, 16, autograd.Options{Optimizer: "adamw"})
	r := movedRequest(t, dims, 1000)
	r.ActivationBudget.Percent = 60
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Moves) == 0 {
		t.Fatal("the plan moves nothing")
	}
	return p, scheduled(t, p)
}

// layered is a step of products and pointwise operators, one after another, that can be parted at its result.
func layered(t *testing.T) *graph.Graph {
	g := graph.New(kernels.Library, "layers")
	b := graph.NewBuilder(g)
	define := func(kind graph.Kind, name string, shape ...graph.Dim) *graph.Value {
		v, err := b.Define(kind, name, graph.Float32, shape)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x := define(graph.Input, "x", graph.Sym("batch"), graph.Num(20))
	for i := range 5 {
		w := define(graph.Param, fmt.Sprint("w", i), graph.Num(20), graph.Num(20))
		numbers := graph.NewTensor(graph.Float32, 20, 20)
		for k := range numbers.Len() {
			numbers.SetFloat(k, float64((k*7919+i)%23-11)/40)
		}
		w.Data = graph.Bytes(numbers.Bytes)
		x = b.Op("Gelu", nil, b.Op("MatMul", nil, x, w))
	}
	loss := b.Op("ReduceMean", graph.A{"keepdims": 0}, x)
	g.Outputs = []*graph.Value{loss}
	step, err := autograd.TrainStep(g, autograd.Options{KeepGrads: true, Results: []string{loss.Name}})
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// TestMovesPassByPass: so it is where the passes are run apart, and where the updates are left out.
func TestMovesPassByPass(t *testing.T) {
	gpu := device(t)
	step := layered(t)
	dims := map[string]int64{"batch": 16}
	r := movedRequest(t, dims, 1000)
	r.ActivationBudget.Percent = 70
	p, err := planner.Make(step, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Moves) == 0 {
		t.Fatal("the plan moves nothing")
	}
	_, kept := planned(t, step, planner.Request{Dims: dims, Strategy: "keep-all"})
	passes := func(s *schedule.Schedule, o vulkan.Options) (all [][]byte) {
		d, err := vulkan.Open(s, gpu, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		in := someInputs(s)
		for _, part := range []schedule.Part{schedule.ForwardPass, schedule.ForwardPass, schedule.BackwardPass, schedule.Ending} {
			run := schedule.Run{Inputs: in, Part: part}
			if part == schedule.BackwardPass {
				border, _ := s.Border()
				for _, to := range s.Launches[border].Out {
					x := graph.NewTensor(to.Value.Type, to.Shape...)
					for i := range x.Len() {
						x.SetFloat(i, 0.5)
					}
					run.Seeds = append(run.Seeds, x)
				}
			}
			if _, err := d.Run(run); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range s.Outputs {
			x, err := d.Output(v.Value.Name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x.Bytes)
		}
		return all
	}
	want := passes(kept, vulkan.Options{})
	for _, o := range []vulkan.Options{{}, {Poison: true}, {FastPaths: []string{vulkan.CopyQueues}}} {
		for i, x := range passes(scheduled(t, p), o) {
			if !bytes.Equal(x, want[i]) {
				t.Errorf("result %d has other bits with %+v", i, o)
			}
		}
	}
}

// TestMovesNoMemory: a host that has too little memory for what moves there is an error that says so, and leaves nothing.
func TestMovesNoMemory(t *testing.T) {
	gpu := device(t)
	p, s := deepMoves(t)
	said := false
	for n := range 6 {
		f := failing{"vkAllocateMemory", n, -2, true}
		d, err := vulkan.Open(s, gpu, vulkan.Options{Faults: f.fault})
		if err == nil {
			d.Close()
			break
		}
		if errors.Is(err, vulkan.ErrHost) {
			said = strings.Contains(err.Error(), fmt.Sprintf("for %d bytes of values moved to the host", p.Moved.Peak)) && !errors.Is(err, vk.ErrDeviceMemory)
		}
	}
	if !said {
		t.Error("no refusal is of the host's memory")
	}
}

// TestMovesLost: a copy that the device fails at is named, and ends the device's work like any other failure.
func TestMovesLost(t *testing.T) {
	gpu := device(t)
	p, s := deepMoves(t)
	for _, poison := range []bool{true, false} {
		call := "vkQueueSubmit of copies"
		if !poison { // else the copies are in submissions of launches
			call = "vkQueueSubmit"
		}
		var d *vulkan.Device
		var err error
		for n := 0; ; n++ { // other copies come first where the processor does not see the device's memory
			f := &failing{call, n, -4, false}
			if d, err = vulkan.Open(s, gpu, vulkan.Options{Poison: poison, Faults: f.fault}); err != nil {
				t.Fatal(err)
			}
			f.armed = true
			if _, err = d.Run(schedule.Run{Inputs: someInputs(s)}); err == nil || strings.Contains(err.Error(), "moving ") {
				break
			}
			d.Close()
		}
		if !errors.Is(err, vk.ErrDeviceLost) || !strings.Contains(err.Error(), fmt.Sprintf("moving %q", p.Moves[0].Value)) || !strings.Contains(err.Error(), "to the host's memory") {
			t.Errorf("poison %v: %v", poison, err)
		}
		if _, err := d.Run(schedule.Run{Inputs: someInputs(s)}); !errors.Is(err, vk.ErrDeviceLost) || !strings.Contains(err.Error(), "an earlier step failed") {
			t.Errorf("the next step: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

package vulkan_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestPoison: whole steps run on poisoned memory, launch by launch, and give the
// bits of the step that is recorded as one: nothing is read that is dead, and
// nothing is written but what a launch owns. So do steps on memory that the
// processor does not see. Two steps, so that states count.
func TestPoison(t *testing.T) {
	gpu := device(t)
	for _, spec := range []zoo.Spec{
		{Family: "mlp", Inputs: 12, Width: 20, Layers: 2, Classes: 5},
		{Family: "gpt", Layers: 1, Width: 24, Heads: 2, Vocab: 17, Positions: 8, Dropout: 0.2},
		{Family: "resnet", Layers: 1, Width: 4, Image: 8, Classes: 3},
	} {
		t.Run(spec.Family, func(t *testing.T) {
			s := trainStep(t, spec)
			var want [][]byte
			for _, o := range []vulkan.Options{{}, {Poison: true}, {Hidden: true}} {
				got := twoSteps(t, s, func() *vulkan.Device {
					d, err := vulkan.Open(s, gpu, o)
					if err != nil {
						t.Fatal(err)
					}
					return d
				})
				if want == nil {
					want = got
					continue
				}
				for i, x := range got {
					if !bytes.Equal(x, want[i]) {
						name := "an output"
						if i < len(s.Fixed) {
							name = s.Fixed[i].Value.Name
						}
						t.Errorf("%s has other bits with %+v", name, o)
					}
				}
			}
		})
	}
}

// TestPoisonLeavesOutputs: where the work space of the first launch was, an output
// lies that stays.
func TestPoisonLeavesOutputs(t *testing.T) {
	gpu := device(t)
	g, err := graph.Parse(kernels.Library, "x f32[2] = const {1, 2}\na = ReduceLogSumExp(x) keepdims=0\ny = Add(a, a)\noutput y")
	if err != nil {
		t.Fatal(err)
	}
	s := keepAll(t, g)
	work, y := s.Launches[0].Scratch, s.Outputs[0]
	if work.Bytes == 0 || y.Offset >= work.Offset+work.Bytes || work.Offset >= y.Offset+y.Bytes {
		t.Fatalf("%+v does not lie in %+v", y, work)
	}
	d, err := vulkan.Open(s, gpu, vulkan.Options{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Run(schedule.Run{}); err != nil {
		t.Fatal(err)
	}
	x, err := d.Output("y")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := x.Float(0), 2*math.Log(math.E+math.E*math.E); math.IsNaN(got) || math.Abs(got-want) > 1e-5 {
		t.Errorf("%g, not %g", got, want)
	}
}

// trainStep is the schedule of a training step that computes all again.
func trainStep(t *testing.T, spec zoo.Spec) *schedule.Schedule {
	t.Helper()
	step, err := zoo.Step(spec, kernels.Library, autograd.Options{Optimizer: "adamw", ClipNorm: 1})
	if err != nil {
		t.Fatal(err)
	}
	dims := map[string]int64{}
	for _, name := range step.Names() {
		dims[name] = map[string]int64{"batch": 3, "seq": 7}[name]
	}
	_, s := planned(t, step, planner.Request{Dims: dims, Strategy: "recompute-all"})
	return s
}

// someInputs are numbers that every model takes.
func someInputs(s *schedule.Schedule) map[string]*graph.Tensor {
	rng := rand.New(rand.NewPCG(4, 4))
	in := map[string]*graph.Tensor{}
	for _, r := range s.Fixed {
		if r.Value.Kind != graph.Input {
			continue
		}
		x := graph.NewTensor(r.Value.Type, r.Shape...)
		for i := range x.Len() {
			if x.Type.IsFloat() {
				x.SetFloat(i, 0.01+0.1*rng.Float64())
			} else {
				x.SetInt(i, rng.Int64N(3))
			}
		}
		in[r.Value.Name] = x
	}
	return in
}

func twoSteps(t *testing.T, s *schedule.Schedule, open func() *vulkan.Device) (all [][]byte) {
	d := open()
	defer d.Close()
	if w := d.Warnings(); len(w) > 0 {
		t.Errorf("warnings %q", w)
	}
	in := someInputs(s)
	for i := range 2 {
		if _, err := d.Run(schedule.Run{Inputs: in, Seed: 5, Step: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.Fixed {
		x, err := d.State(r.Value.Name)
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", r.Value.Name, err))
		}
		all = append(all, x.Bytes)
	}
	for _, r := range s.Outputs {
		x, err := d.Output(r.Value.Name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x.Bytes)
	}
	return all
}

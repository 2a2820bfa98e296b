package planner_test

import (
	"fmt"
	"testing"

	"memopt/autograd"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestSegments: the segments of a space follow each other and are all of it, no value lies in two where they are to be
// apart, and no launch touches one before the stage that it is said to need.
func TestSegments(t *testing.T) {
	for _, spec := range []zoo.Spec{{Family: "gpt", Layers: 2, Width: 64}, {Family: "mlp", Layers: 3, Width: 64}, {Family: "resnet"}} {
		for _, o := range []autograd.Options{{}, {Optimizer: "adam"}, {Optimizer: "adamw", ClipNorm: 1}, {Optimizer: "sgd", MicroBatches: 3},
			{Optimizer: "adam", MicroBatches: 2, LossScale: autograd.LossScale{Initial: 8, Window: 4}}} {
			t.Run(fmt.Sprintf("%s/%+v", spec.Family, o), func(t *testing.T) {
				g, err := zoo.Step(spec, kernels.Library, o)
				if err != nil {
					t.Fatal(err)
				}
				p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 2, "seq": 16}})
				if err != nil {
					t.Fatal(err)
				}
				s, err := p.Schedule()
				if err != nil {
					t.Fatal(err)
				}
				for _, apart := range []bool{false, true} {
					segmentsHold(t, s, apart)
				}
				states := int64(0)
				for _, g := range s.Segments(true) {
					if g.Owner == "optimizer" {
						states += g.End - g.At
					}
				}
				if adam := o.Optimizer == "adam" || o.Optimizer == "adamw"; adam != (states > p.Memory.Weights) {
					t.Errorf("%d bytes of optimizer states, with %d of weights", states, p.Memory.Weights)
				}
			})
		}
	}
}

func segmentsHold(t *testing.T, s *schedule.Schedule, apart bool) {
	t.Helper()
	segments := s.Segments(apart)
	end := map[schedule.Space]int64{}
	for _, g := range segments {
		if g.At != end[g.Space] || g.End <= g.At {
			t.Errorf("apart %v: %+v begins where %d bytes are", apart, g, end[g.Space])
		}
		end[g.Space] = g.End
	}
	if end[schedule.Arena] != s.Arena || end[schedule.State] != s.State || end[schedule.Staging] != s.Staging {
		t.Errorf("apart %v: segments end at %v", apart, end)
	}
	crosses := 0
	needs := s.Needs()
	look := func(i int, r schedule.Ref) {
		for _, g := range segments {
			if g.Space != r.Space || r.Offset >= g.End || r.Offset+r.Bytes <= g.At {
				continue
			}
			if g.At > r.Offset || g.End < r.Offset+r.Bytes {
				crosses++
			}
			if g.Stage > needs[i] {
				t.Errorf("apart %v: launch %d needs stage %d, and touches %+v", apart, i, needs[i], g)
			}
		}
	}
	for i, l := range s.Launches {
		for _, r := range l.In {
			look(i, r)
		}
		for _, r := range append([]schedule.Ref{l.Scratch}, l.Out...) {
			look(i, r)
		}
	}
	if apart && crosses > 0 {
		t.Errorf("%d values lie in two segments", crosses)
	}
}

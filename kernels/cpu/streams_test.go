package cpu_test

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/spill"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestStreamsSameBits: states that stream in and out change no bit of any random step.
func TestStreamsSameBits(t *testing.T) {
	streamed := 0
	rapid.Check(t, func(t *rapid.T) {
		g := randomStep(t)
		r := planner.Request{Dims: map[string]int64{"batch": rapid.Int64Range(1, 3).Draw(t, "batch")}}
		plain := plan(t, g, r)
		r.States, r.StatesStay = "disk", rapid.IntRange(0, 3).Draw(t, "stay")
		p, err := planner.Make(g, r)
		if err != nil {
			if strings.Contains(err.Error(), "no state of the step can stream") {
				return
			}
			t.Fatal(err)
		}
		streamed++
		want := run(t, plain, cpu.Options{Poison: true, Workers: 1})
		for _, poison := range []bool{true, false} {
			o := cpu.Options{Poison: poison, Workers: 2, Far: func(n int64) (cpu.Far, error) { return &elsewhere{bytes: make([]byte, n)}, nil }}
			sameResults(t, "when states stream", run(t, p, o), want, g)
			sameResults(t, "when states stream, in chains", chained(t, p, o), want, g)
		}
	})
	if streamed == 0 && !testing.Short() {
		t.Error("no states streamed")
	}
}

// stateful is a plan of a step whose states are many pieces, with and without them elsewhere.
func stateful(t testing.TB, optimizer, states string) *planner.Plan {
	step, err := zoo.Step(zoo.Spec{Family: "gpt", Layers: 2, Width: 64, Heads: 2, Vocab: 100}, kernels.Library, autograd.Options{Optimizer: optimizer, ClipNorm: 1, MicroBatches: 2})
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(step, planner.Request{Dims: map[string]int64{"batch": 2, "seq": 8}, States: states})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// trained is the states of a device behind some steps of two micro-batches each, and its last trace.
func trained(t testing.TB, p *planner.Plan, o cpu.Options, resume map[string]*graph.Tensor) (map[string]*graph.Tensor, schedule.Trace) {
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cpu.Open(s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var trace schedule.Trace
	for step := range 4 {
		in := tokens(p)
		in[autograd.LearningRate].SetFloat(0, 0.01)
		in[autograd.MicroBatch].SetInt(0, int64(step%2))
		if trace, err = d.Run(schedule.Run{Inputs: in, Step: uint64(step), Accumulate: step%2 == 0}); err != nil {
			t.Fatal(err)
		}
		if step == 0 { // between a prefetch and its update
			for name, x := range resume {
				if err := d.SetState(name, x); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	all := map[string]*graph.Tensor{}
	for _, v := range p.Graph.Values {
		if v.Kind != graph.State && v.Kind != graph.Param {
			continue
		}
		if all[v.Name], err = d.State(v.Name); err != nil {
			t.Fatal(err)
		}
		var written bytes.Buffer
		if err := d.WriteState(&written, v.Name); err != nil || !bytes.Equal(written.Bytes(), all[v.Name].Bytes) {
			t.Fatalf("%s is written otherwise than it is read: %v", v.Name, err)
		}
	}
	return all, trace
}

// TestStreamsWhole: many pieces, clipping, micro-batches, and states that are set in between: the same bits, the promised bytes,
// in a file and in memory that is slow.
func TestStreamsWhole(t *testing.T) {
	folder := t.TempDir()
	for _, optimizer := range []string{"adamw", "adam", "momentum", "adagrad"} {
		plain, away := stateful(t, optimizer, ""), stateful(t, optimizer, "disk")
		if was, is := plain.Memory.Total-away.Memory.Total, away.Streamed().Bytes-away.Streamed().Ring; was < is-4096 || was > is+4096 {
			t.Errorf("%s: the total falls by %d, %d are elsewhere beside the ring", optimizer, was, is)
		}
		first, _ := trained(t, plain, cpu.Options{Workers: 1}, nil)
		resume := map[string]*graph.Tensor{}
		for name, x := range first {
			if strings.HasPrefix(name, "optimizer.") {
				resume[name] = x
			}
		}
		want, _ := trained(t, plain, cpu.Options{Workers: 1}, resume)
		for name, far := range map[string]func(n int64) (cpu.Far, error){
			"a file": func(n int64) (cpu.Far, error) { return spill.Open(folder, n) },
			"slow": func(n int64) (cpu.Far, error) {
				return &elsewhere{bytes: make([]byte, n), delay: func() { time.Sleep(100 * time.Microsecond) }}, nil
			},
		} {
			for _, poison := range []bool{false, true} {
				got, trace := trained(t, away, cpu.Options{Workers: 2, Poison: poison, Far: far}, resume)
				for state := range maps.Keys(want) {
					if !bytes.Equal(got[state].Bytes, want[state].Bytes) {
						t.Errorf("%s, %s, poison %v: %s has other bits", optimizer, name, poison, state)
					}
				}
				if m := away.Memory; trace.State != m.Weights+m.Optimizer || trace.Streamed.Far != away.Streamed().Bytes || trace.Streamed.Bytes < trace.Streamed.Far-4096 {
					t.Errorf("%s: %+v of states, %+v promised", optimizer, trace, away.Streamed())
				}
				if name == "slow" && trace.Streamed.Waited == 0 {
					t.Error("no wait was seen")
				}
			}
		}
	}
}

// TestStreamsFail: a state that cannot be taken out ends the step with its name.
func TestStreamsFail(t *testing.T) {
	p := stateful(t, "adamw", "disk")
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	d, err := cpu.Open(s, cpu.Options{Workers: 1, Far: func(bytes int64) (cpu.Far, error) {
		return &elsewhere{bytes: make([]byte, bytes), fail: func(write bool) error {
			if write {
				if n++; n == 5 {
					return syscall.EIO
				}
			}
			return nil
		}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Run(schedule.Run{Inputs: tokens(p)}); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), `taking out state "optimizer.exp_avg`) {
		t.Fatal(err)
	}
}

// TestStreamsOnlyPieces: rules that need a parameter as a whole, and those without states, are refused by name.
func TestStreamsOnlyPieces(t *testing.T) {
	g, err := zoo.New(zoo.Spec{Family: "mlp", Layers: 2}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	for _, optimizer := range []string{"sgd", "lamb"} {
		step, err := autograd.TrainStep(g, autograd.Options{Optimizer: optimizer})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := planner.Make(step, planner.Request{Dims: map[string]int64{"batch": 2}, States: "disk"}); err == nil || !strings.Contains(err.Error(), "LAMB needs a parameter's as a whole") {
			t.Error(optimizer, err)
		}
	}
}

package vulkan_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/profile"
)

// stateful are plans of a step whose states are many pieces: with them on the device, and on the host.
func stateful(t *testing.T, optimizer string) (plain, away *planner.Plan) {
	g, dims := stepOf(t, zoo.Spec{Family: "mlp", Inputs: 100, Width: 160, Layers: 3, Classes: 5}, 2, autograd.Options{Optimizer: optimizer, ClipNorm: 1, MicroBatches: 2})
	plain, _ = planned(t, g, planner.Request{Dims: dims})
	r := planner.Request{Dims: dims, States: profile.Host}
	if optimizer != "adamw" { // the biases' stay in the device
		r.StatesStay = 3
	}
	away, _ = planned(t, g, r)
	return plain, away
}

// trained is the states of a device behind two updates of two micro-batches each, with its last trace. Those of resume are set
// in between.
func trained(t *testing.T, p *planner.Plan, o vulkan.Options, resume map[string]*graph.Tensor, turn bool) (map[string]*graph.Tensor, schedule.Trace) {
	s := scheduled(t, p)
	gpu := device(t)
	d, err := vulkan.Open(s, gpu, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { d.Close() }()
	var trace schedule.Trace
	for step := range 4 {
		in := someInputs(s)
		in[autograd.LearningRate].SetFloat(0, 0.01)
		in[autograd.MicroBatch].SetInt(0, int64(step%2))
		if trace, err = d.Run(schedule.Run{Inputs: in, Step: uint64(step), Accumulate: step%2 == 0, Times: step == 3}); err != nil {
			t.Fatal(err)
		}
		if step == 0 {
			for name, x := range resume {
				if err := d.SetState(name, x); err != nil {
					t.Fatal(err)
				}
			}
		}
		if turn && step == 1 {
			if d, err = d.Turn(scheduled(t, p)); err != nil {
				t.Fatal(err)
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
	if p.Streamed() != nil && !turn {
		if m := d.Memory(); m.Host < p.Streamed().Bytes || m.Requested != s.Arena+s.State+s.Staging {
			t.Errorf("%+v is held, the plan has %d in the device and %d on the host", m, s.Arena+s.State+s.Staging, p.Streamed().Bytes)
		}
	}
	return all, trace
}

// TestStreams: states that lie on the host and come in for their updates have the same bits behind micro-batches, clipping,
// resuming in between and another schedule, in many pieces; and take the promised bytes.
func TestStreams(t *testing.T) {
	for _, optimizer := range []string{"adamw", "momentum", "adagrad"} {
		plain, away := stateful(t, optimizer)
		first, _ := trained(t, plain, vulkan.Options{}, nil, false)
		resume := map[string]*graph.Tensor{}
		for name, x := range first {
			if strings.HasPrefix(name, "optimizer.") {
				resume[name] = x
			}
		}
		want, _ := trained(t, plain, vulkan.Options{}, resume, false)
		if optimizer != "adamw" {
			resume = nil
			want = first
		}
		for name, o := range map[string]vulkan.Options{
			"":          {},
			"poisoned":  {Poison: true},
			"hidden":    {Hidden: true},
			"in stages": {Staged: true},
			"in lanes":  {FastPaths: []string{vulkan.CopyQueues}},
		} {
			got, trace := trained(t, away, o, resume, name == "")
			for state := range want {
				if !bytes.Equal(got[state].Bytes, want[state].Bytes) {
					t.Errorf("%s %s: %s has other bits", optimizer, name, state)
				}
			}
			if m, s := away.Memory, away.Streamed(); trace.State != m.Weights+m.Optimizer || trace.Streamed.Far != s.Bytes || trace.Streamed.Bytes < s.Bytes-4096 || trace.Streamed.Bytes > s.Bytes {
				t.Errorf("%s %s: %+v of states, %+v promised", optimizer, name, trace, s)
			}
		}
		if was, is := plain.Memory.Total-away.Memory.Total, away.Streamed().Bytes-away.Streamed().Ring; was < is-4096 || was > is+4096 {
			t.Errorf("%s: the total falls by %d, %d are elsewhere beside the ring", optimizer, was, is)
		}
	}
}

// TestStreamsShared: weights that have blocks of their own leave the ring its own, and a host without memory is named.
func TestStreamsShared(t *testing.T) {
	gpu := device(t)
	_, away := stateful(t, "adamw")
	c, err := vulkan.Share(gpu)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want, _ := trained(t, away, vulkan.Options{}, nil, false)
	got, _ := trained(t, away, vulkan.Options{Context: c}, nil, false)
	for name := range want {
		if !bytes.Equal(got[name].Bytes, want[name].Bytes) {
			t.Errorf("%s has other bits in a shared context", name)
		}
	}
	said := false
	for n := range 8 {
		f := failing{"vkAllocateMemory", n, -1, true}
		d, err := vulkan.Open(scheduled(t, away), gpu, vulkan.Options{Faults: f.fault})
		if err == nil {
			d.Close()
			break
		}
		said = said || strings.Contains(err.Error(), fmt.Sprintf("for %d bytes of states on the host", scheduled(t, away).Elsewhere))
	}
	if !said {
		t.Error("no refusal is of the host's memory")
	}
}

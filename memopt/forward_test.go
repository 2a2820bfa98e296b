package memopt

import (
	"context"
	"math"
	"testing"

	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/memopt/session"
	"memopt/memopt/zoo"
)

// TestForwardOnVulkan: a session on a Vulkan device gives what the processor gives, shape after shape, has its weights
// once for all of them, and keeps to its limit.
func TestForwardOnVulkan(t *testing.T) {
	device := vulkanDevice(t)
	path, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 4, Vocab: 64})
	open := func(device string, limit int64) *session.Session {
		c := configs.Default()
		c.Device, c.MemoryLimit, c.MaxPatterns = device, limit, 3
		s, err := OpenForward(context.Background(), session.Model{Path: path}, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	inputs := func(s *session.Session, batch, seq int64) map[string]*graph.Tensor {
		c := configs.Default()
		c.Dims = map[string]int64{"batch": batch, "seq": seq}
		in, _, err := forwardInputs(s, nil, c)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	run := func(s *session.Session, batch, seq int64) (float64, error) {
		r, err := s.Run(context.Background(), inputs(s, batch, seq), nil, session.RunOptions{})
		if err != nil {
			return 0, err
		}
		if r.Promised != r.Measured {
			t.Errorf("promised %+v, measured %+v", r.Promised, r.Measured)
		}
		return r.Outputs[0].Float(0), nil
	}
	cpu, gpu := open("cpu", 0), open(device, 0)
	weights := int64(0)
	for i := range int64(10) {
		batch, seq := 1+i%5, 4+4*(i%5)
		want, err := run(cpu, batch, seq)
		if err != nil {
			t.Fatal(err)
		}
		got, err := run(gpu, batch, seq)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-want) > 1e-4*math.Abs(want) {
			t.Errorf("batch %d: %v on the device, %v on the processor", batch, got, want)
		}
		now := gpu.Stats()
		if weights == 0 {
			weights = now.Owners["weights"]
		}
		if now.Owners["weights"] != weights || now.Patterns.Kept > 3 {
			t.Errorf("after %d shapes: %v, %d patterns", i+1, now.Owners, now.Patterns.Kept)
		}
	}
	need := weights + gpu.Stats().Owners["device"]
	// What other shapes have makes room; what no shape can have is refused, and the next is served.
	tight := open(device, need)
	for _, shape := range [][2]int64{{1, 4}, {5, 20}, {3, 12}, {64, 64}, {1, 4}} {
		_, err := run(tight, shape[0], shape[1])
		if (err != nil) != (shape[0] == 64) {
			t.Errorf("%v: %v", shape, err)
		}
		if err != nil && Code(err) != ExitCannot {
			t.Errorf("%v has exit code %d", err, Code(err))
		}
	}
}

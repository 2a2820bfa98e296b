package memopt

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/exit"
	"memopt/memopt/forward"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/session"
)

// TestForwardOnVulkan: a session on a Vulkan device gives what the processor gives, shape after shape, has its weights
// once for all of them, and keeps to its limit.
func TestForwardOnVulkan(t *testing.T) {
	device := vulkanDevice(t)
	path, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 4, Vocab: 64})
	open := func(device string, limit int64) *session.Session {
		return openOn(t, device, path, func(c *configs.Config) { c.MemoryLimit, c.MaxPatterns = limit, 3 })
	}
	inputs := func(s *session.Session, batch, seq int64) map[string]*graph.Tensor {
		c := configs.Default()
		c.Dims = map[string]int64{"batch": batch, "seq": seq}
		in, _, err := forward.InputsOf(s, nil, c)
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
			weights = now.Owners["weights on the device"]
		}
		if now.Owners["weights on the device"] != weights || now.Patterns.Kept > 3 {
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
		if err != nil && exit.Code(err) != exit.CodeCannot {
			t.Errorf("%v has exit code %d", err, exit.Code(err))
		}
	}
}

// TestForwardStaysOnVulkan: inputs that are the same as in the last run, and results that nobody reads, are not copied.
func TestForwardStaysOnVulkan(t *testing.T) {
	c := configs.Default()
	c.Device = vulkanDevice(t)
	path, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 32})
	s, err := forward.Open(context.Background(), session.Model{Path: path}, c, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.Dims = map[string]int64{"batch": 2, "seq": 4}
	in, _, err := forward.InputsOf(s, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	bytes := int64(0)
	for name, x := range in {
		all[name] = true
		bytes += int64(len(x.Bytes))
	}
	on := []session.Fetch{{Name: "loss", OnDevice: true}}
	var losses []float32
	for i, o := range []session.RunOptions{{Same: all}, {Same: all}, {Same: all}, {}} {
		if i == 3 {
			ids := in["input_ids"].I64()
			for k := range ids {
				ids[k] = 1 - ids[k]
			}
		}
		r, err := s.Run(context.Background(), in, on, o)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes
		if i == 1 || i == 2 { // it has them
			want = 0
		}
		if r.CopiedIn != want || r.CopiedOut != 0 {
			t.Errorf("run %d: %d bytes copied in, %d out", i, r.CopiedIn, r.CopiedOut)
		}
		x, read, ok := s.Kept("loss")
		if !ok {
			t.Fatal("no result is kept")
		}
		loss := graph.NewTensor(x.Type, x.Shape...)
		if err := read(loss.Bytes); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, loss.F32()[0])
		if err := read(make([]byte, 3)); err == nil {
			t.Error("a result of 4 bytes is read into 3")
		}
	}
	if losses[0] != losses[1] || losses[1] != losses[2] || losses[2] == losses[3] {
		t.Errorf("losses %v", losses)
	}
	r, err := s.Run(context.Background(), in, nil, session.RunOptions{})
	if err != nil || r.Outputs[0].Float(0) != float64(losses[3]) || r.CopiedOut != 4 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestForwardPartsOnVulkan: a run computes what its results need and no more, with the bits of a run of all results, and all
// of them read the weights that are on the device once.
func TestForwardPartsOnVulkan(t *testing.T) {
	c := configs.Default()
	c.Device = vulkanDevice(t)
	g, err := graph.Parse(kernels.Library, `
x f32[n, 64] = input
w f32[64, 1024] = param
v f32[1024, 64] = param
h = MatMul(x, w)
y = MatMul(h, v)
z = Softmax(x)
output z
output y`)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w", "v"} {
		x := graph.NewTensor(graph.Float32, 64*1024)
		for i := range x.F32() {
			x.F32()[i] = float32(i%13) - 6
		}
		g.ByName(name).Data = graph.Bytes(x.Bytes)
	}
	path := filepath.Join(t.TempDir(), "parts.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	s, err := forward.Open(t.Context(), session.Model{Path: path}, c, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.Dims = map[string]int64{"n": 128}
	in, _, err := forward.InputsOf(s, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	run := func(names ...string) (*session.Result, map[string][]byte) {
		t.Helper()
		var fetches []session.Fetch
		for _, name := range names {
			fetches = append(fetches, session.Fetch{Name: name})
		}
		r, err := s.Run(t.Context(), in, fetches, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]byte{}
		for _, out := range r.Outputs {
			got[out.Name] = bytes.Clone(out.Bytes)
		}
		return r, got
	}
	all, want := run("z", "y")
	for _, name := range []string{"z", "y"} {
		part, got := run(name)
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s has other bits alone", name)
		}
		if part.Promised != part.Measured || part.Promised.Weights != all.Promised.Weights {
			t.Errorf("%s: promised %+v, measured %+v", name, part.Promised, part.Measured)
		}
		if less := part.Height < all.Height/4; less != (name == "z") {
			t.Errorf("%s alone takes %d bytes, both %d", name, part.Height, all.Height)
		}
	}
	if owners := s.Stats().Owners; owners["weights on the device"] != all.Promised.Weights {
		t.Errorf("weights are there more than once: %v, %d of one plan", owners, all.Promised.Weights)
	}
}

// TestForwardArenasOnVulkan: shapes have their values in one block of the device by turns, whose size is the strategy's;
// what it held at most is a limit that it runs with, and a shrink gives back what the last shape does not need.
func TestForwardArenasOnVulkan(t *testing.T) {
	device := vulkanDevice(t)
	path, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 32})
	shapes := [][2]int64{{1, 4}, {2, 8}, {4, 16}, {1, 8}, {4, 16}, {2, 4}, {1, 4}}
	want := map[[2]int64]float64{}
	for _, strategy := range []string{"", "planned", "kNextPowerOfTwo", "kSameAsRequested"} {
		c := configs.Default()
		c.Device, c.ArenaStrategy, c.InitialChunk = device, strategy, 1<<10
		if strategy == "" {
			c.Device = "cpu"
		}
		runs := func(limit int64) (*session.Session, error) {
			c.MemoryLimit = limit
			s, err := forward.Open(context.Background(), session.Model{Path: path}, c, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, shape := range shapes {
				c.Dims = map[string]int64{"batch": shape[0], "seq": shape[1]}
				in, _, err := forward.InputsOf(s, nil, c)
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Run(context.Background(), in, nil, session.RunOptions{})
				if err != nil {
					return s, err
				}
				if loss := r.Outputs[0].Float(0); strategy == "" {
					want[shape] = loss
				} else if math.Abs(loss-want[shape]) > 1e-4 {
					t.Errorf("%s %v: %v, not %v", strategy, shape, loss, want[shape])
				}
			}
			return s, nil
		}
		s, err := runs(0)
		if err != nil {
			t.Fatal(err)
		}
		if strategy != "" {
			stats := s.Stats()
			if n := stats.Arena.NumArenaExtensions; n < 1 || n > 3 {
				t.Errorf("%s: %d extensions", strategy, n)
			}
			tight, err := runs(stats.HeldMost)
			if err != nil {
				t.Errorf("%s: it held %d, and: %v", strategy, stats.HeldMost, err)
			}
			if got := tight.Stats().HeldMost; got > stats.HeldMost {
				t.Errorf("%s: %d held with a limit of %d", strategy, got, stats.HeldMost)
			}
			tight.Close()
			before := s.Stats().Held
			returned := s.Shrink()
			if after := s.Stats(); returned != before-after.Held || after.Patterns.Kept != 1 {
				t.Errorf("%s: %d returned, held %d and then %d", strategy, returned, before, after.Held)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

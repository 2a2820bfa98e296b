package memopt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/forward"
	"memopt/memopt/session"
)

// squares writes a model that maps x, batch × width, to y of the same shape, and to a sum of each row.
func squares(t *testing.T, width, layers int, seed uint64) string {
	t.Helper()
	g := graph.New(kernels.Library, "squares")
	b := graph.NewBuilder(g)
	x, err := b.Define(graph.Input, "x", graph.Float32, graph.Shape{graph.Sym("batch"), graph.Num(int64(width))})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, seed))
	h := x
	for i := range layers {
		w := graph.NewTensor(graph.Float32, width, width)
		for k := range w.F32() {
			w.F32()[k] = float32(rng.NormFloat64()) / float32(width)
		}
		c, err := b.Const(fmt.Sprintf("w%d", i), w)
		if err != nil {
			t.Fatal(err)
		}
		h = b.Op("Tanh", nil, b.Op("MatMul", nil, h, c))
	}
	y := b.Op("Add", nil, h, x)
	g.Rename(y, "y")
	z := b.Op("MatMul", nil, b.Op("Relu", nil, y), mustConst(t, b, "ones", width))
	g.Rename(z, "z")
	g.Outputs = append(g.Outputs, y, z)
	path := filepath.Join(t.TempDir(), "squares.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustConst(t *testing.T, b *graph.Builder, name string, width int) *graph.Value {
	ones := graph.NewTensor(graph.Float32, width, 1)
	for i := range ones.F32() {
		ones.F32()[i] = 1
	}
	c, err := b.Const(name, ones)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openOn(t *testing.T, device, path string, set ...func(*configs.Config)) *session.Session {
	t.Helper()
	c := configs.Default()
	c.Device = device
	for _, f := range set {
		f(&c)
	}
	s, err := forward.Open(context.Background(), session.Model{Path: path}, c, "")
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

// hostTensor lies in memory that a device may import.
func hostTensor(t *testing.T, shape ...int) *graph.Tensor {
	x := &graph.Tensor{Type: graph.Float32, Shape: shape}
	n := int64(x.Len()) * 4
	b, err := arena.Map((n + 4095) &^ 4095)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { arena.Unmap(b) })
	x.Bytes = b[:n:n]
	return x
}

func fillWith(x *graph.Tensor, seed uint64) *graph.Tensor {
	rng := rand.New(rand.NewPCG(3, seed))
	for i := range x.F32() {
		x.F32()[i] = float32(rng.NormFloat64())
	}
	return x
}

// onBoth runs a test on the processor and on Vulkan.
func onBoth(t *testing.T, test func(t *testing.T, device string)) {
	t.Run("cpu", func(t *testing.T) { test(t, "cpu") })
	t.Run("vulkan", func(t *testing.T) { test(t, vulkanDevice(t)) })
}

// TestBound: whatever inputs and outputs are bound to, results are those of a run with nothing bound, and what is bound on
// the device or imported is not copied.
func TestBound(t *testing.T) {
	onBoth(t, func(t *testing.T, device string) {
		const width, rows = 64, 64 // x and y are pages
		s := openOn(t, device, squares(t, width, 3, 5))
		ctx := context.Background()
		x := fillWith(hostTensor(t, rows, width), 1)
		plain, err := s.Run(ctx, map[string]*graph.Tensor{"x": x}, nil, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		y, z := slices.Clone(plain.Outputs[0].Bytes), slices.Clone(plain.Outputs[1].Bytes)
		held, _ := heldBy(s)
		b := s.NewBinding()
		check := func(what string, wantIn, wantOut int64) {
			t.Helper()
			r, fell, err := b.Run(ctx, session.RunOptions{})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if r.CopiedIn != wantIn || r.CopiedOut != wantOut {
				t.Errorf("%s: %d bytes copied in and %d out, not %d and %d: %v %v", what, r.CopiedIn, r.CopiedOut, wantIn, wantOut, r.Copies, fell)
			}
			if r.Promised != r.Measured {
				t.Errorf("%s: promised %+v, measured %+v", what, r.Promised, r.Measured)
			}
			for name, want := range map[string][]byte{"y": y, "z": z} {
				if _, _, ok := b.Value(name); !ok {
					continue
				}
				got := make([]byte, len(want))
				if err := b.Read(name, got); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: another %s than without bindings", what, name)
				}
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		onDevice := device != "cpu"
		some := func(n int64) int64 { // bytes that only a device with memory of its own copies
			if onDevice {
				return n
			}
			return 0
		}
		const bytes = rows * width * 4
		must(b.Host("x", x, session.AtRun))
		must(b.Output("y", session.OnDevice))
		check("input copied at each run", some(bytes), 0)
		must(b.Host("x", x, session.AtBind))
		must(b.Output("z", session.OnDevice))
		check("input copied when bound", 0, 0)
		must(b.Host("x", x, session.Import))
		check("input imported", 0, 0)
		must(b.Output("y", session.OnHost))
		must(b.Output("z", session.OnHost))
		check("room for outputs in the host's memory", 0, 0)
		must(b.Output("z", session.Kept))
		check("output kept by the session", 0, some(rows*4))
		must(b.Output("z", session.OnDevice))
		out := hostTensor(t, rows, width)
		must(b.OutputHost("y", out, session.Exact, session.Import))
		check("output imported", 0, 0)
		if !slices.Equal(out.Bytes, y) {
			t.Error("an imported output is not in the host's memory")
		}
		most := hostTensor(t, 2*rows, width)
		must(b.OutputHost("y", most, session.AtMost, session.Auto))
		check("output of at most some rows", 0, 0)
		must(b.OutputHost("y", out, session.Exact, session.AtRun))
		check("output copied at each run", 0, some(bytes))
		// In place: the same memory is input and output. It is copied behind the run.
		inout := hostTensor(t, rows, width)
		copy(inout.Bytes, x.Bytes)
		must(b.Host("x", inout, session.Auto))
		must(b.OutputHost("y", inout, session.Exact, session.Auto))
		check("in place", 0, bytes)
		if !slices.Equal(inout.Bytes, y) {
			t.Error("in place: not the result")
		}
		must(b.Update("x", x.Bytes))
		check("in place again", 0, bytes)

		// What lies anywhere is refused, or copied with the reason.
		odd := &graph.Tensor{Type: graph.Float32, Shape: x.Shape, Bytes: most.Bytes[4 : 4+bytes]}
		copy(odd.Bytes, x.Bytes)
		must(b.OutputHost("y", out, session.Exact, session.Import))
		if err := b.Host("x", odd, session.Import); onDevice && (err == nil || !strings.Contains(err.Error(), "must be multiples of")) {
			t.Errorf("an unaligned import: %v", err)
		}
		must(b.Host("x", odd, session.Auto))
		check("not aligned", some(bytes), 0)

		// A buffer, from an offset that kernels take and one that they do not.
		buffer, err := s.NewBuffer(4 * bytes)
		must(err)
		for _, at := range []int64{64, 4} {
			must(buffer.WriteAt(x.Bytes, at))
			place := session.Place{Buffer: buffer, At: at}
			to := session.Place{Buffer: buffer, At: 2*bytes + at}
			must(b.Device("x", x, place))
			must(b.OutputDevice("y", x, to, session.Exact))
			copies := int64(0)
			if onDevice && at == 4 {
				copies = bytes
			}
			check(fmt.Sprint("a buffer from ", at), copies, copies)
		}
		buffer.Drop()

		// Wrong shapes and places.
		small := hostTensor(t, rows-1, width)
		must(b.OutputHost("y", small, session.AtMost, session.Auto))
		if _, _, err := b.Run(ctx, session.RunOptions{}); err == nil || !strings.Contains(err.Error(), `at most`) {
			t.Errorf("a result larger than was bound: %v", err)
		}
		must(b.OutputHost("y", most, session.Exact, session.Auto))
		if _, _, err := b.Run(ctx, session.RunOptions{}); err == nil || !strings.Contains(err.Error(), `exact`) {
			t.Errorf("another shape than was bound: %v", err)
		}
		tiny, err := s.NewBuffer(16)
		must(err)
		if err := b.OutputDevice("y", x, session.Place{Buffer: tiny}, session.Exact); err == nil {
			t.Error("16 bytes are room for a page")
		}
		if err := b.Device("x", x, session.Place{Buffer: tiny, At: -8}); err == nil {
			t.Error("a place before its buffer")
		}
		huge := &graph.Tensor{Type: graph.Float32, Shape: []int{1 << 40, 1 << 40}}
		if err := b.Device("x", huge, session.Place{Buffer: tiny}); err == nil {
			t.Error("a shape of more bytes than a number holds")
		}
		tiny.Drop()
		b.ClearInputs()
		if _, _, err := b.Run(ctx, session.RunOptions{}); err == nil || !strings.Contains(err.Error(), `inputs are missing: "x"`) {
			t.Errorf("cleared inputs: %v", err)
		}
		b.ClearOutputs()
		must(b.Host("x", x, session.Auto))
		r, _, err := b.Run(ctx, session.RunOptions{})
		must(err)
		if len(r.Outputs) != 2 || !slices.Equal(r.Outputs[0].Bytes, y) {
			t.Error("cleared outputs are not kept by the session")
		}
		b.ClearInputs()
		s.Release()
		if now, owners := heldBy(s); now > held+4*bytes { // patterns of places that are still there
			t.Errorf("%d bytes are held after all is cleared, %d were: %v", now, held, owners)
		}
	})
}

func heldBy(s *session.Session) (int64, map[string]int64) {
	stats := s.Stats()
	return stats.Held, stats.Owners
}

// TestBoundChain: what one session writes another reads where it is, step after step, and nothing is copied.
func TestBoundChain(t *testing.T) {
	onBoth(t, func(t *testing.T, device string) {
		const width, rows = 32, 7 // neither pages nor whole lines
		one, two := openOn(t, device, squares(t, width, 2, 1)), openOn(t, device, squares(t, width, 3, 2))
		ctx := context.Background()
		x := fillWith(graph.NewTensor(graph.Float32, rows, width), 9)
		want := slices.Clone(x.Bytes)
		for range 5 {
			for _, s := range []*session.Session{one, two} {
				r, err := s.Run(ctx, map[string]*graph.Tensor{"x": {Type: x.Type, Shape: x.Shape, Bytes: want}}, []session.Fetch{{Name: "y"}}, session.RunOptions{})
				if err != nil {
					t.Fatal(err)
				}
				want = slices.Clone(r.Outputs[0].Bytes)
			}
		}
		a, b := one.NewBinding(), two.NewBinding()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(a.Output("y", session.OnDevice))
		must(b.Output("y", session.OnDevice))
		must(a.Host("x", x, session.AtBind))
		in, out := int64(0), int64(0)
		for i := range 5 {
			if i > 0 {
				_, place, ok := b.Value("y")
				if !ok {
					t.Fatal("no value")
				}
				must(a.Device("x", x, place))
			}
			r, _, err := a.Run(ctx, session.RunOptions{})
			must(err)
			_, place, _ := a.Value("y")
			must(b.Device("x", x, place))
			q, _, err := b.Run(ctx, session.RunOptions{})
			must(err)
			in, out = in+r.CopiedIn+q.CopiedIn, out+r.CopiedOut+q.CopiedOut
		}
		got := make([]byte, len(want))
		must(b.Read("y", got))
		if !slices.Equal(got, want) || in+out != 0 {
			t.Errorf("%d bytes copied in and %d out; same results: %v", in, out, slices.Equal(got, want))
		}
		if kept := one.Stats().Patterns.Kept; kept > 3 {
			t.Errorf("%d patterns for two places", kept)
		}
		a.ClearInputs()
		a.ClearOutputs()
		b.ClearInputs()
		b.ClearOutputs()
	})
}

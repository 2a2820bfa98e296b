package session_test

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/lab/verify"
	"memopt/memopt/session"
)

func tensor(shape []int, xs ...float32) *graph.Tensor {
	return graph.TensorOf(graph.Float32, xs, shape...)
}

func run(t *testing.T, s *session.Session, in map[string]*graph.Tensor) map[string]*graph.Tensor {
	t.Helper()
	r, err := s.Run(context.Background(), in, nil, session.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*graph.Tensor{}
	for _, o := range r.Outputs {
		out[o.Name] = o.Tensor
	}
	return out
}

// both opens a model from its file, and from bytes that are overwritten afterwards.
func both(t *testing.T, path string, o session.Options, f func(t *testing.T, s *session.Session)) {
	t.Run("file", func(t *testing.T) { f(t, open(t, path, o)) })
	t.Run("bytes", func(t *testing.T) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Open(context.Background(), session.Model{Bytes: src}, o)
		if err != nil {
			t.Fatal(err)
		}
		clear(src)
		defer s.Close()
		f(t, s)
	})
}

// TestEmptyInputs: dims of size 0, which names cannot stand for, are read as numbers.
func TestEmptyInputs(t *testing.T) {
	g, err := graph.Parse(kernels.Library, "x f32[batch, 2] = input\ny = Relu(x)\noutput y")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "relu.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	both(t, path, session.Options{Pattern: true}, func(t *testing.T, s *session.Session) {
		for _, n := range []int{3, 0, 2, 0} {
			x := graph.NewTensor(graph.Float32, n, 2)
			if y := run(t, s, map[string]*graph.Tensor{"x": x})["y"]; fmt.Sprint(y.Shape) != fmt.Sprint([]int{n, 2}) {
				t.Errorf("%d rows give %v", n, y.Shape)
			}
		}
	})
}

// TestShapesOfNumbers: results whose shapes depend on values of inputs, in several runs.
func TestShapesOfNumbers(t *testing.T) {
	both(t, "testdata/above.onnx", session.Options{Pattern: true}, func(t *testing.T, s *session.Session) {
		for _, c := range []struct {
			x      []float32
			places []int64
		}{{[]float32{1, -1, 2}, []int64{0, 2}}, {[]float32{-1, 5, 7}, []int64{1, 2}}, {[]float32{0, 0, -3, -4}, nil}, {[]float32{1, -1, 2}, []int64{0, 2}}} {
			out := run(t, s, map[string]*graph.Tensor{"x": tensor([]int{len(c.x)}, c.x...)})
			if got := out["places"]; fmt.Sprint(got.Shape) != fmt.Sprint([]int{1, len(c.places)}) || !slices.Equal(got.I64(), c.places) {
				t.Errorf("%v: places %v %v", c.x, got.Shape, got.I64())
			}
			if got := out["count"].I64()[0]; got != int64(len(c.places)) {
				t.Errorf("%v: count %d", c.x, got)
			}
			for i, at := range c.places {
				if got := out["above"].F32()[i]; got != c.x[at] {
					t.Errorf("%v: above %v", c.x, out["above"].F32())
				}
			}
		}
		large := graph.NewTensor(graph.Float32, 5000)
		for i := range large.Len() {
			large.SetFloat(i, float64(i%3)-1)
		}
		if got := run(t, s, map[string]*graph.Tensor{"x": large})["above"].Len(); got != 1666 {
			t.Errorf("%d of 5000", got)
		}
	})
	both(t, "testdata/reshape.onnx", session.Options{Pattern: true}, func(t *testing.T, s *session.Session) {
		for _, to := range [][]int64{{3, 2}, {6, 1}, {-1, 3}} {
			y := run(t, s, map[string]*graph.Tensor{"x": tensor([]int{2, 3}, 1, 2, 3, 4, 5, 6), "to": graph.TensorOf(graph.Int64, to, 2)})["y"]
			if y.Shape[1] != int(to[1]) || !slices.Equal(y.F32(), []float32{2, 4, 6, 8, 10, 12}) {
				t.Errorf("%v gives %v %v", to, y.Shape, y.F32())
			}
		}
		if _, err := s.Run(context.Background(), map[string]*graph.Tensor{"x": tensor([]int{2, 3}, 1, 2, 3, 4, 5, 6), "to": graph.TensorOf(graph.Int64, []int64{4, 4}, 2)}, nil, session.RunOptions{}); err == nil {
			t.Error("6 elements are 4×4")
		}
	})
	both(t, "testdata/samename.onnx", session.Options{Pattern: true}, func(t *testing.T, s *session.Session) {
		out := run(t, s, map[string]*graph.Tensor{"a": tensor([]int{2}, 1, -2), "b": tensor([]int{3}, 3, -4, 5)})
		if !slices.Equal(out["d"].F32(), []float32{3, 0, 5}) {
			t.Errorf("%v", out["d"].F32())
		}
	})
	both(t, "testdata/turns.onnx", session.Options{Pattern: true}, func(t *testing.T, s *session.Session) {
		for _, n := range []int{3, 1, 5} {
			out := run(t, s, map[string]*graph.Tensor{"x": graph.NewTensor(graph.Float32, n)})
			if out["last"].Float(0) != float64(n) || out["all"].Len() != n {
				t.Errorf("%d rows: %v, %v", n, out["last"].F32(), out["all"].F32())
			}
		}
	})
}

// TestOverridable: an input with an initializer may be given or not.
func TestOverridable(t *testing.T) {
	both(t, "testdata/overridable.onnx", session.Options{Pattern: true}, func(t *testing.T, s *session.Session) {
		x := tensor([]int{1, 3}, 10, 20, 30)
		for range 2 {
			if y := run(t, s, map[string]*graph.Tensor{"x": x})["y"]; !slices.Equal(y.F32(), []float32{11, 22, 33}) {
				t.Errorf("%v", y.F32())
			}
			if y := run(t, s, map[string]*graph.Tensor{"x": x, "b": tensor([]int{3}, 0, 0, 1)})["y"]; !slices.Equal(y.F32(), []float32{10, 20, 31}) {
				t.Errorf("%v", y.F32())
			}
		}
	})
}

// TestReadAgain: a model given as bytes is kept without the weights that the session has, and read
// again with them.
func TestReadAgain(t *testing.T) {
	both(t, dense(t, 64, 3), session.Options{Pattern: true}, func(t *testing.T, s *session.Session) {
		want := run(t, s, batch(3, 64))["y"]
		kept := append([]byte(nil), want.Bytes...)
		for range 2 {
			if y := run(t, s, batch(0, 64))["y"]; y.Len() != 0 {
				t.Errorf("no rows give %v", y.Shape)
			}
		}
		if y := run(t, s, batch(3, 64))["y"]; string(y.Bytes) != string(kept) {
			t.Error("other bits")
		}
		stats := s.Stats()
		if w := int64(3 * 4 * 64 * 64); stats.Owners["weights"] != w || stats.Owners["model"] > 4<<10 {
			t.Errorf("owners %v", stats.Owners)
		}
	})
}

// TestPlannedAhead: a model with fixed shapes is planned when it is opened.
func TestPlannedAhead(t *testing.T) {
	g, err := graph.Parse(kernels.Library, "x f32[3, 2] = input\ny = Relu(x)\nz = Exp(y)\noutput z")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fixed.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, session.Options{Pattern: true, Threads: 1})
	if stats := s.Stats(); stats.Patterns.Kept != 1 {
		t.Errorf("%+v", stats.Patterns)
	}
	if r, err := s.Run(context.Background(), map[string]*graph.Tensor{"x": graph.NewTensor(graph.Float32, 3, 2)}, nil, session.RunOptions{}); err != nil || !r.Known {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := s.Run(context.Background(), map[string]*graph.Tensor{"x": graph.NewTensor(graph.Float32, 4, 2)}, nil, session.RunOptions{}); err == nil || !strings.Contains(err.Error(), "dim 0 is 3") {
		t.Errorf("%v", err)
	}
}

// TestNodeCases: the ONNX project's node tests, each in a session that runs twice.
func TestNodeCases(t *testing.T) {
	const zip = "../lab/verify/testdata/onnx-node-1.23.2.zip"
	cases, closer, err := verify.OpenZip(zip)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	report, err := os.ReadFile("../lab/verify/testdata/expected.txt")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := verify.Find(cases)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, dir := range dirs {
		if strings.Contains(string(report), dir+" ") {
			continue
		}
		c, err := verify.Open(cases, dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Outline.Foreign) > 0 {
			continue
		}
		src, err := fs.ReadFile(cases, dir+"/model.onnx")
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Open(context.Background(), session.Model{Bytes: src, Name: dir}, session.Options{Pattern: true, Optimize: "off"})
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for _, set := range c.Sets {
			for range 2 {
				r, err := s.Run(context.Background(), set.Inputs, nil, session.RunOptions{})
				if err != nil {
					t.Errorf("%s: %v", dir, err)
					break
				}
				for i, want := range set.Outputs {
					if why := differs(r.Outputs[i].Tensor, want); why != "" {
						t.Errorf("%s: output %d %s", dir, i, why)
					}
				}
				ran++
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if t.Logf("%d runs", ran); ran < 1200 {
		t.Errorf("%d runs", ran)
	}
}

// differs says how tensors differ by more than the node tests allow.
func differs(got, want *graph.Tensor) string {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("is %s%v, not %s%v", got.Type, got.Shape, want.Type, want.Shape)
	}
	for k := range want.Len() {
		g, w := got.Float(k), want.Float(k)
		if g != w && !(math.IsNaN(g) && math.IsNaN(w)) && !(math.Abs(g-w) <= 1e-6+2e-3*math.Abs(w)) {
			return fmt.Sprintf("has %v, not %v at %d", g, w, k)
		}
	}
	return ""
}

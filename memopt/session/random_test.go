package session_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/session"
)

// TestRandomGraphs: graphs of in-place operators, views and results with further readers compute
// what the definition says, whatever is fetched, wherever results lie, and however memory is
// allocated.
func TestRandomGraphs(t *testing.T) {
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString("x f32[n, 4] = input\nz f32[n, 4] = input\nw f32[4] = const {1, -2, 3, 0.5}\nto i64[2] = const {-1, 2}\nback i64[2] = const {-1, 4}\n")
		values := []string{"x", "z", "x"}
		for i := range rapid.IntRange(1, 14).Draw(t, "nodes") {
			pick := func() string { return rapid.SampledFrom(values).Draw(t, "input") }
			v := fmt.Sprintf("v%d", i)
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0:
				fmt.Fprintf(&text, "%s = Relu(%s)\n", v, pick())
			case 1:
				fmt.Fprintf(&text, "%s = Mul(%s, w)\n", v, pick())
			case 2:
				fmt.Fprintf(&text, "%sr = Reshape(%s, to)\n%sn = Neg(%sr)\n%s = Reshape(%sn, back)\n", v, pick(), v, v, v, v)
			case 3:
				fmt.Fprintf(&text, "%sa = Transpose(%s) perm=[1, 0]\n%s = Transpose(%sa) perm=[1, 0]\n", v, pick(), v, v)
			default:
				fmt.Fprintf(&text, "%s = %s(%s, %s)\n", v, rapid.SampledFrom([]string{"Add", "Sub", "Max"}).Draw(t, "two"), pick(), pick())
			}
			values = append(values, v)
		}
		outputs := map[string]bool{values[len(values)-1]: true}
		for range rapid.IntRange(0, 3).Draw(t, "outputs") {
			outputs[rapid.SampledFrom(values).Draw(t, "output")] = true
		}
		delete(outputs, "x")
		delete(outputs, "z")
		for name := range outputs {
			fmt.Fprintf(&text, "output %s\n", name)
		}
		g, err := graph.Parse(kernels.Library, text.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		path := filepath.Join(folder, "random.onnx")
		if err := onnx.Write(path, g); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		s, err := session.Open(context.Background(), session.Model{Path: path}, session.Options{Pattern: rapid.Bool().Draw(t, "pattern"), Patterns: 2,
			Optimize: rapid.SampledFrom([]string{"off", "clean"}).Draw(t, "optimize"),
			Arena:    arena.Options{Strategy: arena.Strategy(rapid.SampledFrom(arena.Strategies()).Draw(t, "strategy"))}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		for range 3 {
			n := rapid.IntRange(1, 9).Draw(t, "n")
			in := map[string]*graph.Tensor{"x": graph.NewTensor(graph.Float32, n, 4), "z": graph.NewTensor(graph.Float32, n, 4)}
			for i := range 4 * n {
				in["x"].F32()[i], in["z"].F32()[i] = float32(i%11)-5, float32(i%7)-3
			}
			b, err := graph.Bind(map[string]int64{"n": int64(n)})
			if err != nil {
				t.Fatal(err)
			}
			want, err := kernels.Interpret(g, b, in)
			if err != nil {
				t.Fatal(err)
			}
			var fetches []session.Fetch
			for name := range outputs {
				f := session.Fetch{Name: name}
				switch rapid.IntRange(0, 3).Draw(t, "place") {
				case 0:
					f.Place = func(_ *graph.Tensor, bytes int64) ([]byte, error) { return make([]byte, bytes), nil }
				case 1: // over an input, which ends
					f.Place = func(_ *graph.Tensor, bytes int64) ([]byte, error) { return in["x"].Bytes[:bytes], nil }
				case 2:
					continue
				}
				fetches = append(fetches, f)
			}
			r, err := s.Run(context.Background(), in, fetches, session.RunOptions{Shrink: rapid.Bool().Draw(t, "shrink")})
			if err != nil {
				t.Fatalf("%v\n%s", err, text.String())
			}
			over := 0
			for _, out := range r.Outputs {
				if &out.Bytes[0] == &in["x"].Bytes[0] {
					over++
				}
			}
			for _, out := range r.Outputs {
				if over > 1 && &out.Bytes[0] == &in["x"].Bytes[0] {
					continue // one of them is there
				}
				if w := want[g.ByName(out.Name).ID]; !slices.Equal(out.Shape, w.Shape) || !slices.Equal(out.F32(), w.F32()) {
					t.Fatalf("%s is %v, not %v\n%s", out.Name, out.F32(), w.F32(), text.String())
				}
			}
		}
	})
}

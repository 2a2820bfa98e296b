package session_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/session"
	"memopt/planner"
)

// zooModel writes a small model of a family.
func zooModel(t *testing.T, family string) string {
	t.Helper()
	g, err := zoo.New(zoo.Spec{Family: family, Seed: 1}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), family+".onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	return path
}

// feed makes up inputs of a model for sizes of its dims.
func feed(t *testing.T, g *graph.Graph, dims map[string]int64, seed uint64) map[string]*graph.Tensor {
	t.Helper()
	b, err := graph.Bind(dims)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	in := map[string]*graph.Tensor{}
	for _, v := range g.Inputs {
		shape, err := b.Shape(v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		x := graph.NewTensor(v.Type, shape...)
		for i := range x.Len() {
			if x.Type.IsReal() {
				x.SetFloat(i, rng.NormFloat64())
			} else {
				x.SetInt(i, rng.Int64N(2))
			}
		}
		in[v.Name] = x
	}
	return in
}

// reference runs a model under the planner's keep-all plan, as in training.
func reference(t *testing.T, path string, dims map[string]int64, in map[string]*graph.Tensor, fuse bool) map[string]*graph.Tensor {
	t.Helper()
	g, source, err := onnx.From{Path: path, Forward: true}.Read(context.Background(), kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if fuse {
		g.Clean(graph.CleanOptions{Fuse: kernels.Fusions})
	}
	p, err := planner.Make(g, planner.Request{Dims: dims, Strategy: "keep-all"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cpu.Open(s, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
		t.Fatal(err)
	}
	out := map[string]*graph.Tensor{}
	for _, v := range g.Outputs {
		if out[v.Name], err = d.Output(v.Name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func open(t *testing.T, path string, o session.Options) *session.Session {
	t.Helper()
	s, err := session.Open(context.Background(), session.Model{Path: path}, o)
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

func equal(a, b *graph.Tensor) bool {
	return a != nil && b != nil && a.Type == b.Type && fmt.Sprint(a.Shape) == fmt.Sprint(b.Shape) && bytes.Equal(a.Bytes, b.Bytes)
}

// TestZoo: every family computes the bits of the reference, with patterns and without, fused and
// not.
func TestZoo(t *testing.T) {
	for _, f := range zoo.Families() {
		for _, fuse := range []bool{false, true} {
			for _, pattern := range []bool{true, false} {
				for _, strategy := range arena.Strategies() {
					if strategy != "planned" && (pattern || fuse) {
						continue // one block is one block
					}
					t.Run(fmt.Sprint(f.Name, fuse, pattern, strategy), func(t *testing.T) {
						path := zooModel(t, f.Name)
						g, source, err := onnx.Open(path, kernels.Library)
						if err != nil {
							t.Fatal(err)
						}
						defer source.Close()
						dims := map[string]int64{}
						for _, name := range g.Names() {
							dims[name] = 3
						}
						in := feed(t, g, dims, 7)
						optimize := map[bool]string{false: "off", true: "fuse"}[fuse]
						s := open(t, path, session.Options{Optimize: optimize, Pattern: pattern, Arena: arena.Options{Strategy: arena.Strategy(strategy)}})
						want := reference(t, path, dims, in, fuse)
						for range 2 {
							r, err := s.Run(context.Background(), in, nil, session.RunOptions{})
							if err != nil {
								t.Fatal(err)
							}
							for _, out := range r.Outputs {
								if !equal(out.Tensor, want[out.Name]) {
									t.Errorf("output %s differs from the reference", out.Name)
								}
							}
						}
					})
				}
			}
		}
	}
}

package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/onnx"
	"memopt/internal/stop/stoptest"
	"memopt/kernels"
	"memopt/memopt/session"
)

// dense is a chain of products, batch × width, with a long-lived branch.
func dense(t *testing.T, width, layers int, opts ...onnx.Option) string {
	t.Helper()
	g := graph.New(kernels.Library, "dense")
	b := graph.NewBuilder(g)
	x, err := b.Define(graph.Input, "x", graph.Float32, graph.Shape{graph.Sym("batch"), graph.Num(int64(width))})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
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
		h = b.Op("Relu", nil, b.Op("MatMul", nil, h, c))
	}
	y := b.Op("Add", nil, h, b.Op("Relu", nil, x))
	g.Rename(y, "y")
	g.Outputs = append(g.Outputs, y)
	path := filepath.Join(t.TempDir(), "dense.onnx")
	if err := onnx.Write(path, g, opts...); err != nil {
		t.Fatal(err)
	}
	return path
}

func batch(rows, width int) map[string]*graph.Tensor {
	x := graph.NewTensor(graph.Float32, rows, width)
	for i := range x.F32() {
		x.F32()[i] = float32(i%7) - 3
	}
	return map[string]*graph.Tensor{"x": x}
}

// TestLimits: a session runs with a limit of exactly what it needs; with a byte less the error
// names what is in the way, and the next request that fits succeeds.
func TestLimits(t *testing.T) {
	path := dense(t, 64, 3)
	for _, strategy := range arena.Strategies() {
		for _, pattern := range []bool{true, false} {
			for _, off := range []bool{false, true} {
				t.Run(fmt.Sprint(strategy, pattern, off), func(t *testing.T) {
					o := session.Options{Pattern: pattern, Arena: arena.Options{Strategy: arena.Strategy(strategy), InitialChunkBytes: 1, Off: off}}
					free := open(t, path, o)
					if _, err := free.Run(context.Background(), batch(40, 64), nil, session.RunOptions{}); err != nil {
						t.Fatal(err)
					}
					weights := free.Stats().Owners["weights"]
					// The least limit that it runs with.
					fits := func(limit int64) error {
						o := o
						o.MemoryLimit = limit
						s, err := session.Open(context.Background(), session.Model{Path: path}, o)
						if err != nil {
							return err
						}
						defer func() {
							if err := s.Close(); err != nil {
								t.Error(err)
							}
						}()
						_, err = s.Run(context.Background(), batch(40, 64), nil, session.RunOptions{})
						if now := s.Stats(); now.HeldMost > limit {
							t.Errorf("%d held with a limit of %d", now.HeldMost, limit)
						}
						if err != nil {
							if _, again := s.Run(context.Background(), batch(1, 64), nil, session.RunOptions{}); again != nil && limit > weights+16<<10 {
								t.Errorf("limit %d: after %v: %v", limit, err, again)
							}
						}
						return err
					}
					low, high := weights, free.Stats().HeldMost
					for low < high {
						if mid := (low + high) / 2; fits(mid) == nil {
							high = mid
						} else {
							low = mid + 1
						}
					}
					if err := fits(low); err != nil {
						t.Errorf("limit %d: %v", low, err)
					}
					for _, limit := range []int64{1, weights - 1, weights, low - 1} {
						err := fits(limit)
						var short *arena.OutOfMemory
						if !errors.As(err, &short) {
							t.Fatalf("limit %d of %d: %v", limit, low, err)
						}
						for _, want := range []string{"bytes requested", "in use", "reserved", "largest hole", fmt.Sprintf("the limit is %d", limit)} {
							if !strings.Contains(err.Error(), want) {
								t.Errorf("limit %d: %v", limit, err)
							}
						}
						if limit >= weights && (len(short.Largest) == 0 || short.Largest[0].Owner != "weights" || short.Largest[0].Bytes != weights) {
							t.Errorf("limit %d: largest owners %v", limit, short.Largest)
						}
					}
					if pattern && strategy != "kNextPowerOfTwo" {
						if need := free.Stats().HeldMost; low != need {
							t.Errorf("it held %d, and runs with %d", need, low)
						}
					}
				})
			}
		}
	}
}

// TestManyShapes: a thousand runs of 64 shapes hold no more memory than the first pass over them,
// and no more patterns than allowed.
func TestManyShapes(t *testing.T) {
	path := dense(t, 32, 4)
	for _, strategy := range arena.Strategies() {
		for _, c := range []struct {
			pattern bool
			most    int
		}{{true, 64}, {true, 8}, {false, 64}} {
			t.Run(fmt.Sprint(strategy, c), func(t *testing.T) {
				s := open(t, path, session.Options{Pattern: c.pattern, Patterns: c.most, Arena: arena.Options{Strategy: arena.Strategy(strategy), InitialChunkBytes: 1 << 12}})
				var first session.Stats
				var heap uint64
				for i := range 1000 {
					rows := 1 + (i*37)%64
					if i < 64 {
						rows = 64 - i // the largest first is what a planned arena needs
						if i%2 == 0 {
							rows = i + 1
						}
					}
					r, err := s.Run(context.Background(), batch(rows, 32), nil, session.RunOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if r.Outputs[0].Shape[0] != rows {
						t.Fatalf("%d rows give %v", rows, r.Outputs[0].Shape)
					}
					if i == 127 {
						first, heap = s.Stats(), live()
					}
				}
				now := s.Stats()
				if now.Owners["arena"] > first.Owners["arena"] || now.HeldMost > first.HeldMost || now.Arena.MaxTotalAllocated > first.Arena.MaxTotalAllocated || now.Arena.NumArenaExtensions != first.Arena.NumArenaExtensions {
					t.Errorf("after the first pass %+v, at the end %+v", first.Arena, now.Arena)
				}
				if now.Patterns.Kept > c.most {
					t.Errorf("%d patterns are kept", now.Patterns.Kept)
				}
				if c.most == 64 && now.Patterns.Misses != 64 {
					t.Errorf("%d patterns were made", now.Patterns.Misses)
				}
				if grown := int64(live()) - int64(heap); grown > 256<<10 {
					t.Errorf("the heap grew by %d", grown)
				}
			})
		}
	}
}

// live is the live bytes of the Go heap.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestDropped: opening and closing sessions, and running them, leaks nothing.
func TestDropped(t *testing.T) {
	path := dense(t, 64, 3, onnx.External)
	cycle := func() {
		s, err := session.Open(context.Background(), session.Model{Path: path}, session.Options{Pattern: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 25 {
			if _, err := s.Run(context.Background(), batch(8, 64), nil, session.RunOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	cycle()
	heap, anonymous, goroutines := live(), resident(t), runtime.NumGoroutine()
	for range 20 {
		cycle()
	}
	if grown := int64(live()) - int64(heap); grown > 128<<10 {
		t.Errorf("the heap grew by %d", grown)
	}
	if grown := resident(t) - anonymous; grown > 4<<20 {
		t.Errorf("anonymous memory grew by %d", grown)
	}
	stoptest.Ended(t, goroutines)
}

// resident is the process's anonymous memory; 0 if unknown.
func resident(t *testing.T) (n int64) {
	t.Helper()
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssAnon:" {
			fmt.Sscan(fields[1], &n)
		}
	}
	return n << 10
}

// TestWeightsStayInTheirFile: weights of a large model are mapped once for all shapes, and keep
// their content if the file is replaced.
func TestWeightsStayInTheirFile(t *testing.T) {
	const width, layers = 1024, 6
	path := dense(t, width, layers, onnx.External)
	before := resident(t)
	s := open(t, path, session.Options{Pattern: true})
	var want []byte
	for _, rows := range []int{1, 3, 2, 1} {
		r, err := s.Run(context.Background(), batch(rows, width), nil, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if rows == 1 {
			want = append([]byte(nil), r.Outputs[0].Bytes...)
		}
	}
	stats := s.Stats()
	if w := int64(4 * width * width * layers); stats.Weights.Mapped != w || stats.Weights.Copied != 0 || stats.Owners["weights"] != w {
		t.Errorf("%+v, owners %v", stats.Weights, stats.Owners)
	}
	if grown := resident(t) - before; before > 0 && grown > 12<<20 {
		t.Errorf("anonymous memory grew by %d", grown)
	}
	other := dense(t, width, 1, onnx.External)
	for _, suffix := range []string{"", ".data"} {
		if err := os.Rename(other+suffix, path+suffix); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Run(context.Background(), batch(1, width), nil, session.RunOptions{})
	if err != nil || string(r.Outputs[0].Bytes) != string(want) {
		t.Errorf("after another file took its place: %v", err)
	}
	// A file that is modified in place is an error.
	path = dense(t, width, layers, onnx.External)
	s = open(t, path, session.Options{Pattern: true})
	if err := os.Truncate(path+".data", 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(context.Background(), batch(1, width), nil, session.RunOptions{}); err == nil || !strings.Contains(err.Error(), ".data") {
		t.Errorf("of a file that was cut short: %v", err)
	}
}

// TestWeightsInPlace: by load mode inplace they are read into memory, once for all shapes, and their file may go; modes that
// hold a copy for a transfer are refused.
func TestWeightsInPlace(t *testing.T) {
	const width, layers = 1024, 6
	path, w := dense(t, width, layers, onnx.External), int64(4*width*width*layers)
	var want []byte
	for _, mode := range []loader.Mode{"", loader.Streamed, loader.InPlace} {
		before := resident(t)
		s := open(t, path, session.Options{Pattern: true, Load: mode})
		if mode == loader.InPlace {
			if err := os.Truncate(path+".data", 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		for _, rows := range []int{2, 1} {
			r, err := s.Run(context.Background(), batch(rows, width), nil, session.RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Promised != r.Measured || r.Promised.Weights != w {
				t.Errorf("%q: promised %+v, measured %+v", mode, r.Promised, r.Measured)
			}
			if rows == 1 && want == nil {
				want = append([]byte(nil), r.Outputs[0].Bytes...)
			} else if rows == 1 && string(r.Outputs[0].Bytes) != string(want) {
				t.Errorf("%q: other bits", mode)
			}
		}
		stats, grown := s.Stats(), resident(t)-before
		if mode != loader.InPlace {
			if stats.Weights.Mapped != w || stats.Weights.Copied != 0 || stats.Load != nil {
				t.Errorf("%q: %+v, %+v", mode, stats.Weights, stats.Load)
			}
			continue
		}
		if l := stats.Load; stats.Weights.Mapped != 0 || stats.Weights.Copied != w || l == nil || l.W != w || l.Largest != w/layers || l.A == 0 || l.Promised != l.W+l.A || l.Measured != l.Promised {
			t.Errorf("%+v, %+v", stats.Weights, l)
		}
		if before > 0 && (grown < w/2 || grown > w+12<<20) { // what was there before may have gone meanwhile
			t.Errorf("anonymous memory grew by %d for weights of %d", grown, w)
		}
	}
	for _, mode := range []loader.Mode{loader.Lazy, loader.Eager} {
		var unsuited *loader.UnsuitedError
		if _, err := session.Open(context.Background(), session.Model{Path: path}, session.Options{Load: mode}); !errors.As(err, &unsuited) || unsuited.Mode != mode {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// TestProduct compares every micro-kernel of this machine with three loops in
// float64, over sizes around the edges of tiles and blocks.
func TestProduct(t *testing.T) {
	sizes := [][3]int{{1, 1, 1}, {1, 33, 5}, {4, 4, 4}, {13, 33, 7}, {12, 32, 300}, {121, 257, 64}, {37, 1030, 9}, {970, 31, 3}, {5, 7, 0}}
	for _, tl := range tiles {
		for _, s := range sizes {
			for trans := range 4 {
				t.Run(fmt.Sprintf("%s %v trans %d", tl.name, s, trans), func(t *testing.T) { testProduct(t, &tl, s[0], s[1], s[2], trans) })
			}
		}
	}
}

func testProduct(t *testing.T, tl *tile, m, n, k, trans int) {
	rng := rand.New(rand.NewPCG(1, uint64(m*n+k)))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	a, b := Matrix{random(m*k + 1), k, 1, 1}, Matrix{random(k*n + 1), 1, n, 1}
	if trans&1 != 0 {
		a.I, a.P = 1, m
	}
	if trans&2 != 0 {
		b.I, b.P = k, 1
	}
	a.Scale = 0.5
	start := random(m * n)
	odd := func(n, _ int, f func(lo, hi int)) { f(n/3, n); f(0, n/3) }
	for _, add := range []bool{false, true} {
		c := append([]float32(nil), start...)
		tl.multiply(Serial, m, n, k, a, b, result{c, n, n, 0, nil}, add)
		again := append([]float32(nil), start...)
		tl.multiply(odd, m, n, k, a, b, result{again, n, n, 0, nil}, add)
		for i := range m {
			for j := range n {
				want := 0.0
				if add {
					want = float64(start[i*n+j])
				}
				for p := range k {
					want += 0.5 * float64(a.Data[i*a.I+p*a.P]) * float64(b.Data[j*b.I+p*b.P])
				}
				if got := float64(c[i*n+j]); math.Abs(got-want) > 1e-5*float64(k+1) {
					t.Fatalf("add %v: element (%d, %d) is %v, not %v", add, i, j, got, want)
				}
				if again[i*n+j] != c[i*n+j] {
					t.Fatalf("add %v: element (%d, %d) depends on the ranges", add, i, j)
				}
			}
		}
	}
}

func BenchmarkProduct(b *testing.B) {
	cores := func(n, _ int, f func(lo, hi int)) {
		var wg sync.WaitGroup
		w := runtime.GOMAXPROCS(0)
		for i := range w {
			wg.Go(func() { f(n*i/w, n*(i+1)/w) })
		}
		wg.Wait()
	}
	for _, tl := range tiles {
		for _, s := range [][3]int{{512, 512, 512}, {64, 64, 64}, {1024, 1024, 64}, {256, 768, 3072}} {
			for name, par := range map[string]Parallel{"one": Serial, "all": cores} {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/%s", tl.name, s[0], s[1], s[2], name), func(b *testing.B) {
					m, n, k := s[0], s[1], s[2]
					x, y, z := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
					for b.Loop() {
						tl.multiply(par, m, n, k, Matrix{x, k, 1, 1}, Matrix{y, 1, n, 1}, result{z, n, n, 0, nil}, false)
					}
					b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

package pack

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
)

// families are large problems of many kinds, each of about n buffers.
var families = []struct {
	name string
	make func(n int, seed uint64) Problem
}{
	{"step", step},
	{"uniform", drawnBy(func(n int, r *rand.Rand) Buffer {
		a, b := r.IntN(n), r.IntN(n)
		return Buffer{First: int32(min(a, b)), Last: int32(max(a, b) + 1), Size: 1 + r.Int64N(1<<20)}
	})},
	{"short", drawnBy(func(n int, r *rand.Rand) Buffer {
		a := r.IntN(n)
		return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(200)), Size: 1 + r.Int64N(1<<20)}
	})},
	{"skewed", drawnBy(func(n int, r *rand.Rand) Buffer {
		a := r.IntN(n)
		return Buffer{First: int32(a), Last: int32(a + 1 + int(50*r.ExpFloat64())), Size: 1 + int64(1e4*r.ExpFloat64())}
	})},
	{"long", drawnBy(func(n int, r *rand.Rand) Buffer {
		a := r.IntN(n)
		return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(n/5)), Size: 1 + r.Int64N(1<<20)}
	})},
	{"powers", drawnBy(func(n int, r *rand.Rand) Buffer {
		a := r.IntN(n)
		return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(200)), Size: 1 << (8 + r.IntN(12)), Align: 256}
	})},
	{"few moments", drawnBy(func(n int, r *rand.Rand) Buffer {
		a := r.IntN(1000)
		return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(60)), Size: 64 * (1 + r.Int64N(1<<10)), Align: 64}
	})},
	{"two kinds", drawnBy(func(n int, r *rand.Rand) Buffer {
		a := r.IntN(n)
		if r.IntN(10) == 0 {
			return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(n/10)), Size: 1 + r.Int64N(1<<14)}
		}
		return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(40)), Size: 1 + r.Int64N(1<<20)}
	})},
	{"rungs", func(n int, seed uint64) (p Problem) {
		r := rand.New(rand.NewPCG(seed, seed))
		for i := range n {
			p.Buffers = append(p.Buffers, Buffer{First: int32(i), Last: int32(i + 10), Size: 1 << (4 + r.IntN(12))})
		}
		return p
	}},
	{"nested", func(n int, seed uint64) (p Problem) {
		r := rand.New(rand.NewPCG(seed, seed))
		for i := range n / 2 {
			p.Buffers = append(p.Buffers, Buffer{First: int32(i), Last: int32(n - i + r.IntN(8)), Size: 1 + r.Int64N(1<<16)})
			p.Buffers = append(p.Buffers, Buffer{First: int32(2*i + r.IntN(4)), Last: int32(2*i + 5 + r.IntN(16)), Size: 1 + r.Int64N(1<<22)})
		}
		return p
	}},
}

// drawnBy is a family of buffers that know nothing of each other.
func drawnBy(one func(n int, r *rand.Rand) Buffer) func(n int, seed uint64) Problem {
	return func(n int, seed uint64) (p Problem) {
		r := rand.New(rand.NewPCG(seed, seed))
		for range n {
			p.Buffers = append(p.Buffers, one(n, r))
		}
		return p
	}
}

// Large problems of every family come near the bytes alive at once, whatever the seed: most within a percent.
func TestFamilies(t *testing.T) {
	near, all := 0, 0
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 2; seed++ {
				p := f.make(20_000, seed)
				s, err := Solve(p)
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(p, s); err != nil {
					t.Error(err)
				}
				if all++; s.Height <= s.Bound+s.Bound/100 {
					near++
				}
				if s.Height > s.Bound+s.Bound/40 {
					t.Errorf("seed %d: height %d, by %s, is more than 2.5 %% above the bound %d", seed, s.Height, s.Strategy, s.Bound)
				}
			}
		})
	}
	if near*4 < all*3 {
		t.Errorf("only %d of %d are within a percent", near, all)
	}
}

// BenchmarkFamilies says for each family and seed how far above the bound it comes, and the seconds of all cores.
func BenchmarkFamilies(b *testing.B) {
	for _, f := range families {
		for _, n := range []int{20_000, 60_000} {
			for seed := uint64(1); seed <= 5; seed++ {
				b.Run(fmt.Sprint(f.name, "/", n, "/", seed), func(b *testing.B) {
					p := f.make(n, seed)
					var s Solution
					begin := processor()
					for b.Loop() {
						s, _ = Solve(p)
					}
					b.ReportMetric((processor()-begin)/float64(b.N), "cpu-s/op")
					b.ReportMetric(100*float64(s.Height-s.Bound)/float64(s.Bound), "%gap")
				})
			}
		}
	}
}

// processor is the seconds that this process has used of any core.
func processor() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Sec) + float64(u.Utime.Usec)/1e6
}

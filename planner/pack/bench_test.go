package pack

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// trainingStep is the buffers of a training step of about n values. Activations are alive until the backward pass, which
// runs in reverse order, has read them; gradients and work space for a few moments; weights throughout. Sizes are drawn from
// twelve, as layers repeat, and one in ten is odd.
func trainingStep(n int, seed uint64) Problem {
	r := rand.New(rand.NewPCG(seed, seed))
	var p Problem
	add := func(first, last int, size int64) {
		p.Buffers = append(p.Buffers, Buffer{First: int32(first), Last: int32(last), Size: size})
	}
	sizes := make([]int64, 12)
	for i := range sizes {
		sizes[i] = int64(1+r.IntN(64)) << (8 + r.IntN(6))
	}
	size := func() int64 {
		if r.IntN(10) == 0 {
			return 4 * (1 + r.Int64N(1<<16))
		}
		return sizes[r.IntN(len(sizes))]
	}
	nodes := n / 4
	for i := range nodes {
		mirror := 2*nodes - 1 - i
		switch r.IntN(3) {
		case 0:
			add(i, i+2+r.IntN(3), size()) // used at once
		default:
			add(i, mirror+1+r.IntN(2), size()) // stashed
		}
		add(mirror, mirror+1+r.IntN(4), size()) // gradient
		switch r.IntN(4) {
		case 0:
			add(0, 2*nodes+8, size()) // weight
		case 1:
			add(mirror, 2*nodes+8, size()) // gradient of a weight
		default:
			at := r.IntN(2 * nodes)
			add(at, at+1, size()) // workspace
		}
		at := r.IntN(2 * nodes)
		add(at, at+1+r.IntN(20), size())
	}
	return p
}

// layered is the buffers of a step of equal layers, in the order of the step: most of what a layer makes is kept until its
// mirror image in the backward pass.
func layered(layers int) (p Problem) {
	const values = 20
	n := layers * values
	for i := range n {
		size := int64(1+i%values%5) << 16
		if mirror := 2*n - i; i%values < 12 {
			p.Buffers = append(p.Buffers, Buffer{First: int32(i), Last: int32(mirror + 1 + i%3), Size: size})
		} else {
			p.Buffers = append(p.Buffers, Buffer{First: int32(mirror), Last: int32(mirror + 2 + i%8), Size: size})
		}
	}
	return p
}

// ladder is buffers of which each overlaps the one before and the one after by a moment.
func ladder(n int) (p Problem) {
	for i := range n {
		p.Buffers = append(p.Buffers, Buffer{First: int32(2 * i), Last: int32(2*i + 3), Size: int64(1 + i)})
	}
	return p
}

// drawn is n independently drawn buffers.
func drawn(draw func(n int, r *rand.Rand) Buffer) func(n int, seed uint64) Problem {
	return func(n int, seed uint64) (p Problem) {
		r := rand.New(rand.NewPCG(seed, seed))
		for range n {
			p.Buffers = append(p.Buffers, draw(n, r))
		}
		return p
	}
}

// short is short-lived buffers of all sizes, aligned.
var short = drawn(func(n int, r *rand.Rand) Buffer {
	a := r.IntN(n)
	return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(200)), Size: 64 * (1 + r.Int64N(1<<12)), Align: 64}
})

// window is buffers that end in the order in which they begin.
func window(n int, seed uint64) (p Problem) {
	r := rand.New(rand.NewPCG(seed, seed))
	for i := range n {
		p.Buffers = append(p.Buffers, Buffer{First: int32(i), Last: int32(i + 100), Size: 1 + r.Int64N(1<<20)})
	}
	return p
}

func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1000, 20_000, 60_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := trainingStep(n, 1)
			b.ReportAllocs()
			var s Solution
			for b.Loop() {
				s, _ = Solve(p, Effort{})
			}
			b.ReportMetric(100*float64(s.Height-s.Bound)/float64(s.Bound), "%gap")
		})
	}
}

// BenchmarkMiniMalloc solves Google's instances within their capacity and without one.
func BenchmarkMiniMalloc(b *testing.B) {
	all, err := MiniMalloc()
	if err != nil {
		b.Fatal(err)
	}
	for _, instance := range all {
		for _, capacity := range []int64{instance.Capacity, 0} {
			b.Run(fmt.Sprint(instance.Name, "/", capacity), func(b *testing.B) {
				p := instance.Problem
				p.Capacity = capacity
				var s Solution
				for b.Loop() {
					var err error
					if s, err = Solve(p, Effort{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(s.Height), "height")
			})
		}
	}
}

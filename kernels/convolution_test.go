package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// TestConvolutions: all three sides of any convolution agree with plain loops,
// at any level, and do not depend on how they are dealt out.
func TestConvolutions(t *testing.T) {
	rapid.Check(t, testConvolution)
	atEachLevel(t, func(t *testing.T) { rapid.Check(t, testConvolution) })
}

func testConvolution(t *rapid.T) {
	number := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	c := &convolution{lower.Convolution{Convolution: f32.Convolution{N: number("images", 1, 3), Group: number("groups", 1, 2), Inner: number("inner", 1, 9), Outer: number("outer", 1, 14),
		In: f32.Ones, Out: f32.Ones, Kernel: f32.Ones, Stride: f32.Ones, Dilation: f32.Ones}}}
	for axis := number("first axis", 0, 2); axis < 3; axis++ {
		c.In[axis], c.Kernel[axis], c.Stride[axis] = number("in", 1, 9), number("kernel", 1, 3), number("stride", 1, 3)
		if axis == 2 {
			c.In[axis] = number("line", 1, 40)
		}
		c.Dilation[axis], c.Pad[axis] = number("dilation", 1, 2), number("pad", 0, 4)
		reach := (c.Kernel[axis]-1)*c.Dilation[axis] + 1
		room := c.In[axis] + c.Pad[axis] + number("pad behind", 0, 4)
		if room < reach {
			t.Skip("no window has room")
		}
		c.Out[axis] = (room-reach)/c.Stride[axis] + 1
	}
	rng := rand.New(rand.NewPCG(1, 2))
	// Behind and before what may be read there is NaN.
	tensor := func(n int) *graph.Tensor {
		x := graph.NewTensor(graph.Float32, n+128)
		for i := range x.F32() {
			x.F32()[i] = float32(math.NaN())
			if i >= 64 && i < n+64 {
				x.F32()[i] = float32(rng.NormFloat64())
			}
		}
		return &graph.Tensor{Type: graph.Float32, Shape: []int{n}, Bytes: x.Bytes[4*64 : 4*(n+64)]}
	}
	x := tensor(c.N * c.Group * c.Inner * f32.Volume(c.In))
	y := tensor(c.N * c.Group * c.Outer * f32.Volume(c.Out))
	w := tensor(c.Group * c.Outer * c.Inner * f32.Volume(c.Kernel))
	for _, side := range []struct {
		name       string
		like, bias *graph.Tensor
		plain      func(to, bias *graph.Tensor)
		fast       func(par f32.Parallel, to, bias []float32)
	}{
		{"forward", y, tensor(c.Group * c.Outer), func(to, bias *graph.Tensor) { c.forward(x, w, bias, to) },
			func(par f32.Parallel, to, bias []float32) { c.Forward(par, x.F32(), w.F32(), bias, to) }},
		{"backward", x, tensor(c.Group * c.Inner), func(to, bias *graph.Tensor) { c.backward(y, w, bias, to) },
			func(par f32.Parallel, to, bias []float32) { c.Backward(par, y.F32(), w.F32(), bias, to) }},
		{"filters", w, nil, func(to, _ *graph.Tensor) { c.filters(x, y, to) },
			func(par f32.Parallel, to, _ []float32) { c.Filters(par, x.F32(), y.F32(), to) }},
	} {
		want, got, again := tensor(side.like.Len()), tensor(side.like.Len()), tensor(side.like.Len())
		var bias []float32
		if side.bias != nil {
			bias = side.bias.F32()
		}
		side.plain(want, side.bias)
		side.fast(f32.Serial, got.F32(), bias)
		side.fast(func(n, _ int, f func(lo, hi int)) { f(n/3, n); f(0, n/3) }, again.F32(), bias)
		for i, v := range want.F32() {
			if g := got.F32()[i]; !(math.Abs(float64(g-v)) <= 1e-4*(1+math.Abs(float64(v)))) {
				t.Fatalf("%s: element %d is %v, not %v", side.name, i, g, v)
			}
			if math.Float32bits(again.F32()[i]) != math.Float32bits(got.F32()[i]) {
				t.Fatalf("%s: element %d depends on the ranges", side.name, i)
			}
		}
	}
}

// TestFarTaps: what a convolution lays out of its image is a part of that, also
// where taps lie so far from one another that they share no rows.
func TestFarTaps(t *testing.T) {
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, far := range []int{1, 12, 36} {
		op := *Library.Find("", "Conv", 0)
		op.Samples = []string{fmt.Sprintf("f32[1,64,65,65], f32[64,64,3,3]; pads=[%[1]d, %[1]d, %[1]d, %[1]d] dilations=[%[1]d, %[1]d]", far)}
		cases, err := Cases(&op)
		if err != nil {
			t.Fatal(err)
		}
		low, err := graph.Lower(cases[0].Node, b, graph.PlanLimits)
		if err != nil || low.Refused != "" {
			t.Fatal(low.Refused, err)
		}
		if image := int64(4 * 64 * 65 * 65); low.Scratch == 0 || low.Scratch > image/2 {
			t.Errorf("taps %d apart: %d bytes of work space for an image of %d", far, low.Scratch, image)
		}
	}
}

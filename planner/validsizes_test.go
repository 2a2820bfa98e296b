package planner_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
)

// TestLargestOfSome: of a model that takes some sizes only, the largest of them that
// fits is found, and the smallest is known.
func TestLargestOfSome(t *testing.T) {
	for _, c := range []struct {
		name, text      string
		smallest, apart int64
	}{
		{"halved twice", `
x f32[batch, 1, h, 8] = input
w f32[1, 1, 4, 4] = param
d = MaxPool(x) kernel_shape=[4, 4] strides=[4, 4]
u = ConvTranspose(d, w) strides=[4, 4]
y = Add(u, x)
s = ReduceMean(y) keepdims=0
output s
`, 4, 4},
		{"in 2048s", inSteps(2048), 2048, 2048},
		{"in 3000s", inSteps(3000), 3000, 3000},
		{"a kernel of 7", `
x f32[batch, 1, h, 8] = input
w f32[1, 1, 7, 3] = param
y = Conv(x, w)
s = ReduceMean(y) keepdims=0
output s
`, 6, 1}, // of 6 rows it makes none
		{"any size", `
x f32[batch, h] = input
w f32[1] = param
y = Mul(x, w)
s = ReduceMean(y) keepdims=0
output s
`, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := trained(t, c.text)
			r := planner.Request{Dims: map[string]int64{"batch": 2}}
			var short *planner.BudgetError
			r.Budget = planner.Size{Bytes: 100}
			if _, err := planner.Largest(g, r, "h", 0); !errors.As(err, &short) || short.Least != c.smallest {
				t.Errorf("100 bytes do for no size from %d on: %v", c.smallest, err)
			}
			adviseSize(t, g, c.smallest)
			r.Budget = planner.Size{Bytes: math.MaxInt64 / 2}
			p, err := planner.Largest(g, r, "h", 0)
			if err != nil {
				t.Fatal(err)
			}
			if size := p.Request.Dims["h"]; !p.SearchEnded || 1<<40-size >= c.apart {
				t.Errorf("of a budget that is never reached the search ends: %v at %d", p.SearchEnded, size)
			}
			for _, bytes := range []int64{2200, 4 << 10, 64 << 10, 1<<20 + 300, 8 << 20} {
				if bytes < 32*c.smallest {
					continue // not even the smallest fits
				}
				r.Budget = planner.Size{Bytes: bytes}
				p, err := planner.Largest(g, r, "h", 0)
				if err != nil {
					t.Fatalf("%d bytes: %v", bytes, err)
				}
				size := p.Request.Dims["h"]
				if p.SearchEnded {
					t.Errorf("%d bytes: the search does not end at %d", bytes, size)
				}
				if p.Memory.Total > bytes || (size-c.smallest)%c.apart != 0 {
					t.Errorf("%d bytes: h = %d with %d bytes", bytes, size, p.Memory.Total)
				}
				more := r
				more.Dims = map[string]int64{"batch": 2, "h": size + c.apart}
				if _, err := planner.Make(g, more); err == nil {
					t.Errorf("%d bytes: %d is said to be the largest, and %d fits too", bytes, size, size+c.apart)
				}
			}
		})
	}
	few := trained(t, `
x f32[batch, 1, 1, h] = input
w f32[2, 1] = param
d = MaxPool(x) kernel_shape=[1, 3000] strides=[1, 3000]
y = MatMul(d, w)
s = ReduceMean(y) keepdims=0
output s
`)
	p, err := planner.Largest(few, planner.Request{Dims: map[string]int64{"batch": 2}, Budget: planner.Size{Bytes: 8 << 20}}, "h", 0)
	if err != nil || p.Request.Dims["h"] != 8999 {
		t.Errorf("of the sizes from 6000 to 8999 the largest is %v, %v", p, err)
	}
	g := trained(t, `
x f32[batch, 1, h, 7] = input
w f32[1, 1, 2, 2] = param
d = MaxPool(x) kernel_shape=[2, 2] strides=[2, 2]
u = ConvTranspose(d, w) strides=[2, 2]
z f32[batch, 1, h, w] = input
y = Add(u, z)
s = ReduceMean(y) keepdims=0
output s
`)
	r := planner.Request{Dims: map[string]int64{"batch": 2, "w": 7}, Budget: planner.Size{Bytes: 1 << 20}}
	if _, err := planner.Largest(g, r, "h", 0); err == nil || !strings.Contains(err.Error(), "takes no size of h that was tried, the powers of two to 1048576 and those nearby: node") {
		t.Errorf("no size of h is right where w is wrong, and the answer is %v", err)
	}
}

// adviseSize checks that of a request for too many rows a smaller size is advised that fits,
// whichever is the smallest that the model takes.
func adviseSize(t *testing.T, g *graph.Graph, smallest int64) {
	t.Helper()
	r := planner.Request{Dims: map[string]int64{"batch": 2, "h": 400 * smallest}, Budget: planner.Size{Bytes: 2000 + 100*smallest}}
	_, err := planner.Make(g, r)
	var short *planner.BudgetError
	if !errors.As(err, &short) {
		t.Fatalf("%+v: error %v", r, err)
	}
	all, _ := planner.Advise(g, r, short)
	i := slices.IndexFunc(all, func(c planner.Change) bool { return c.Set[0].Name == "dims" && strings.HasPrefix(c.Set[0].Value, "h=") })
	if i < 0 {
		t.Fatalf("no size of h is advised: %+v", all)
	}
	if _, err := planner.Make(g, follow(t, r, all[i])); err != nil {
		t.Errorf("%+v is advised: %v", all[i], err)
	}
}

// inSteps is a model that takes multiples of a size.
func inSteps(size int) string {
	return fmt.Sprintf(`
x f32[batch, 1, h, 1] = input
w f32[1, 1, %[1]d, 1] = param
d = MaxPool(x) kernel_shape=[%[1]d, 1] strides=[%[1]d, 1]
u = ConvTranspose(d, w) strides=[%[1]d, 1]
y = Add(u, x)
s = ReduceMean(y) keepdims=0
output s
`, size)
}

// trained is the step of a forward graph that is given as text.
func trained(t *testing.T, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "sgd"}); err != nil {
		t.Fatal(err)
	}
	return g
}

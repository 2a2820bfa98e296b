package vulkan_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

// TestChains: launches in chains give the bits that they give one by one, for
// every pointwise operator, whatever is broadcast, and also in pieces.
func TestChains(t *testing.T) {
	gpu := device(t)
	var ops []*graph.Op
	for _, op := range kernels.Library.All() {
		if op.Pointwise && op.Rewrite == nil {
			ops = append(ops, op)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var text strings.Builder
	values := map[string][]string{} // by shape: what may be read
	for _, shape := range []string{"5000", "1", "3, 5, 8", "5, 8", "8", "3, 1, 1", "7, 3", "7, 1", "3"} {
		for i := range 2 {
			name := fmt.Sprintf("p%d_%s", i, strings.NewReplacer(", ", "x").Replace(shape))
			fmt.Fprintf(&text, "%s f32[%s] = param\n", name, shape)
			values[shape] = append(values[shape], name)
		}
	}
	under := map[string][]string{"5000": {"1"}, "3, 5, 8": {"5, 8", "8", "3, 1, 1"}, "7, 3": {"7, 1", "3"}}
	used := map[*graph.Op]int{}
	for round := range len(ops) {
		op := ops[round%len(ops)]
		ports, _ := op.Ports()
		_, attrs, _ := strings.Cut(op.Samples[0], ";")
		for _, shape := range []string{"5000", "3, 5, 8", "7, 3"} {
			for range 8 { // not all operators broadcast, and not all alike
				n := len(ports)
				if ports[0].Variadic {
					n = 1 + rng.IntN(4)
				}
				var args, declared []string
				for range n {
					is := shape
					if rng.IntN(3) == 0 && !ports[0].Variadic {
						is = under[shape][rng.IntN(len(under[shape]))]
					}
					from := values[is]
					args = append(args, from[len(from)-1-rng.IntN(min(4, len(from)))])
					declared = append(declared, fmt.Sprintf("x%d f32[%s] = param", len(args), is))
				}
				made := fmt.Sprintf("y%d", text.Len())
				line := func(args []string) string {
					return fmt.Sprintf("%s f32[%s] = %s(%s) %s\n", made, shape, op.FullName(), strings.Join(args, ", "), attrs)
				}
				alone := make([]string, n)
				for i := range alone {
					alone[i] = fmt.Sprintf("x%d", i+1)
				}
				if _, err := graph.Parse(kernels.Library, strings.Join(declared, "\n")+"\n"+line(alone)); err != nil {
					continue
				}
				text.WriteString(line(args))
				values[shape] = append(values[shape], made)
				used[op]++
				break
			}
		}
	}
	g := drawn(t, text.String(), rng)
	for _, v := range g.Values {
		if v.Kind == graph.Computed && rng.IntN(3) == 0 {
			g.Outputs = append(g.Outputs, v)
		}
	}
	for _, op := range ops {
		if used[op] == 0 {
			t.Errorf("%s was not tried", op.FullName())
		}
	}
	p, plain := planned(t, g, planner.Request{Strategy: "keep-all"})
	chained, report, err := p.Chained()
	if err != nil {
		t.Fatal(err)
	}
	if before, after := report.Launches(); after == 0 || before < len(ops) {
		t.Errorf("%d launches became %d", before, after)
	}
	want := results(t, gpu, g, plain, vulkan.Options{})
	for what, got := range map[string][][]byte{
		"in chains":            results(t, gpu, g, chained, vulkan.Options{}),
		"in chains, in pieces": results(t, gpu, g, chained, vulkan.Options{Range: 4096, Poison: true}),
	} {
		for i, v := range g.Outputs {
			if !sameNumbers(got[i], want[i]) {
				t.Errorf("%s has other bits %s", v.Def, what)
			}
		}
	}
}

// sameNumbers compares bits, but any NaN is as good as another: which of two a sum
// passes on is for the driver to say.
func sameNumbers(a, b []byte) bool {
	x, y := (&graph.Tensor{Type: graph.Float32, Bytes: a}).F32(), (&graph.Tensor{Type: graph.Float32, Bytes: b}).F32()
	return slices.EqualFunc(x, y, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// TestChainApart: a chain that the kernel does not take, of more dims than it has,
// runs in parts.
func TestChainApart(t *testing.T) {
	gpu := device(t)
	var text strings.Builder
	text.WriteString("y0 f32[2, 2, 2, 2, 2, 2] = param\n")
	for i, shape := range []string{"2, 1, 1, 1, 1, 1", "2, 1, 1, 1, 1", "2, 1, 1, 1", "2, 1, 1", "2, 1"} {
		fmt.Fprintf(&text, "x%d f32[%s] = param\ny%d = Add(y%d, x%d)\n", i, shape, i+1, i, i)
	}
	g := drawn(t, text.String()+"output y5", rand.New(rand.NewPCG(5, 6)))
	p, plain := planned(t, g, planner.Request{Strategy: "keep-all"})
	chained, _, err := p.Chained()
	if err != nil {
		t.Fatal(err)
	}
	if len(chained.Launches) != 1 {
		t.Fatalf("%d launches", len(chained.Launches))
	}
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	if low, err := graph.Lower(chained.Launches[0].Node, b, graph.PlanLimits); err != nil || low.Refused == "" {
		t.Fatalf("the kernel takes it: %v", err)
	}
	want, got := results(t, gpu, g, plain, vulkan.Options{}), results(t, gpu, g, chained, vulkan.Options{Poison: true})
	if !bytes.Equal(got[0], want[0]) {
		t.Error("the parts have other bits")
	}
}

// drawn is a graph whose parameters are normal numbers.
func drawn(t *testing.T, text string, rng *rand.Rand) *graph.Graph {
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Values {
		if v.Kind == graph.Param {
			n, _ := v.Shape.Elems().Const()
			x := graph.NewTensor(graph.Float32, int(n))
			for i := range x.Len() {
				x.SetFloat(i, rng.NormFloat64())
			}
			v.Data = graph.Bytes(x.Bytes)
		}
	}
	return g
}

// results runs a schedule and gives the outputs' bytes.
func results(t *testing.T, gpu *vk.Physical, g *graph.Graph, s *schedule.Schedule, o vulkan.Options) (out [][]byte) {
	d, err := vulkan.Open(s, gpu, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n, _ := d.Fallbacks(); n > 0 {
		t.Errorf("%v", d.Warnings())
	}
	if _, err := d.Run(schedule.Run{}); err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Outputs {
		x, err := d.Output(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x.Bytes)
	}
	return out
}

package kernels

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// dropOnes runs a one-node Dropout over ones and gives its output.
func dropOnes(t *testing.T, node string, seed, step uint64) []float32 {
	t.Helper()
	const n = 1 << 16
	g, err := graph.Parse(Library, `
x f32[65536] = input
p f32[] = const {0.3}
on bool[] = const {1}
`+node+"\n")
	if err != nil {
		t.Fatal(err)
	}
	x := graph.NewTensor(graph.Float32, n)
	for i := range n {
		x.SetFloat(i, 1)
	}
	p, on := graph.NewTensor(graph.Float32), graph.NewTensor(graph.Bool)
	p.SetFloat(0, 0.3)
	on.SetInt(0, 1)
	y := graph.NewTensor(graph.Float32, n)
	c := &graph.Call{Node: g.Nodes[0], In: []*graph.Tensor{x, p, on}, Out: []*graph.Tensor{y}, Parallel: f32.Serial, Seed: seed, Step: step}
	c.Node.Op.Fast(c)
	return y.F32()
}

func TestDropoutKeys(t *testing.T) {
	base := dropOnes(t, `y = Dropout(x, p, on) @"a"`, 7, 1)
	for _, other := range []struct {
		what string
		ys   []float32
		same bool
	}{
		{"the same again", dropOnes(t, `y = Dropout(x, p, on) @"a"`, 7, 1), true},
		{"another node before it", dropOnes(t, `z = Dropout(x, p, on) @"a"`, 7, 1), true},
		{"another name", dropOnes(t, `y = Dropout(x, p, on) @"b"`, 7, 1), false},
		{"another step", dropOnes(t, `y = Dropout(x, p, on) @"a"`, 7, 2), false},
		{"another seed", dropOnes(t, `y = Dropout(x, p, on) @"a"`, 8, 1), false},
		{"another high half of the seed", dropOnes(t, `y = Dropout(x, p, on) @"a"`, 7+1<<40, 1), false},
		{"a seed of its own", dropOnes(t, `y = Dropout(x, p, on) seed=5 @"a"`, 7, 1), false},
	} {
		if slices.Equal(base, other.ys) != other.same {
			t.Errorf("%s: the same mask: %v", other.what, !other.same)
		}
	}
	if !slices.Equal(dropOnes(t, `y = Dropout(x, p, on) seed=5 @"a"`, 7, 1), dropOnes(t, `y = Dropout(x, p, on) seed=5 @"b"`, 7, 1)) {
		t.Error("with a seed of its own the name still counts")
	}
}

// TestDropoutChance: as many are kept as should be, and neighbours, steps and
// names are independent of each other.
func TestDropoutChance(t *testing.T) {
	const p = 0.3
	a := dropOnes(t, `y = Dropout(x, p, on) @"a"`, 7, 1)
	pairs := map[string][]float32{
		"neighbours": a[1:],
		"four apart": a[4:],
		"steps":      dropOnes(t, `y = Dropout(x, p, on) @"a"`, 7, 2),
		"names":      dropOnes(t, `y = Dropout(x, p, on) @"b"`, 7, 1),
	}
	kept := 0
	for _, v := range a {
		if v != 0 {
			kept++
			if v != float32(1/(1-p)) {
				t.Fatalf("a kept 1 became %v", v)
			}
		}
	}
	within := func(what string, count, n int, chance float64) {
		t.Helper()
		sigma := math.Sqrt(float64(n) * chance * (1 - chance))
		if off := math.Abs(float64(count)-float64(n)*chance) / sigma; off > 4 {
			t.Errorf("%s: %d of %d, %.1f standard deviations off", what, count, n, off)
		}
	}
	within("kept", kept, len(a), 1-p)
	for _, what := range []string{"neighbours", "four apart", "steps", "names"} {
		both := 0
		for i, v := range pairs[what] {
			if v != 0 && a[i] != 0 {
				both++
			}
		}
		within(what, both, len(pairs[what]), (1-p)*(1-p))
	}
}

// TestDropoutBackward: the gradient draws the forward pass's mask.
func TestDropoutBackward(t *testing.T) {
	for _, seed := range []string{"", "seed=-4"} {
		y := dropOnes(t, `y = Dropout(x, p, on) `+seed+` @"a"`, 7, 9)
		if seed == "" {
			n := &graph.Node{Name: "a", Op: Library.Find("", "Dropout", 0)}
			seed = "seed=" + graph.Num(int64(n.Identity())).String()
		}
		dx := dropOnes(t, `y = memopt.DropoutGrad(x, p, on) `+seed, 7, 9)
		if !bytes.Equal(graph.TensorOf(graph.Float32, y, len(y)).Bytes, graph.TensorOf(graph.Float32, dx, len(dx)).Bytes) {
			t.Errorf("%s: another mask", seed)
		}
	}
}

func BenchmarkDropout(b *testing.B) {
	x := graph.NewTensor(graph.Float32, 1<<20)
	p, on := graph.NewTensor(graph.Float32), graph.NewTensor(graph.Bool)
	p.SetFloat(0, 0.1)
	on.SetInt(0, 1)
	n := &graph.Node{Name: "a", Op: Library.Find("", "Dropout", 0)}
	c := &graph.Call{Node: n, In: []*graph.Tensor{x, p, on}, Out: []*graph.Tensor{x}, Parallel: f32.Serial}
	b.SetBytes(int64(len(x.Bytes)))
	for b.Loop() {
		n.Op.Fast(c)
	}
}

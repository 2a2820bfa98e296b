package kernels

import (
	"math"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// TestRandom holds what is drawn against the first moments of its kind.
func TestRandom(t *testing.T) {
	for _, c := range []struct {
		text            string
		mean, deviation float64
		low, high       float64
	}{
		{"y = RandomUniformLike(x)", 0.5, 1 / math.Sqrt(12), 0, 1},
		{"y = RandomUniformLike(x) low=-1.0 high=3.0", 1, 4 / math.Sqrt(12), -1, 3},
		{"y = RandomNormalLike(x)", 0, 1, -7, 7},
		{"y = RandomNormal() shape=[65536] mean=5.0 scale=0.5", 5, 0.5, 1, 9},
		{"y = Bernoulli(x)", 0.3, math.Sqrt(0.21), 0, 1},
	} {
		g, err := graph.Parse(Library, "x f32[65536] = input\n"+c.text+"\noutput y\n")
		if err != nil {
			t.Fatal(err)
		}
		x := graph.NewTensor(graph.Float32, 65536)
		for i := range x.F32() {
			x.F32()[i] = 0.3
		}
		run := func(seed uint64) []float32 {
			made := map[*graph.Value]*graph.Tensor{}
			for _, v := range g.Values {
				switch {
				case v.Kind == graph.Input:
					made[v] = x
				case v.Kind == graph.Const:
					made[v] = v.Contents()
				}
			}
			for _, n := range g.Nodes {
				call := &graph.Call{Node: n, Parallel: f32.Serial, Seed: seed}
				for _, in := range n.Inputs {
					call.In = append(call.In, made[in])
				}
				shape := []int{}
				for _, d := range n.Outputs[0].Shape {
					k, _ := d.Const()
					shape = append(shape, int(k))
				}
				out := graph.NewTensor(n.Outputs[0].Type, shape...)
				call.Out = []*graph.Tensor{out}
				made[n.Outputs[0]] = out
				n.Op.Eval(call)
			}
			return made[g.Outputs[0]].F32()
		}
		sum, squares := 0.0, 0.0
		y, again, other := run(1), run(1), run(2)
		same := 0
		for i, v := range y {
			if v != again[i] {
				t.Fatalf("%s: element %d differs when it is drawn again", c.text, i)
			}
			if v == other[i] {
				same++
			}
			if float64(v) < c.low || float64(v) > c.high {
				t.Errorf("%s: %v is outside [%v, %v]", c.text, v, c.low, c.high)
			}
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		mean := sum / 65536
		deviation := math.Sqrt(squares/65536 - mean*mean)
		if math.Abs(mean-c.mean) > 0.02*c.deviation || math.Abs(deviation-c.deviation) > 0.02*c.deviation {
			t.Errorf("%s: mean %v and deviation %v, want %v and %v", c.text, mean, deviation, c.mean, c.deviation)
		}
		if same > 65536*3/4 {
			t.Errorf("%s: another seed draws the same", c.text)
		}
	}
}

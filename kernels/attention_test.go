package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestAttention compares what Attention is rewritten to with loops over
// heads, queries and keys. Head h of q sees head h/(heads/kvHeads) of k and v.
func TestAttention(t *testing.T) {
	for _, c := range []struct {
		text                         string // inputs behind q, k, v, and attributes
		mask                         string // its type and shape
		heads, kvHeads, queries, kvs int
		past                         int
		causal                       bool
		left, right                  int
	}{
		{"", "", 2, 2, 3, 4, 0, false, -1, -1},
		{"is_causal=1", "", 4, 2, 4, 4, 0, true, -1, -1},
		{"is_causal=1 softcap=0.5 scale=0.3", "", 1, 1, 5, 3, 0, true, -1, -1},
		{"is_causal=1", "", 2, 1, 3, 3, 2, true, -1, -1},
		{"left_window_size=1 right_window_size=0", "", 2, 2, 5, 5, 0, false, 1, 0},
		{"", "bool[3, 4]", 2, 2, 3, 4, 0, false, -1, -1},
		{"is_causal=1", "bool[2, 1, 3, 3]", 2, 2, 3, 3, 0, true, -1, -1},
		{"is_causal=1", "f64[2, 3, 2]", 2, 2, 3, 3, 0, true, -1, -1},
	} {
		name := fmt.Sprintf("%+v", c)
		t.Run(name, func(t *testing.T) {
			const batch, size = 2, 3
			rng := rand.New(rand.NewPCG(1, hash(name)))
			given := map[string]*graph.Tensor{}
			var src strings.Builder
			input := func(name, typ string, shape ...int) *graph.Tensor {
				d, _ := graph.ParseDType(typ)
				x := graph.NewTensor(d, shape...)
				for i := range x.Len() {
					if d == graph.Bool {
						x.SetInt(i, rng.Int64N(2))
					} else {
						x.SetFloat(i, rng.NormFloat64())
					}
				}
				fmt.Fprintf(&src, "%s %s%s = input\n", name, typ, strings.ReplaceAll(fmt.Sprint(shape), " ", ", "))
				given[name] = x
				return x
			}
			q := input("q", "f64", batch, c.heads, c.queries, size)
			k := input("k", "f64", batch, c.kvHeads, c.kvs, size)
			v := input("v", "f64", batch, c.kvHeads, c.kvs, size)
			args := []string{"q", "k", "v", "_"}
			var mask, pastK, pastV *graph.Tensor
			if c.mask != "" {
				typ, dims, _ := strings.Cut(strings.TrimSuffix(c.mask, "]"), "[")
				var shape []int
				for d := range strings.SplitSeq(dims, ", ") {
					var n int
					fmt.Sscan(d, &n)
					shape = append(shape, n)
				}
				mask = input("mask", typ, shape...)
				args[3] = "mask"
				// The first query sees no key at all.
				for i := range shape[len(shape)-1] {
					if typ == "bool" {
						mask.SetInt(i, 0)
					} else {
						mask.SetFloat(i, math.Inf(-1))
					}
				}
			}
			if c.past > 0 {
				pastK = input("pk", "f64", batch, c.kvHeads, c.past, size)
				pastV = input("pv", "f64", batch, c.kvHeads, c.past, size)
				args = append(args, "pk", "pv")
			}
			fmt.Fprintf(&src, "y = Attention(%s) %s\noutput y\n", strings.Join(args, ", "), c.text)
			g, err := graph.Parse(Library, src.String())
			if err != nil {
				t.Fatal(err)
			}
			binding, _ := graph.Bind(nil)
			values, err := Interpret(g, binding, given)
			if err != nil {
				t.Fatal(err)
			}
			got := values[g.Outputs[0].ID]

			scale, softcap := 1/math.Sqrt(size), 0.0
			if strings.Contains(c.text, "softcap") {
				scale, softcap = 0.3, 0.5
			}
			total := c.past + c.kvs
			for at := range batch * c.heads * c.queries {
				b, h, i := at/(c.heads*c.queries), at/c.queries%c.heads, at%c.queries
				kv := b*c.kvHeads + h/(c.heads/c.kvHeads)
				// row is where the vector of a key begins, in the past or now.
				row := func(past, now *graph.Tensor, j int) (x *graph.Tensor, at int) {
					if j < c.past {
						return past, (kv*c.past + j) * size
					}
					return now, (kv*c.kvs + j - c.past) * size
				}
				want, sum := make([]float64, size), 0.0
				for j := range total {
					d := j - (i + c.past)
					if c.causal && d > 0 || c.left >= 0 && -d > c.left || c.right >= 0 && d > c.right {
						continue
					}
					s := 0.0
					keys, from := row(pastK, k, j)
					for e := range size {
						s += q.Float(at*size+e) * keys.Float(from+e) * scale
					}
					if softcap > 0 {
						s = softcap * math.Tanh(s/softcap)
					}
					if mask != nil {
						m := mask.Shape
						if j >= m[len(m)-1] {
							continue
						}
						o := i*m[len(m)-1] + j
						if len(m) == 3 {
							o += h * m[1] * m[2]
						} else if len(m) == 4 {
							o += b * m[1] * m[2] * m[3]
						}
						if mask.Type == graph.Bool {
							if mask.Int(o) == 0 {
								continue
							}
						} else {
							s += mask.Float(o)
						}
					}
					p := math.Exp(s)
					sum += p
					vals, from := row(pastV, v, j)
					for e := range size {
						want[e] += p * vals.Float(from+e)
					}
				}
				for e, w := range want {
					if sum > 0 {
						w /= sum
					}
					if x := got.Float(at*size + e); math.Abs(x-w) > 1e-12 || math.IsNaN(x) {
						t.Fatalf("batch %d, head %d, query %d is %v, not %v", b, h, i, x, w)
					}
				}
			}
		})
	}
}

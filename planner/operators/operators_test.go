package operators_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner/operators"
)

// TestPrices: what nodes come to under a binding, and which node each is like. A case is dims and a graph.
func TestPrices(t *testing.T) {
	golden.Cases(t, "testdata/prices.txt", func(input string) string {
		g, b, err := bound(input)
		if err != nil {
			return "error: " + err.Error()
		}
		shapes, bytes, err := operators.Sizes(g, b)
		if err != nil {
			return "error: " + err.Error()
		}
		like := operators.AlikeOf(g)
		var out strings.Builder
		for _, n := range g.Nodes {
			p, err := operators.PriceOf(n, b, bytes)
			if err != nil {
				return "error: " + err.Error()
			}
			plain, err := operators.WorkSpace(n, b, false)
			if err != nil {
				return "error: " + err.Error()
			}
			kernel, err := operators.WorkSpace(n, b, true)
			if err != nil {
				return "error: " + err.Error()
			}
			w := operators.Timed(n, p)
			fmt.Fprintf(&out, "%s %v %d B: %d flops, %.0f B moved, %.0f inside; works in %d B, as a kernel %d; priced as %d of %s in %s", n.Name, shapes[n.Outputs[0].ID], bytes[n.Outputs[0].ID], p.Flops, p.Moved, p.Inside, plain, kernel, w.Calls, w.Kernel, w.Type)
			if len(w.Steps) > 0 {
				fmt.Fprintf(&out, ", with %d steps", len(w.Steps))
			}
			if first := like.First(n); first != n.ID {
				fmt.Fprintf(&out, "; like %s", g.Nodes[first].Name)
			}
			out.WriteByte('\n')
		}
		return out.String()
	})
}

// bound reads dims and a graph.
func bound(input string) (*graph.Graph, *graph.Binding, error) {
	dims := map[string]int64{}
	var text strings.Builder
	for line := range strings.Lines(input) {
		if rest, is := strings.CutPrefix(line, "dims "); is {
			for _, f := range strings.Fields(rest) {
				name, n, _ := strings.Cut(f, "=")
				var size int64
				if _, err := fmt.Sscan(n, &size); err != nil {
					return nil, nil, err
				}
				dims[name] = size
			}
		} else {
			text.WriteString(line)
		}
	}
	g, err := graph.Parse(kernels.Library, text.String())
	if err != nil {
		return nil, nil, err
	}
	b, err := graph.Bind(dims)
	return g, b, err
}

// TestAlike: nodes that are like each other come to the same numbers under any binding, and each is like one that is like itself.
func TestAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	met := 0
	for range 40 {
		var text strings.Builder
		text.WriteString("x f32[batch, seq] = input\ny f32[batch, seq] = input\nz f64[batch, seq] = input\n")
		names := []string{"x", "y", "z"}
		for i := range 24 {
			name := fmt.Sprintf("v%d", i)
			fmt.Fprintf(&text, "%s = %s(%s)\n", name, pick("Tanh", "Sin"), pick(names...))
			fmt.Fprintf(&text, "%ss = Softmax(%s) axis=%s\n", name, pick(names...), pick("0", "1"))
			names = append(names, name, name+"s")
		}
		fmt.Fprintf(&text, "output %s\n", names[len(names)-1])
		g, err := graph.Parse(kernels.Library, text.String())
		if err != nil {
			t.Fatal(err)
		}
		like := operators.AlikeOf(g)
		first := make([]int32, len(g.Nodes))
		for i, n := range g.Nodes {
			first[i] = like.First(n)
			if first[i] > int32(i) || first[first[i]] != first[i] {
				t.Fatalf("node %d is like node %d", i, first[i])
			}
		}
		for range 3 {
			b, err := graph.Bind(map[string]int64{"batch": 1 + rng.Int64N(9), "seq": 1 + rng.Int64N(9)})
			if err != nil {
				t.Fatal(err)
			}
			_, bytes, err := operators.Sizes(g, b)
			if err != nil {
				t.Fatal(err)
			}
			comesTo := func(n *graph.Node) string {
				p, err := operators.PriceOf(n, b, bytes)
				if err != nil {
					t.Fatal(err)
				}
				space, err := operators.WorkSpace(n, b, true)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("%+v %d %d", operators.Timed(n, p), space, bytes[n.Outputs[0].ID])
			}
			for i, n := range g.Nodes {
				if one, other := comesTo(n), comesTo(g.Nodes[first[i]]); one != other {
					t.Fatalf("%s comes to %s, and %s, which it is like, to %s\n%s", n.Name, one, g.Nodes[first[i]].Name, other, g)
				}
				if first[i] != int32(i) {
					met++
				}
			}
		}
	}
	if met == 0 {
		t.Error("no node was like another")
	}
}

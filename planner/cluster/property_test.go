package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner/cluster"
)

// anyProgram draws a trainer's program: a forward pass of all kinds of nodes, a
// border, and nodes behind it that read whatever they like.
func anyProgram(t *rapid.T) *graph.Outline {
	o := &graph.Outline{Values: map[string]graph.OutlineValue{}, Inputs: []string{"x", "w"}, Outputs: []string{"w_grad"}}
	type kind struct {
		op      string
		domain  string
		since   int
		in, out int
	}
	kinds := []kind{{"Add", "", 14, 2, 1}, {"MatMul", "", 13, 2, 1}, {"Reshape", "", 14, 2, 1}, {"Unsqueeze", "", 13, 2, 1}, {"Cast", "", 13, 1, 1},
		{"Dropout", "", 13, 2, 2}, {"Softmax", "", 13, 1, 1}, {"LayerNormalization", "", 17, 2, 3}, {"Relu", "", 14, 1, 1}, {"Shape", "", 15, 1, 1},
		{"Frobnicate", "", 1, 2, 2}, {"Gather", "", 13, 2, 1}, {"Split", "", 13, 1, 2}, {"Reshape", "", 14, 0, 1}, {"Gelu", "com.microsoft", 1, 1, 1}}
	types := []graph.DType{graph.Float32, graph.Float16, graph.Bool, graph.Int64}
	shapes := []graph.Shape{nil, graph.Dims(3), {graph.Sym("b"), graph.Num(64)}, {graph.Sym("b"), graph.Sym("s"), graph.Num(64)}, graph.Dims(1024, 1024)}
	draw := func(name string) {
		if rapid.IntRange(0, 9).Draw(t, "known") > 0 {
			o.Values[name] = graph.OutlineValue{Type: rapid.SampledFrom(types).Draw(t, "type"), Shape: rapid.SampledFrom(shapes).Draw(t, "shape"), Known: true}
		}
	}
	draw("x")
	draw("w")
	names := []string{"x", "w"}
	add := func(n graph.OutlineNode, in, out int, from []string) {
		n.Name, n.Of = fmt.Sprintf("n%d", len(o.Nodes)), -1
		for range in {
			n.Inputs = append(n.Inputs, rapid.SampledFrom(from).Draw(t, "from"))
		}
		for k := range out {
			n.Outputs = append(n.Outputs, fmt.Sprintf("v%d_%d", len(o.Nodes), k))
			draw(n.Outputs[k])
		}
		names = append(names, n.Outputs...)
		o.Nodes = append(o.Nodes, n)
	}
	for range rapid.IntRange(1, 24).Draw(t, "forward") {
		k := rapid.SampledFrom(kinds).Draw(t, "kind")
		add(graph.OutlineNode{Op: k.op, Domain: k.domain, Since: k.since}, k.in, k.out, names)
	}
	forward := slices.Clone(names)
	add(graph.OutlineNode{Op: "YieldOp", Domain: "com.microsoft", Since: 1}, rapid.IntRange(1, 3).Draw(t, "results"), 1, forward)
	last := names[len(names)-1]
	for range rapid.IntRange(1, 12).Draw(t, "backward") {
		add(graph.OutlineNode{Op: "Mix", Domain: "com.microsoft", Since: 1, Inputs: []string{last}}, rapid.IntRange(0, 3).Draw(t, "reads"), 1, forward)
		last = names[len(names)-1]
	}
	o.Nodes[len(o.Nodes)-1].Outputs[0] = "w_grad"
	return o
}

// TestAnyProgram: an option's nodes can run where the backward pass begins: what
// they read is an input, made by one of them, or alive anyway (the backward pass
// reads its storage, the caller has it, or it is kept for the option).
func TestAnyProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyProgram(t)
		for _, compat := range []string{"", "1.19"} {
			for _, boundary := range []bool{false, true} {
				a, err := cluster.Analyse(o, cluster.Rules{ProbeLevel: 1, Boundary: boundary, Compat: compat, Library: kernels.Library})
				if err != nil {
					t.Fatal(err)
				}
				checkOptions(t, o, a)
				for _, k := range a.Keys() {
					if len(k.Members) == 0 || len(k.Canonical) == 0 {
						t.Fatalf("key %s has no places", &k)
					}
					for _, part := range k.Parts {
						if places, _ := a.Match(part.ID, part.Type); len(places) == 0 {
							t.Fatalf("nothing matches %s", part)
						}
					}
				}
			}
		}
	})
}

func checkOptions(t *rapid.T, o *graph.Outline, a *cluster.Analysis) {
	at := make([]int, len(o.Nodes))
	for k, i := range a.Order {
		at[i] = k
	}
	makers := map[string]int{}
	for i, n := range o.Nodes {
		for _, name := range n.Outputs {
			makers[name] = i
		}
	}
	alive := map[string]bool{} // roots of what outlives the forward pass
	root := func(name string) string {
		for {
			i, made := makers[name]
			if !made || !slices.Contains([]string{"Reshape", "Unsqueeze"}, o.Nodes[i].Op) || len(o.Nodes[i].Inputs) == 0 {
				return name
			}
			name = o.Nodes[i].Inputs[0]
		}
	}
	for i, n := range o.Nodes {
		if at[i] >= a.Yield {
			for _, name := range n.Inputs {
				alive[root(name)] = true
			}
		}
	}
	for _, p := range a.Plans {
		for _, option := range p.Options {
			if !slices.Contains(option.Nodes, p.Entry) || len(option.Outputs) == 0 || !(option.Ratio > 0 && option.Ratio <= 1) {
				t.Fatalf("option %+v of %s", option, o.Nodes[p.Entry].Name)
			}
			if !slices.IsSortedFunc(option.Nodes, func(x, y int) int { return at[x] - at[y] }) || at[option.Nodes[len(option.Nodes)-1]] >= a.Yield {
				t.Fatalf("order of %v", option.Nodes)
			}
			if a.Rules.Compat != "" {
				continue // upstream does not charge
			}
			freed := map[string]bool{}
			for _, out := range option.Outputs {
				freed[root(out.Name)] = true
			}
			for _, i := range option.Nodes {
				for k, name := range o.Nodes[i].Inputs {
					maker, made := makers[name]
					switch {
					case !made, slices.Contains(option.Nodes, maker):
					case freed[root(name)]:
						t.Fatalf("option of %s starts from %q, which it is to free", o.Nodes[p.Entry].Name, name)
					case slices.Contains(option.Keeps, name), alive[root(name)]:
					case option.Type == cluster.Compromise && o.Nodes[i].Op == "Cast" && k == 0:
					default:
						if _, outside := makers[root(name)]; outside {
							t.Fatalf("option of %s reads %q, which nobody keeps", o.Nodes[p.Entry].Name, name)
						}
					}
				}
			}
		}
	}
}

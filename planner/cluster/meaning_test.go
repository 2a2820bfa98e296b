package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/planner/cluster"
)

// randomProgram draws a forward pass of operators that may and may not run
// again, a border, and gradients that read some of it.
func randomProgram(t *rapid.T) *graph.Outline {
	o := &graph.Outline{Values: map[string]graph.OutlineValue{}, Inputs: []string{"x", "w"}}
	shape := graph.Shape{graph.Sym("n"), graph.Num(64)}
	note := func(name string) {
		o.Values[name] = graph.OutlineValue{Type: graph.Float32, Shape: shape, Known: true, Spelled: []string{"n", "64"}}
	}
	note("x")
	note("w")
	values := []string{"x", "w"}
	pick := func(from []string, label string) string { return rapid.SampledFrom(from).Draw(t, label) }
	node := func(name string, inputs []string, ops ...string) string {
		op, form, _ := strings.Cut(pick(ops, "op"), "-")
		n := graph.OutlineNode{Name: name, Op: op, Since: 13, Inputs: inputs, Outputs: []string{name + ".0"}, Of: -1}
		if form != "" {
			fmt.Sscan(form, &n.Since)
		}
		if i := strings.LastIndex(op, "."); i >= 0 {
			n.Domain, n.Op = op[:i], op[i+1:]
		}
		if n.Op == "Dropout" {
			n.Outputs = append(n.Outputs, name+".1")
			note(name + ".1")
		}
		note(name + ".0")
		o.Nodes = append(o.Nodes, n)
		return name + ".0"
	}
	for i := range rapid.IntRange(1, 12).Draw(t, "forward") {
		recent := values[max(0, len(values)-4):]
		values = append(values, node(fmt.Sprintf("f%d", i), []string{pick(recent, "a"), pick(recent, "b")},
			"Add", "Mul", "com.microsoft.FastGelu-1", "MatMul", "Tanh", "Transpose", "Dropout", "Shape"))
		if last := o.Nodes[len(o.Nodes)-1]; len(last.Outputs) > 1 {
			values = append(values, last.Outputs[1])
		}
	}
	o.Nodes = append(o.Nodes, graph.OutlineNode{Name: "Y", Domain: "com.microsoft", Op: "YieldOp", Since: 1, Inputs: []string{values[len(values)-1]}, Outputs: []string{"dy"}, Of: -1})
	note("dy")
	grads := []string{"dy"}
	for i := range rapid.IntRange(1, 12).Draw(t, "backward") {
		grads = append(grads, node(fmt.Sprintf("b%d", i), []string{pick(grads, "grad"), pick(values, "kept")}, "Mul", "Add", "Sum"))
	}
	o.Outputs = []string{grads[len(grads)-1]}
	return o
}

// meanings runs a program on formulas: what each value is, in terms of inputs. A
// node that draws is one with its copies.
func meanings(t *rapid.T, o *graph.Outline, order []int) map[string]string {
	is := map[string]string{"x": "x", "w": "w"}
	sums := map[string]string{} // long formulas by short names
	for _, i := range order {
		n := o.Nodes[i]
		of := n
		for of.Of >= 0 {
			of = o.Nodes[of.Of]
		}
		var args []string
		for _, in := range n.Inputs {
			if is[in] == "" {
				t.Fatalf("%s reads %s before it is made", n.Name, in)
			}
			args = append(args, is[in])
		}
		drawn := ""
		if n.Op == "Dropout" {
			drawn = of.Name
		}
		for k, out := range n.Outputs {
			if is[out] != "" {
				t.Fatalf("%s makes %s again", n.Name, out)
			}
			formula := fmt.Sprintf("%s%s.%d(%s)", n.Op, drawn, k, strings.Join(args, ","))
			if sums[formula] == "" {
				sums[formula] = fmt.Sprintf("#%d", len(sums))
			}
			is[out] = sums[formula]
		}
	}
	return is
}

// TestRewriteKeepsMeaning: whatever is made again, every value is what it was,
// each copy is what its original is, forward nodes read no copies, and both
// orders run.
func TestRewriteKeepsMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := randomProgram(t)
		rules := cluster.Rules{ProbeLevel: 1, Boundary: rapid.Bool().Draw(t, "boundary"), Compat: rapid.SampledFrom([]string{"", "1.19"}).Draw(t, "compat")}
		a, err := cluster.Analyse(o, rules)
		if err != nil {
			t.Fatal(err)
		}
		var choices []cluster.Choice
		for p := range a.Plans {
			if k := rapid.IntRange(-1, len(a.Plans[p].Options)-1).Draw(t, "option"); k >= 0 {
				choices = append(choices, cluster.Choice{Plan: p, Option: k})
			}
		}
		after := cluster.Rewrite(a, choices, 1)
		if len(choices) > 0 && len(after.Nodes) == len(o.Nodes) {
			t.Fatal("nothing is copied")
		}
		for name, f := range map[string]func(*graph.Outline) ([]int, error){"default": cluster.DefaultOrder, "memory": cluster.MemoryEfficientOrder} {
			order, err := f(after)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			is := meanings(t, after, order)
			for _, n := range after.Nodes[len(o.Nodes):] {
				for k, out := range n.Outputs {
					if is[out] != is[o.Nodes[n.Of].Outputs[k]] {
						t.Fatalf("%s: %s is not %s", name, out, o.Nodes[n.Of].Outputs[k])
					}
				}
			}
		}
		for _, i := range a.Order[:a.Yield+1] {
			if !slices.Equal(after.Nodes[i].Inputs, o.Nodes[i].Inputs) {
				t.Fatalf("forward node %s reads %v", after.Nodes[i].Name, after.Nodes[i].Inputs)
			}
		}
		// What the backward pass read of an entry is read no more.
		for _, c := range choices {
			for _, s := range a.Option(c).Outputs {
				for _, i := range a.Order[a.Yield+1:] {
					if slices.Contains(after.Nodes[i].Inputs, s.Name) {
						t.Fatalf("%s still reads %s", after.Nodes[i].Name, s.Name)
					}
				}
			}
		}
	})
}

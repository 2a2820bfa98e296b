package quantize

import (
	"slices"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// replaceProducts replaces each Gemm that is a plain product by a MatMul, and an Add if it has a
// bias, in the innermost of the graphs and in graphs of its nodes. A second factor that is read
// transposed is transposed in the file; if it has other readers, a transposed copy is added.
func replaceProducts(graphs []*onnx.DraftGraph, q *quantizer) {
	g := graphs[len(graphs)-1]
	var nodes []*onnx.DraftNode
	for _, n := range g.Nodes {
		_, inner := n.Graphs()
		for _, i := range inner {
			replaceProducts(append(slices.Clone(graphs), i), q)
		}
		nodes = append(nodes, q.product(graphs, n)...)
	}
	g.Nodes = nodes
}

// isProduct reports whether a node is a Gemm that is a plain product.
func isProduct(n *onnx.DraftNode) bool {
	return n.Op == "Gemm" && n.Domain == "" && len(n.Inputs) >= 2 && len(n.Outputs) == 1 && is(n, "alpha", 1) && is(n, "beta", 1) && is(n, "transA", 0)
}

// is reports whether an attribute has a value, or is absent.
func is(n *onnx.DraftNode, name string, want float64) bool {
	switch x := n.Attr(name).(type) {
	case nil:
		return true
	case float64:
		return x == want
	case int64:
		return float64(x) == want
	}
	return false
}

// product is the nodes that replace a node.
func (q *quantizer) product(graphs []*onnx.DraftGraph, n *onnx.DraftNode) []*onnx.DraftNode {
	if !isProduct(n) {
		return []*onnx.DraftNode{n}
	}
	var nodes []*onnx.DraftNode
	factor, bias := n.Inputs[1], len(n.Inputs) > 2 && n.Inputs[2] != ""
	if !is(n, "transB", 0) {
		turned, ok := q.turned(graphs, factor)
		if !ok {
			turned = factor + "_Transposed"
			nodes = append(nodes, onnx.NewNode("Transpose", suffixed(n.Name, "_Transpose"), []string{factor}, []string{turned}))
		}
		factor = turned
	}
	product, name := n.Outputs[0], suffixed(n.Name, "_MatMul")
	if bias {
		product += "_MatMul"
	}
	if name != "" {
		q.was[name] = n.Name
	}
	nodes = append(nodes, onnx.NewNode("MatMul", name, []string{n.Inputs[0], factor}, []string{product}))
	if bias {
		nodes = append(nodes, onnx.NewNode("Add", suffixed(n.Name, "_Add"), []string{product, n.Inputs[2]}, []string{n.Outputs[0]}))
	}
	return nodes
}

// turned is the name of an initializer's transpose, which it makes at the first call.
func (q *quantizer) turned(graphs []*onnx.DraftGraph, name string) (string, bool) {
	if as, is := q.transposes[name]; is {
		return as, true
	}
	for _, g := range slices.Backward(graphs) {
		i, is := q.places(g)[name]
		if !is {
			continue
		}
		t := g.Tensors[i]
		if len(t.Shape) != 2 || t.Type != graph.Float32 {
			return "", false
		}
		as, x := name, transposed(t)
		if q.others()[name] > 0 {
			as = name + "_Transposed"
		}
		made := &onnx.DraftTensor{Name: as, Type: t.Type, Shape: x.shape, Write: x.write}
		if as == name {
			g.Tensors[i] = made
			g.Inputs = slices.DeleteFunc(g.Inputs, func(v onnx.DraftValue) bool { return v.Name == name })
		} else {
			g.Tensors = append(g.Tensors, made)
		}
		q.transposes[name], q.numbers[made] = as, x
		return as, true
	}
	return "", false
}

// places is the indices of a graph's initializers, by name.
func (q *quantizer) places(g *onnx.DraftGraph) map[string]int {
	if q.at[g] == nil {
		q.at[g] = map[string]int{}
		for i, t := range g.Tensors {
			q.at[g][t.Name] = i
		}
	}
	return q.at[g]
}

// others counts the readers of each value, except for products that read it as their transposed
// factor.
func (q *quantizer) others() map[string]int {
	if q.uses == nil {
		q.uses = map[string]int{}
		var count func(g *onnx.DraftGraph)
		count = func(g *onnx.DraftGraph) {
			for _, n := range g.Nodes {
				turns := isProduct(n) && !is(n, "transB", 0)
				for i, in := range n.Inputs {
					if !turns || i != 1 {
						q.uses[in]++
					}
				}
			}
			for _, v := range g.Outputs {
				q.uses[v.Name]++
			}
			eachInner(g, count)
		}
		count(q.d.Graph)
	}
	return q.uses
}

// foldable counts the products whose second factor is the Transpose of a weight.
func (q *quantizer) foldable(g *onnx.DraftGraph) {
	turned := map[string]bool{}
	for _, n := range g.Nodes {
		if _, is := q.weightTurned(g, n); is {
			turned[n.Outputs[0]] = true
		}
	}
	for _, n := range g.Nodes {
		if len(n.Inputs) > 1 && n.Op == "MatMul" && turned[n.Inputs[1]] {
			q.report.Foldable++
		}
	}
}

// weightTurned is the initializer whose last two dims a node swaps.
func (q *quantizer) weightTurned(g *onnx.DraftGraph, n *onnx.DraftNode) (*onnx.DraftTensor, bool) {
	if n.Op != "Transpose" || n.Domain != "" || len(n.Inputs) != 1 || len(n.Outputs) != 1 {
		return nil, false
	}
	i, is := q.places(g)[n.Inputs[0]]
	if !is || g.Tensors[i].Type != graph.Float32 || len(g.Tensors[i].Shape) < 2 {
		return nil, false
	}
	last := len(g.Tensors[i].Shape) - 1
	perm, given := n.Attr("perm").([]int64)
	if !given {
		return g.Tensors[i], last == 1
	}
	for k, p := range perm {
		want := int64(k)
		if k >= last-1 {
			want = int64(2*last - 1 - k)
		}
		if p != want {
			return nil, false
		}
	}
	return g.Tensors[i], len(perm) == last+1
}

// fold replaces these nodes by initializers with the names of their results.
func (q *quantizer) fold(g *onnx.DraftGraph) {
	outputs := map[string]bool{}
	for _, v := range g.Outputs {
		outputs[v.Name] = true
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.DraftNode) bool {
		t, is := q.weightTurned(g, n)
		if !is || outputs[n.Outputs[0]] {
			return false
		}
		x := transposed(t)
		made := &onnx.DraftTensor{Name: n.Outputs[0], Type: t.Type, Shape: x.shape, Write: x.write}
		g.Tensors = append(g.Tensors, made)
		q.numbers[made] = x
		q.report.folded[t.Name] = made.Name
		return true
	})
}

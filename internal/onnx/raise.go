package onnx

import (
	"slices"

	"memopt/internal/graph"
)

// A runtime may define operators in ONNX's domain, which ONNX adopts in a later opset. Checkers
// refuse files that use them with an older opset, although the same nodes are valid, and mean the
// same, in the later one. raised is that later opset.

// adopted lists, by operator that ONNX adopted unchanged, its attributes in ONNX.
var adopted = map[string][]string{"LayerNormalization": {"axis", "epsilon", "stash_type"}}

// widened lists, by operator, the opsets whose form only extends the previous one: by types, or by
// attributes whose default is the previous behaviour.
var widened = opsets(widenedText)

// Of opsets 14 to 17.
const widenedText = `Add 14
BatchNormalization 15
CumSum 14
Div 14
GRU 14
GreaterOrEqual 16
Identity 14 16
If 16
LSTM 14
LeakyRelu 16
LessOrEqual 16
Loop 16
Mul 14
PRelu 16
Pow 15
RNN 14
Relu 14
Reshape 14
Scan 16
ScatterElements 16
ScatterND 16
Shape 15
Sub 14
Where 16`

// Strange lists the operators of a graph that are in ONNX's domain but not defined by ONNX.
// Checkers refuse files with them.
func Strange(g *graph.Graph) (ops []string) {
	for _, n := range g.Nodes {
		if n.Op.Domain == "" && forms()[n.Op.Name] == nil && !slices.Contains(ops, n.Op.Name) {
			ops = append(ops, n.Op.Name)
		}
	}
	return ops
}

// raising finds the opset of ONNX's own domain that a file can have.
type raising struct {
	r       *reader
	values  map[string]graph.OutlineValue
	from    int
	to      int
	strange []string // operators that ONNX does not define
	taken   []string // operators that it has adopted
	stays   bool     // raising the opset would change an operator
}

// raised is the opset of ONNX's domain in which all nodes of a file keep their meaning and the
// adopted operators are defined; usually the file's own. strange lists the operators that ONNX
// does not define even then.
func (r *reader) raised(nodes [][]byte, values map[string]graph.OutlineValue) (opset int, strange []string) {
	a := &raising{r: r, values: values, from: r.model.opsets[""]}
	a.to = a.from
	if a.from == 0 {
		return 0, nil
	}
	a.each(nodes, true, a.want)
	if a.to > a.from && len(r.model.functions) == 0 {
		a.each(nodes, true, a.check)
		if !a.stays {
			return a.to, a.strange
		}
	}
	return a.from, append(a.strange, a.taken...)
}

// each calls f for each node of ONNX's domain, including those of branches.
func (a *raising) each(nodes [][]byte, top bool, f func(n *node, top bool)) {
	for _, b := range nodes {
		n := &node{}
		a.r.node(b, n)
		if n.domain == "" {
			f(n, top)
		}
		for _, attr := range n.attrs {
			if attr.body != nil {
				a.each(a.r.readBody("a branch", attr.body).nodes, false, f)
			}
		}
	}
}

// want raises the opset to the one that a node needs.
func (a *raising) want(n *node, top bool) {
	known, list := forms()[n.op], &a.strange
	switch {
	case known != nil && known[0] <= a.from:
		return
	case known != nil && adopted[n.op] != nil:
		a.to = max(a.to, known[0])
		list = &a.taken
	}
	if !slices.Contains(*list, n.op) {
		*list = append(*list, n.op)
	}
}

// check checks whether the new opset would change a node.
func (a *raising) check(n *node, top bool) {
	for _, f := range forms()[n.op] {
		if f <= a.from || f > a.to {
			continue
		}
		if adopted[n.op] != nil && f == forms()[n.op][0] {
			a.stays = a.stays || !top || !a.alike(n)
		} else if !slices.Contains(widened()[n.op], f) {
			a.stays = true
		}
	}
}

// alike reports whether a node of an adopted operator is valid in ONNX: it has only attributes that
// were adopted, and inputs of one type.
func (a *raising) alike(n *node) bool {
	for _, attr := range n.attrs {
		if !slices.Contains(adopted[n.op], attr.name) {
			return false
		}
	}
	for _, in := range n.in {
		if in != "" && (a.values[in].Type == graph.Invalid || a.values[in].Type != a.values[n.in[0]].Type) {
			return false
		}
	}
	return true
}

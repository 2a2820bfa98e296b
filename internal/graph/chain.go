package graph

import (
	"fmt"
	"strings"
)

// Chain fuses pointwise nodes, in running order, into one node that computes them element by
// element, without intermediate values in memory. in are the values that they read from
// others, out those that others read; shape evaluates a value's dims. The node is in a graph
// of its own, where values keep their names.
//
// Its operator is the library's RoleChain. Attribute steps has a line of the text
// form for each node, with inputs x0, x1, … and results y0, y1, …; attribute results names
// the outputs.
func Chain(lib *Library, nodes []*Node, in, out []*Value, shape func(*Value) []int) (*Node, error) {
	names := map[*Value]string{}
	b := NewBuilder(New(lib, ""))
	b.Phase = nodes[0].Phase
	inputs, outputs := make([]*Value, len(in)), make([]string, len(out))
	for i, v := range in {
		s := Shape{}
		for _, d := range shape(v) {
			s = append(s, Num(int64(d)))
		}
		names[v] = ChainInput(i)
		var err error
		if inputs[i], err = b.Define(Input, v.Name, v.Type, s); err != nil {
			return nil, err
		}
	}
	steps, results := make([]string, len(nodes)), make([]string, len(out))
	called := make([]string, len(nodes))
	for i, n := range nodes {
		made := fmt.Sprintf("y%d", i)
		steps[i] = made + " = " + n.Spelled(names)
		names[n.Outputs[0]], called[i] = made, n.Name
	}
	for i, v := range out {
		results[i], outputs[i] = names[v], v.Name
	}
	_, err := b.Node(lib.Role(RoleChain), strings.Join(called, "+"), A{"steps": steps, "results": results}.list(), inputs, outputs)
	if err != nil {
		return nil, err
	}
	return b.Graph.Nodes[0], nil
}

// ChainOperands limits the inputs and outputs of a chain together. Kernels of normalizations
// bind as many buffers, so chains ask no more of a device.
const ChainOperands = 10

// ChainInput is the name of a chain's input i in its steps.
func ChainInput(i int) string { return fmt.Sprintf("x%d", i) }

// Spelled is the text of a node's call on inputs with these names.
func (n *Node) Spelled(names map[*Value]string) string {
	var sb strings.Builder
	p := &printer{&sb}
	p.call(n, func(v *Value) string { return names[v] })
	return sb.String()
}

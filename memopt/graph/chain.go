package graph

import (
	"fmt"
	"strings"
)

// Chain is a node that does the work of several: pointwise ones, in running
// order, an element at a time, so that what they make for each other need not go
// through memory. in is what they read of others, out what others want of them;
// shape gives the numbers of dims. The node is in a graph of its own, whose
// values have the names of those.
//
// Its operator is the library's RoleChain. Attribute steps has a line of the text
// form for each node, where inputs are x0, x1, … and what is made y0, y1, …;
// results names the outputs.
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
		steps[i] = made + " = " + n.spelled(names)
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

// ChainOperands is the most that a chain may read and make together. Kernels of
// norms see as many buffers, so no device that runs those is asked for more.
const ChainOperands = 10

// ChainInput is the name that steps of a chain give to its inputs.
func ChainInput(i int) string { return fmt.Sprintf("x%d", i) }

// spelled is a node's operator and attributes on inputs of those names.
func (n *Node) spelled(names map[*Value]string) string {
	var sb strings.Builder
	p := &printer{&sb}
	p.call(n, func(v *Value) string { return names[v] })
	return sb.String()
}

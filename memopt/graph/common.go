package graph

import (
	"fmt"
	"strings"
)

// common lets equal nodes of a phase be one: the same operator, attributes and
// inputs give the same bits. Constants of the same contents are one before
// that. Random nodes differ by name, and what writes over its input or must
// not run twice was not meant to be one.
func common(g *Graph, _ CleanOptions) map[string]int {
	mergeConstants(g)
	e := newEdit(g)
	seen := map[string]*Node{}
	e.each(func(n *Node) []*Value {
		if n.Op.Random || n.Op.Recompute == Never || n.Op.Overwrites != nil {
			return nil
		}
		k := n.key()
		first := seen[k]
		if first == nil {
			seen[k] = n
			return nil
		}
		return first.Outputs
	})
	return e.made
}

// key is equal for nodes that compute the same.
func (n *Node) key() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%d %p", n.Phase, n.Op)
	for _, a := range n.Op.attrs {
		fmt.Fprintf(&sb, " %s=", a.Name)
		if x, ok := n.Attr(a.Name).(*Tensor); ok {
			fmt.Fprintf(&sb, "%d%v%q", x.Type, x.Shape, x.Bytes)
		} else {
			fmt.Fprintf(&sb, "%#v", n.Attr(a.Name))
		}
	}
	for _, v := range n.Inputs {
		if v == nil {
			sb.WriteString(" _")
		} else {
			fmt.Fprintf(&sb, " %d", v.ID)
		}
	}
	sb.WriteString(" :")
	for _, v := range n.Outputs {
		fmt.Fprintf(&sb, " %t", v != nil)
	}
	return sb.String()
}

// smallConstant is the most bytes of a constant that are compared.
const smallConstant = 1 << 10

// mergeConstants lets readers of equal constants read the first of them.
func mergeConstants(g *Graph) {
	kept, changed := g.results(), g.replaced()
	first, to := map[string]*Value{}, map[*Value]*Value{}
	for _, v := range g.Values {
		k := v.constantKey()
		switch {
		case k == "" || kept[v] || changed[v]:
		case first[k] == nil:
			first[k] = v
		default:
			to[v] = first[k]
		}
	}
	if len(to) == 0 {
		return
	}
	for _, n := range g.Nodes {
		for i, v := range n.Inputs {
			if w := to[v]; w != nil {
				n.Inputs[i] = w
			}
		}
	}
	g.Prune()
}

// constantKey is equal for small constants of the same contents; "" is none.
func (v *Value) constantKey() string {
	switch {
	case v.Kind != Const || v.Data == nil && v.Ints == nil:
		return ""
	case v.Ints != nil:
		return fmt.Sprint(v.Type, v.Shape, v.Ints)
	case v.Data.Len() > smallConstant:
		return ""
	}
	b, err := v.Data.Bytes()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s%s%q", v.Type, v.Shape, b)
}

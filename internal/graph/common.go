package graph

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"
)

// common is common subexpression elimination within a phase: nodes with the same operator,
// attributes and inputs give the same bits. Equal constants are merged first. Random nodes
// differ by name; nodes that overwrite an input or must not run twice are not merged.
func common(g *Graph, o CleanOptions) map[string]int {
	mergeConstants(g)
	e := newEdit(o.Context, g)
	seed, seen := maphash.MakeSeed(), make(map[uint64]*Node, len(g.Nodes)) // by hash of the key
	var key, other []byte
	e.each(func(n *Node) []*Value {
		if n.Op.Random || n.Op.Recompute == Never || n.Op.Overwrites != nil {
			return nil
		}
		key = n.appendKey(key[:0])
		for h := maphash.Bytes(seed, key); ; h++ {
			first := seen[h]
			if first == nil {
				seen[h] = n
				return nil
			}
			if other = first.appendKey(other[:0]); bytes.Equal(key, other) {
				return first.Outputs
			}
		}
	})
	return e.made
}

// appendKey appends a key that is equal for nodes that compute the same.
func (n *Node) appendKey(b []byte) []byte {
	b = append(b, n.Op.Domain...)
	b = append(b, '.')
	b = append(b, n.Op.Name...)
	b = append(b, ' ', byte('0'+n.Phase))
	for _, a := range n.Op.attrs {
		b = append(b, ' ')
		switch x := n.Attr(a.Name).(type) {
		case nil:
		case int64:
			b = strconv.AppendInt(b, x, 10)
		case float64:
			b = strconv.AppendUint(b, math.Float64bits(x), 16)
		case *Tensor:
			b = fmt.Appendf(b, "%d%v%q", x.Type, x.Shape, x.Bytes)
		default:
			b = fmt.Appendf(b, "%#v", x)
		}
	}
	b = append(b, '(')
	for _, v := range n.Inputs {
		if v != nil {
			b = strconv.AppendInt(b, int64(v.ID), 10)
		}
		b = append(b, ' ')
	}
	b = append(b, ')')
	for _, v := range n.Outputs {
		b = strconv.AppendBool(b, v != nil)
	}
	return b
}

// smallConstant limits the bytes of constants that are compared.
const smallConstant = 1 << 10

// mergeConstants redirects readers of equal constants to the first of them.
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

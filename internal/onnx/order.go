package onnx

import "strings"

// sorted sorts nodes topologically, keeping their order where possible. ONNX requires sorted
// files; this is for files that are not. Inputs that no node of the list makes are ignored
// here; the caller looks them up.
func (r *reader) sorted(nodes [][]byte) [][]byte {
	type links struct{ in, out []string }
	all := make([]links, len(nodes))
	maker := map[string]int{}
	for i, b := range nodes {
		r.links(b, 0, func(name string) { all[i].in = append(all[i].in, name) },
			func(name string) { all[i].out = append(all[i].out, name) })
		for _, name := range all[i].out {
			if _, dup := maker[name]; !dup {
				maker[name] = i
			}
		}
	}
	const (
		fresh = iota
		open
		done
	)
	state := make([]uint8, len(nodes))
	out := make([][]byte, 0, len(nodes))
	type visit struct{ node, next int }
	var stack []visit
	for root := range nodes {
		if state[root] != fresh {
			continue
		}
		state[root] = open
		stack = append(stack[:0], visit{node: root})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(all[top.node].in) {
				state[top.node] = done
				out = append(out, nodes[top.node])
				stack = stack[:len(stack)-1]
				continue
			}
			from, ok := maker[all[top.node].in[top.next]]
			top.next++
			switch {
			case !ok || state[from] == done:
			case state[from] == open:
				var n node
				var names []string
				for i, v := range stack {
					if len(names) > 0 || v.node == from {
						r.node(nodes[stack[i].node], &n)
						names = append(names, quote(n.name))
					}
				}
				if len(names) > 8 {
					names = append(names[:8], "…")
				}
				r.node(nodes[from], &n)
				fail("node %s (%s): is part of a cycle: %s → %s", quote(n.name), n.fullOp(), strings.Join(names, " → "), names[0])
			default:
				state[from] = open
				stack = append(stack, visit{node: from})
			}
		}
	}
	return out
}

// links lists the names that a node, including its subgraphs, reads, and those that it makes.
func (r *reader) links(b []byte, depth int, in, out func(string)) {
	if depth > maxDepth {
		fail("graphs are nested more than %d deep", maxDepth)
	}
	for m := r.message("a node", b); m.next(); {
		switch m.num {
		case nodeInput:
			in(m.view())
		case nodeOutput:
			if name := m.view(); name != "" {
				out(name)
			}
		case nodeAttr:
			for a := m.sub("an attribute"); a.next(); {
				if a.num != attrG {
					continue
				}
				for g := a.sub("a graph"); g.next(); {
					if g.num == graphNode {
						r.links(g.bytes(), depth+1, in, func(string) {})
					}
				}
			}
		}
	}
}

package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Canonical names the structure of a member: its operators with what tells them
// apart, how they are joined, and which outputs are kept. The name is the
// operators, sorted, and a sum of the rest; it does not depend on the order in
// which independent branches run, nor on names.
func (a *Analysis) Canonical(m Member) string {
	var names []string
	for _, o := range a.Options(m) {
		names = append(names, a.canonicalOption(o))
	}
	return strings.Join(names, ",")
}

func (a *Analysis) canonicalOption(o *Option) string {
	if name, ok := a.canonical[o]; ok {
		return name
	}
	w := &walk{a: a, number: map[int]int{}, given: map[string]int{}, inside: map[int]bool{}}
	var ops []string
	for _, i := range o.Nodes {
		w.inside[i] = true
		ops = append(ops, a.Outline.Nodes[i].Op)
	}
	for _, s := range o.Outputs {
		fmt.Fprintf(&w.text, "keep %d\n", s.Index)
	}
	// The entry comes first: all else is behind its inputs.
	w.node(a.entryOf(o))
	fmt.Fprintf(&w.text, "type %d\n", o.Type)
	slices.Sort(ops)
	sum := sha256.Sum256([]byte(w.text.String()))
	name := strings.Join(ops, "+") + "+@" + hex.EncodeToString(sum[:4])
	a.canonical[o] = name
	return name
}

// entryOf is the node that an option is for.
func (a *Analysis) entryOf(o *Option) int {
	for _, i := range slices.Backward(o.Nodes) {
		if len(o.Outputs) > 0 && slices.Contains(a.Outline.Nodes[i].Outputs, o.Outputs[0].Name) {
			return i
		}
	}
	return o.Nodes[len(o.Nodes)-1]
}

// walk writes nodes down in the order in which their inputs lead to them.
type walk struct {
	a      *Analysis
	inside map[int]bool
	number map[int]int    // by node, as they were met
	given  map[string]int // by value from outside, as they were met
	text   strings.Builder
}

func (w *walk) node(i int) {
	w.number[i] = len(w.number)
	n := &w.a.Outline.Nodes[i]
	fmt.Fprintf(&w.text, "%d = %s", w.number[i], fullName(n))
	var attrs []string
	for _, attr := range n.Attrs {
		if attr.Name != "seed" && !strings.HasPrefix(attr.Name, "__") {
			attrs = append(attrs, fmt.Sprintf(" %s=%v", attr.Name, attr.Value))
		}
	}
	slices.Sort(attrs)
	w.text.WriteString(strings.Join(attrs, "") + "\n")
	made := map[string]edge{}
	for _, e := range w.a.wiring.into[i] {
		made[n.Inputs[e.in]] = e
	}
	for k, name := range n.Inputs {
		e, is := made[name]
		switch {
		case name == "":
			fmt.Fprintf(&w.text, "%d.%d none\n", w.number[i], k)
		case !is || !w.inside[e.from]:
			if _, met := w.given[name]; !met {
				w.given[name] = len(w.given)
			}
			fmt.Fprintf(&w.text, "%d.%d given %d\n", w.number[i], k, w.given[name])
		default:
			if _, met := w.number[e.from]; !met {
				w.node(e.from)
			}
			fmt.Fprintf(&w.text, "%d.%d from %d.%d\n", w.number[i], k, w.number[e.from], e.out)
		}
	}
}

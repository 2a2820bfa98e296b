package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Canonical names the structure of a member: operators and attributes, how they are joined, and
// which outputs are stashed. The name is the sorted operators and a hash of the structure; it
// depends neither on the order in which independent branches run, nor on names of nodes.
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
	if a.walk == nil {
		a.walk = &walk{a: a, number: map[int]int{}, given: map[string]int{}, inside: map[int]bool{}, names: map[string]string{}}
	}
	w := a.walk
	clear(w.number)
	clear(w.given)
	clear(w.inside)
	w.text = w.text[:0]
	for _, i := range o.Nodes {
		w.inside[i] = true
	}
	for _, s := range o.Outputs {
		w.say("keep ", s.Index, "\n")
	}
	// Begin at the entry: all other nodes are reached through its inputs.
	w.node(a.entryOf(o))
	w.say("type ", o.Type, "\n")
	name, met := w.names[string(w.text)]
	if !met {
		var ops []string
		for _, i := range o.Nodes {
			ops = append(ops, a.Outline.Nodes[i].Op)
		}
		slices.Sort(ops)
		sum := sha256.Sum256(w.text)
		name = strings.Join(ops, "+") + "+@" + hex.EncodeToString(sum[:4])
		w.names[string(w.text)] = name
	}
	a.canonical[o] = name
	return name
}

// entryOf is the entry of an option.
func (a *Analysis) entryOf(o *Option) int {
	for _, i := range slices.Backward(o.Nodes) {
		if len(o.Outputs) > 0 && slices.Contains(a.Outline.Nodes[i].Outputs, o.Outputs[0].Name) {
			return i
		}
	}
	return o.Nodes[len(o.Nodes)-1]
}

// walk writes nodes as text, depth first from their readers.
type walk struct {
	a      *Analysis
	inside map[int]bool
	number map[int]int    // by node, in the order of the walk
	given  map[string]int // by value from outside, in the order of the walk
	text   []byte
	names  map[string]string // by text
}

// say appends to the text.
func (w *walk) say(parts ...any) {
	for _, part := range parts {
		switch x := part.(type) {
		case string:
			w.text = append(w.text, x...)
		case int:
			w.text = strconv.AppendInt(w.text, int64(x), 10)
		default:
			w.text = fmt.Append(w.text, x)
		}
	}
}

func (w *walk) node(i int) {
	w.number[i] = len(w.number)
	n := &w.a.Outline.Nodes[i]
	w.say(w.number[i], " = ", fullName(n))
	var attrs []string
	for _, attr := range n.Attrs {
		if attr.Name != "seed" && !strings.HasPrefix(attr.Name, "__") {
			attrs = append(attrs, fmt.Sprintf(" %s=%v", attr.Name, attr.Value))
		}
	}
	slices.Sort(attrs)
	for _, attr := range attrs {
		w.say(attr)
	}
	w.say("\n")
	for k, name := range n.Inputs {
		from, is := w.a.wiring.source(i, k)
		switch {
		case name == "":
			w.say(w.number[i], ".", k, " none\n")
		case !is || !w.inside[from.node]:
			if _, met := w.given[name]; !met {
				w.given[name] = len(w.given)
			}
			w.say(w.number[i], ".", k, " given ", w.given[name], "\n")
		default:
			if _, met := w.number[from.node]; !met {
				w.node(from.node)
			}
			w.say(w.number[i], ".", k, " from ", w.number[from.node], ".", from.out, "\n")
		}
	}
}

package onnx

import (
	"errors"
	"fmt"
	"strings"

	"memopt/memopt/graph"
)

// UnsupportedError lists everything in a file that is sound but cannot be read.
type UnsupportedError struct {
	File  string
	Items []Unsupported
	More  int // items left out of a list that is too long to be of use
}

// Unsupported is one thing that cannot be read, with the nodes it concerns.
type Unsupported struct {
	Op    string   // the operator, domain in front; "" for inputs and initializers
	Nodes []string // the first few nodes
	Count int      // all nodes it concerns
	Msg   string
	// Foreign: graphs have no such thing, whatever the operator is. Else it is
	// what an operator of the library says of its inputs and attributes.
	Foreign bool
}

const (
	maxItems = 200
	maxNodes = 5
)

func (u Unsupported) String() string {
	switch {
	case u.Count == 0:
		return u.Msg
	case u.Count == 1:
		return fmt.Sprintf("node %s (%s): %s", quote(u.Nodes[0]), u.Op, u.Msg)
	}
	names := make([]string, len(u.Nodes))
	for i, n := range u.Nodes {
		names[i] = quote(n)
	}
	more := ""
	if u.Count > len(u.Nodes) {
		more = ", …"
	}
	return fmt.Sprintf("%d nodes (%s): %s: %s%s", u.Count, u.Op, u.Msg, strings.Join(names, ", "), more)
}

// Kind is KindUnsupported if inputs, outputs or initializers are not read, KindGraph if it is about nodes alone.
func (e *UnsupportedError) Kind() string {
	for _, u := range e.Items {
		if u.Foreign && u.Op == "" {
			return KindUnsupported
		}
	}
	return KindGraph
}

// Error is the lines together.
func (e *UnsupportedError) Error() string { return strings.Join(e.Lines(), "\n") }

// Lines is one line for one item, else a summary and a line for each.
func (e *UnsupportedError) Lines() []string {
	if len(e.Items) == 1 && e.More == 0 {
		return []string{fmt.Sprintf("%s: %s", e.File, e.Items[0])}
	}
	lines := []string{fmt.Sprintf("%s: %d things are not supported:", e.File, len(e.Items)+e.More)}
	for _, u := range e.Items {
		lines = append(lines, "  "+u.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", e.More))
	}
	return lines
}

// complaints collects what becomes the UnsupportedError. What is said of
// several nodes in the same words is one item.
type complaints struct {
	items []Unsupported
	at    map[complaint]int
	more  int
}

type complaint struct{ op, msg string }

// node notes that a node cannot be read.
func (c *complaints) node(name, op, format string, args ...any) {
	k := complaint{op, fmt.Sprintf(format, args...)}
	if i, ok := c.at[k]; ok {
		u := &c.items[i]
		if u.Count++; len(u.Nodes) < maxNodes {
			u.Nodes = append(u.Nodes, name)
		}
		return
	}
	if c.add(Unsupported{Op: op, Nodes: []string{name}, Count: 1, Msg: k.msg}) {
		c.at[k] = len(c.items) - 1
	}
}

// foreign notes that a node holds what graphs do not have.
func (c *complaints) foreign(name, op, format string, args ...any) {
	c.node(name, op, format, args...)
	if i, ok := c.at[complaint{op, fmt.Sprintf(format, args...)}]; ok {
		c.items[i].Foreign = true
	}
}

// nodeError notes what an operator says of a node.
func (c *complaints) nodeError(name, op string, err error) {
	var ne *graph.NodeError
	if errors.As(err, &ne) {
		c.node(name, op, "%s", ne.Msg)
		return
	}
	c.node(name, op, "%v", err)
}

// file notes something that belongs to no node.
func (c *complaints) file(format string, args ...any) {
	c.add(Unsupported{Msg: fmt.Sprintf(format, args...), Foreign: true})
}

// open notes something that would be settled by more knowledge of the inputs.
func (c *complaints) open(format string, args ...any) {
	c.add(Unsupported{Msg: fmt.Sprintf(format, args...)})
}

func (c *complaints) add(u Unsupported) bool {
	if len(c.items) == maxItems {
		c.more++
		return false
	}
	c.items = append(c.items, u)
	return true
}

func (c *complaints) err(file string) error {
	if len(c.items) == 0 {
		return nil
	}
	return &UnsupportedError{File: file, Items: c.items, More: c.more}
}

// OpsetError says that a file is for an opset that is not read.
type OpsetError struct {
	What   string // the model, or a function
	Opset  int
	Oldest int
	Newest int
}

func (e *OpsetError) Error() string {
	return fmt.Sprintf("%s is for opset %d; %d to %d are read (convert it with onnx.version_converter, or export it again)",
		e.What, e.Opset, e.Oldest, e.Newest)
}

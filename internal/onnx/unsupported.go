package onnx

import (
	"errors"
	"fmt"
	"strings"

	"memopt/internal/graph"
)

// UnsupportedError lists everything in a valid file that is not supported.
type UnsupportedError struct {
	File  string
	Items []Unsupported
	More  int // number of items omitted from a long list
}

// Unsupported is one thing that is not supported, with the nodes it concerns.
type Unsupported struct {
	Op    string   // the operator with its domain; "" for inputs and initializers
	Nodes []string // the first few nodes
	Count int      // number of all nodes it concerns
	Msg   string
	// Foreign: graphs cannot express it. Otherwise it is an error that an operator of the
	// library reports about its inputs or attributes.
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

// Kind is KindUnsupported if an input, output or initializer is not supported, KindGraph if only nodes are not.
func (e *UnsupportedError) Kind() string {
	for _, u := range e.Items {
		if u.Foreign && u.Op == "" {
			return KindUnsupported
		}
	}
	return KindGraph
}

// Error joins the lines.
func (e *UnsupportedError) Error() string { return strings.Join(e.Lines(), "\n") }

// Lines is one line for a single item, else a summary and a line for each.
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

// complaints collects the items of an UnsupportedError, merging equal messages about several nodes.
type complaints struct {
	items []Unsupported
	at    map[complaint]int
	more  int
}

type complaint struct{ op, msg string }

// node records that a node is not supported.
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

// foreign records that a node has something that graphs cannot express.
func (c *complaints) foreign(name, op, format string, args ...any) {
	c.node(name, op, format, args...)
	if i, ok := c.at[complaint{op, fmt.Sprintf(format, args...)}]; ok {
		c.items[i].Foreign = true
	}
}

// nodeError records an operator's error about a node.
func (c *complaints) nodeError(name, op string, err error) {
	var ne *graph.NodeError
	if errors.As(err, &ne) {
		c.node(name, op, "%s", ne.Msg)
		return
	}
	c.node(name, op, "%v", err)
}

// file records something unsupported that is not about a node.
func (c *complaints) file(format string, args ...any) {
	c.add(Unsupported{Msg: fmt.Sprintf(format, args...), Foreign: true})
}

// open records something that is unsupported only because too little is known of the inputs.
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

// OpsetError says that a file's opset is not supported.
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

package onnx

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// WriteEdited writes the model at from to path with its nodes as in an edited outline of
// it, in the given order. The outline's first nodes are those of the file; the rest are
// copies of them. Nodes are changed where inputs, outputs or names differ or attributes
// were added; the rest of the file is copied byte for byte. Outputs of copies get a
// value_info with the type and shape of the original's.
//
// The opset may also change: checkers refuse operators of a runtime that ONNX has adopted
// in a later opset, so the file gets that opset if all nodes mean the same in it. strange
// lists the operators that a checker still refuses.
//
// The file is written atomically, by rename. External weights stay where they are, so such
// a model can only be written to its own folder.
func WriteEdited(path, from string, o *graph.Outline, order []int, opts ...Option) (strange []string, err error) {
	f, err := openModel(from)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &editor{ctx: optionsOf(opts).ctx, r: newReader(f.Bytes(), from, from, nil, nil), o: o, infos: map[string][]byte{}}
	s, err := e.model(order)
	if changed := f.Unchanged(); changed != nil {
		return nil, changed
	}
	if err != nil {
		return nil, err
	}
	if s.size > maxMessage {
		return nil, fmt.Errorf("%s: the rewritten model has %d bytes, but the limit is %d", path, s.size, maxMessage)
	}
	if e.external != "" && !sameFolder(path, from) {
		return nil, fmt.Errorf("%s: weights of %s are in the external file %s beside it; write to that folder", path, from, quote(e.external))
	}
	return e.strange, replace(optionsOf(opts).ctx, path, func(w io.Writer) error {
		if err := s.writeTo(w); err != nil {
			return err
		}
		return f.Unchanged()
	})
}

func sameFolder(a, b string) bool { return sameFile(filepath.Dir(a), filepath.Dir(b)) }

// editor rewrites one file.
type editor struct {
	ctx      context.Context // polled at each node
	r        *reader
	o        *graph.Outline
	nodes    [][]byte
	infos    map[string][]byte // value_info by name
	external string            // an external file with weights
	strange  []string          // operators that checkers refuse
}

// raw is the current field with its tag; before is m.rest from before it was read.
func (m *message) raw(before []byte) []byte { return before[:len(before)-len(m.rest)] }

func (e *editor) model(order []int) (s *stream, err error) {
	defer func() {
		if wrong := caught(recover(), e.r.file); wrong != nil {
			s, err = nil, wrong
		}
	}()
	e.r.readModel()
	e.look(e.r.model.graph)
	var opset int
	opset, e.strange = e.r.raised(e.nodes, e.o.Values)
	s = &stream{}
	m := e.r.message("the model", e.r.src)
	for before := m.rest; m.next(); before = m.rest {
		switch {
		case m.num == modelGraph:
			s.append(field(modelGraph, e.graph(m.bytes(), order)))
		case m.num == modelOpset && opset != e.r.model.opsets[""]:
			s.add(part{bytes: appendBytes(nil, modelOpset, e.opset(m, opset))})
		default:
			s.add(part{bytes: m.raw(before)})
		}
	}
	return s, nil
}

// opset is an OperatorSetIdProto, with the version replaced if it is of ONNX's domain.
func (e *editor) opset(m *message, version int) []byte {
	imported := map[string]int{}
	e.r.opset(m, imported)
	if imported[""] == 0 {
		return m.bytes()
	}
	var b []byte
	o := m.sub("an opset import")
	for before := o.rest; o.next(); before = o.rest {
		if o.num != opsetVersion {
			b = append(b, o.raw(before)...)
		}
	}
	return appendInt(b, opsetVersion, int64(version))
}

// graph is the main graph with all nodes at the position of the first.
func (e *editor) graph(b []byte, order []int) *stream {
	s := &stream{}
	placed := false
	m := e.r.message("the graph", b)
	for before := m.rest; m.next(); before = m.rest {
		switch {
		case m.num != graphNode:
			s.add(part{bytes: m.raw(before)})
		case !placed:
			placed = true
			behind := false // the forward pass
			for _, i := range order {
				stop.Poll(e.ctx)
				b := e.node(i, behind)
				behind = behind || e.backward(b)
				s.add(part{bytes: appendBytes(nil, graphNode, b)})
			}
		}
	}
	for _, n := range e.o.Nodes[len(e.nodes):] {
		for k, name := range n.Outputs {
			if info := e.infos[e.o.Nodes[n.Of].Outputs[k]]; info != nil && name != "" {
				s.add(part{bytes: appendBytes(nil, graphInfo, e.renamed(info, name))})
			}
		}
	}
	return s
}

// look collects nodes, value_infos and external files.
func (e *editor) look(b []byte) {
	for m := e.r.message("the graph", b); m.next(); {
		switch m.num {
		case graphNode:
			e.nodes = append(e.nodes, m.bytes())
		case graphInfo, graphOutput:
			for v := e.r.message("a value", m.bytes()); v.next(); {
				if v.num == valueName {
					e.infos[v.text()] = m.bytes()
				}
			}
		case graphInit:
			for t := e.r.message("an initializer", m.bytes()); t.next(); {
				if t.num == tensorExternal {
					if key, value := t.entry(); key == "location" {
						e.external = value
					}
				}
			}
		}
	}
	if len(e.o.Nodes) < len(e.nodes) {
		fail("has %d nodes, but the outline has %d", len(e.nodes), len(e.o.Nodes))
	}
}

// renamed is a ValueInfoProto with another name.
func (e *editor) renamed(info []byte, name string) []byte {
	b := appendText(nil, valueName, name)
	m := e.r.message("a value", info)
	for before := m.rest; m.next(); before = m.rest {
		if m.num != valueName {
			b = append(b, m.raw(before)...)
		}
	}
	return b
}

// backward reports whether memopt's metadata says that a node is in the backward pass.
func (e *editor) backward(b []byte) bool {
	if _, ours := e.r.model.metadata[metaLoss]; !ours {
		return false
	}
	n := &node{}
	e.r.node(b, n)
	return n.phase != graph.Forward
}

// node is node i of the outline as a NodeProto. In files written by memopt, copies after the
// forward pass get metadata that says so.
func (e *editor) node(i int, behind bool) []byte {
	n := e.o.Nodes[i]
	at := i
	if i >= len(e.nodes) {
		at = n.Of
	}
	var b []byte
	for _, name := range n.Inputs {
		b = appendText(b, nodeInput, name)
	}
	for _, name := range n.Outputs {
		b = appendText(b, nodeOutput, name)
	}
	b = appendText(b, nodeName, n.Name)
	var attrs []string
	m := e.r.message("a node", e.nodes[at])
	for before := m.rest; m.next(); before = m.rest {
		switch m.num {
		case nodeInput, nodeOutput, nodeName:
			continue
		case nodeDoc:
			if at != i {
				continue
			}
		case nodeAttr:
			for a := m.sub("an attribute"); a.next(); {
				if a.num == attrName {
					attrs = append(attrs, a.text())
				}
			}
		}
		b = append(b, m.raw(before)...)
	}
	for _, a := range n.Attrs {
		if !slices.Contains(attrs, a.Name) {
			b = appendBytes(b, nodeAttr, appendAttr(nil, a))
		}
	}
	if at != i {
		b = appendText(b, nodeDoc, "Recompute of "+e.o.Nodes[at].Name)
		if behind {
			b = appendEntry(b, nodeMetadata, metaPhase, graph.Backward.String())
		}
	}
	return b
}

package quantize

import (
	"fmt"
	"slices"

	"memopt/memopt/graph"
	"memopt/memopt/onnx"
)

// Report is what quantizing a file did.
type Report struct {
	Weights     string    `json:"weight_type"`
	PerChannel  bool      `json:"per_channel"`
	ReduceRange bool      `json:"reduce_range"`
	Before      int64     `json:"bytes_before"` // of all initializers
	After       int64     `json:"bytes_after"`
	WorstError  float64   `json:"worst_error"`
	Tensors     []*Tensor `json:"tensors"`
	Skipped     []Skipped `json:"skipped"`
	Nodes       []Node    `json:"nodes"`
	Foreign     []string  `json:"-"` // operators of ONNX Runtime's own that the model has now
	Foldable    int       `json:"-"` // products whose weight is behind a Transpose

	byName  map[string]*Tensor
	reasons map[*onnx.DraftNode]skip
	readers map[string][]reader
	floats  []*onnx.DraftTensor
	folded  map[string]string // names that transposes of weights got
}

// Tensor is a weight that was rounded.
type Tensor struct {
	Name       string  `json:"name"`
	Shape      []int64 `json:"shape"`
	Type       string  `json:"type"`
	Scales     int64   `json:"scales"`
	Before     int64   `json:"bytes_before"`
	After      int64   `json:"bytes_after"`
	WorstError float64 `json:"worst_error"`    // farthest that a number was moved
	Kept       bool    `json:"kept,omitempty"` // as floats too, for a node that is not quantized
}

// Skipped is a float initializer that was left alone.
type Skipped struct {
	Name   string  `json:"name"`
	Shape  []int64 `json:"shape"`
	Type   string  `json:"type"`
	Bytes  int64   `json:"bytes"`
	Reason string  `json:"reason"`
}

// Node is a node of an operator that has a quantized form.
type Node struct {
	Name      string `json:"name"`
	Op        string `json:"op"`
	Quantized bool   `json:"quantized"`
	Value     string `json:"value,omitempty"` // that the reason is about
	Reason    string `json:"reason,omitempty"`
}

type reader struct {
	node     *onnx.DraftNode
	op, name string
}

// before notes the initializers and who reads them, while nodes are still what they were.
func (r *Report) before(g *onnx.DraftGraph) {
	for _, t := range g.Tensors {
		r.Before += bytesOf(t)
		if t.Type.IsFloat() {
			r.floats = append(r.floats, t)
		}
	}
	eachInner(g, r.before)
}

func (r *Report) read(g *onnx.DraftGraph) {
	for _, n := range g.Nodes {
		for _, in := range n.Inputs {
			r.readers[in] = append(r.readers[in], reader{n, n.Op, nameOf(n)})
		}
	}
	eachInner(g, r.read)
}

func eachInner(g *onnx.DraftGraph, f func(*onnx.DraftGraph)) {
	for _, n := range g.Nodes {
		_, graphs := n.Graphs()
		for _, inner := range graphs {
			f(inner)
		}
	}
}

func bytesOf(t *onnx.DraftTensor) int64 {
	if t.Type == graph.Invalid {
		return 0
	}
	return t.Len()
}

// node notes what became of a node; no reason is that it was quantized.
func (r *Report) node(where string, n *onnx.DraftNode, op, name string, reason skip) {
	r.reasons[n] = reason
	r.Nodes = append(r.Nodes, Node{Name: where + name, Op: op, Quantized: reason == skip{}, Value: reason.value, Reason: reason.why})
}

// word is a type as options call it.
func word(t graph.DType) string {
	if t == graph.Uint8 {
		return "uint8"
	}
	return "int8"
}

// tensor begins the row of a weight.
func (r *Report) tensor(where string, t *onnx.DraftTensor, p *scheme) *Tensor {
	row := &Tensor{Name: where + t.Name, Shape: t.Shape, Type: word(p.typ), Scales: p.channels,
		Before: t.Len(), After: t.Len()/4 + p.channels*5}
	r.Tensors = append(r.Tensors, row)
	r.byName[t.Name] = row
	return row
}

// finish notes what is left, and why.
func (r *Report) finish(top *onnx.DraftGraph) {
	there := map[string]bool{}
	var count func(g *onnx.DraftGraph)
	count = func(g *onnx.DraftGraph) {
		for _, t := range g.Tensors {
			r.After += bytesOf(t)
			there[t.Name] = true
		}
		eachInner(g, count)
	}
	count(top)
	for _, t := range r.floats {
		if row := r.byName[t.Name]; row != nil {
			row.Kept = there[t.Name]
			continue
		}
		if r.byName[t.Name+"_Transposed"] == nil && r.byName[r.folded[t.Name]] == nil {
			r.Skipped = append(r.Skipped, Skipped{t.Name, t.Shape, t.Type.String(), bytesOf(t), r.reason(t.Name)})
		}
	}
}

// reason is why an initializer was left alone: what its first reader of an operator that can be quantized says, else who
// reads it.
func (r *Report) reason(name string) string {
	readers := r.readers[name]
	if len(readers) == 0 {
		return "nothing reads it"
	}
	i := slices.IndexFunc(readers, func(at reader) bool { return r.reasons[at.node] != skip{} })
	if i < 0 {
		return readers[0].op + " has no quantized form of it"
	}
	at := r.reasons[readers[i].node]
	if at.value == name {
		return fmt.Sprintf("%s: it %s", readers[i].op, at.why)
	}
	return fmt.Sprintf("%s: %s", readers[i].op, at.why)
}

// measure fills in what is only known once the file is written.
func (r *Report) measure() {
	for _, t := range r.Tensors {
		r.WorstError = max(r.WorstError, t.WorstError)
	}
}

// Names are the nodes that could be quantized, as the file has them.
func (r *Report) Names() (names []string) {
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// Has is whether one of them is named so, in the file or since a Gemm was taken apart.
func (r *Report) Has(name string) bool {
	return slices.ContainsFunc(r.Nodes, func(n Node) bool { return n.Name == name || n.Name == name+"_MatMul" })
}

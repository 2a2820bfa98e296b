package quantize

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// Report says what was quantized.
type Report struct {
	Weights     string    `json:"weight_type"`
	QuantFormat string    `json:"quant_format,omitempty"` // of static quantization: QDQ or QOperator
	Activations string    `json:"activation_type,omitempty"`
	PerChannel  bool      `json:"per_channel"`
	ReduceRange bool      `json:"reduce_range"`
	Before      int64     `json:"bytes_before"` // of all initializers
	After       int64     `json:"bytes_after"`
	WorstError  float64   `json:"worst_error"`
	Tensors     []*Tensor `json:"tensors"`
	Skipped     []Skipped `json:"skipped"`
	Nodes       []Node    `json:"nodes"`
	Foreign     []string  `json:"-"` // ONNX Runtime's own operators in the new model
	Foldable    int       `json:"-"` // products of a transposed weight

	byName  map[string]*Tensor
	reasons map[*onnx.DraftNode]skip
	readers map[string][]reader
	floats  []*onnx.DraftTensor
	folded  map[string]string // by weight: the name of its folded transpose
}

// Tensor is a quantized weight.
type Tensor struct {
	Name       string  `json:"name"`
	Shape      []int64 `json:"shape"`
	Type       string  `json:"type"`
	Scales     int64   `json:"scales"`
	Before     int64   `json:"bytes_before"`
	After      int64   `json:"bytes_after"`
	WorstError float64 `json:"worst_error"`    // largest change of an element
	Kept       bool    `json:"kept,omitempty"` // also as floats, for a node that is not quantized
}

// Skipped is a float initializer that is not quantized.
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
	Value     string `json:"value,omitempty"` // the value that the reason is about
	Reason    string `json:"reason,omitempty"`
}

type reader struct {
	node     *onnx.DraftNode
	op, name string
}

// before notes the initializers before nodes are replaced.
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

// node adds a node; an empty reason means that it is quantized.
func (r *Report) node(where string, n *onnx.DraftNode, op, name string, reason skip) {
	r.reasons[n] = reason
	r.Nodes = append(r.Nodes, Node{Name: where + name, Op: op, Quantized: reason == skip{}, Value: reason.value, Reason: reason.why})
}

// word is the name of a type in options.
func word(t graph.DType) string {
	return map[graph.DType]string{graph.Int8: "int8", graph.Uint8: "uint8", graph.Int16: "int16", graph.Uint16: "uint16", graph.Int32: "int32"}[t]
}

// static notes the options of static quantization.
func (r *Report) static(o *Options) {
	r.QuantFormat, r.Activations = "QDQ", word(o.activations())
	if o.Static.Operators {
		r.QuantFormat = "QOperator"
	}
}

// tensor adds the row of a quantized weight.
func (r *Report) tensor(where string, t *onnx.DraftTensor, p *scheme) *Tensor {
	row := &Tensor{Name: where + t.Name, Shape: t.Shape, Type: word(p.typ), Scales: p.channels,
		Before: t.Len(), After: t.Len()/4*p.typ.Size() + p.channels*(4+p.typ.Size())}
	r.Tensors = append(r.Tensors, row)
	r.byName[t.Name] = row
	return row
}

// worst32 notes the largest change of a bias that is rounded to 32 bits, times its factor.
func (t *Tensor) worst32(bias []float32, factor float64, scales []float32, integers []byte) {
	for i, v := range bias {
		q := float64(int32(binary.LittleEndian.Uint32(integers[4*i:])))
		t.WorstError = max(t.WorstError, math.Abs(float64(v)*factor-q*float64(scales[i%len(scales)])))
	}
}

// finish adds the tensors that are not quantized, and why.
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

// reason is why an initializer is not quantized: the reason of its first reader of an operator that
// can be quantized, else the operator that reads it.
func (r *Report) reason(name string) string {
	readers := r.readers[name]
	if len(readers) == 0 {
		return "nothing reads it"
	}
	i := slices.IndexFunc(readers, func(at reader) bool { return r.reasons[at.node] != skip{} })
	if i < 0 {
		return readers[0].op + " has no quantized form"
	}
	at := r.reasons[readers[i].node]
	if at.value == name {
		return fmt.Sprintf("%s: it %s", readers[i].op, at.why)
	}
	return fmt.Sprintf("%s: %s", readers[i].op, at.why)
}

// measure fills in figures that are known after the file is written.
func (r *Report) measure() {
	for _, t := range r.Tensors {
		r.WorstError = max(r.WorstError, t.WorstError)
	}
}

// Names lists the nodes that could be quantized, as named in the file.
func (r *Report) Names() (names []string) {
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// Has reports whether one of them has this name, in the file or after its Gemm was replaced.
func (r *Report) Has(name string) bool {
	return slices.ContainsFunc(r.Nodes, func(n Node) bool { return n.Name == name || n.Name == name+"_MatMul" })
}

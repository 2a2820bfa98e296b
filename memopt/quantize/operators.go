package quantize

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// operator is how nodes of an operator are quantized. quantize adds the nodes that replace one, or
// returns a skip and adds nothing.
type operator struct {
	domain   string
	quantize func(s *scope, n *onnx.DraftNode) error
}

// operators is ONNX Runtime's table of dynamic quantization (its registry of integer operators), and
// linear that of static quantization in the QOperator format: fixed lists of names in files. Added
// nodes, integer products, scales and casts, have the names that ONNX Runtime gives them.
var operators, linear map[string]operator

func init() {
	operators = map[string]operator{
		"MatMul":                  {"", matMul},
		"Conv":                    {"", conv},
		"Gather":                  {"", gather},
		"Transpose":               {"", direct},
		"LSTM":                    {"", lstm},
		"Attention":               {microsoft, attention},
		"EmbedLayerNormalization": {microsoft, embedding},
	}
	linear = map[string]operator{
		"ArgMax":                  {"", argMax},
		"Conv":                    {"", linearConv},
		"Gemm":                    {"", linearGemm},
		"MatMul":                  {"", linearMatMul},
		"Add":                     {"", linearPair},
		"Mul":                     {"", linearPair},
		"Relu":                    {"", linearClip},
		"Clip":                    {"", linearClip},
		"LeakyRelu":               {"", linearOne},
		"Sigmoid":                 {"", linearOne},
		"Softmax":                 {"", linearOne},
		"AveragePool":             {"", linearOne},
		"GlobalAveragePool":       {"", linearMean},
		"MaxPool":                 {"", direct},
		"Split":                   {"", linearSplit},
		"Pad":                     {"", linearPad},
		"Reshape":                 {"", direct},
		"Squeeze":                 {"", direct},
		"Unsqueeze":               {"", direct},
		"Flatten":                 {"", direct},
		"Resize":                  {"", direct},
		"Transpose":               {"", direct},
		"Concat":                  {"", linearConcat},
		"Where":                   {"", linearWhere},
		"Gather":                  {"", gather},
		"EmbedLayerNormalization": {microsoft, embedding},
	}
}

// Operators lists the operators that can be quantized so; a Gemm that is quantized dynamically is
// quantized as the product that replaces it.
func Operators(o Options) []string {
	names := map[string]bool{"Gemm": true}
	switch {
	case o.Static == nil:
		addKeys(names, operators)
	default: // the ranges of both formats are found alike
		addKeys(names, linear)
		addKeys(names, marks)
	}
	return slices.Sorted(maps.Keys(names))
}

func addKeys[V any](names map[string]bool, table map[string]V) {
	for name := range table {
		names[name] = true
	}
}

// factors quantizes both factors of a node.
func (s *scope) factors(n *onnx.DraftNode, perAxis bool) (a, b quantized, err error) {
	if len(n.Inputs) < 2 {
		return a, b, skip{why: "has no second input"}
	}
	// Quantize the weight first: if that fails, nothing is added. Upstream puts the activation's
	// nodes in front.
	before := len(s.nodes)
	if b, err = s.weight(n.Inputs[1], s.o.weights(), -1, perAxis && s.o.PerChannel, true); err != nil {
		return a, b, err
	}
	of := slices.Clone(s.nodes[before:])
	s.nodes = s.nodes[:before]
	if a, err = s.input(n.Inputs[0]); err != nil {
		return a, b, err
	}
	s.nodes = append(s.nodes, of...)
	return a, b, nil
}

// scaled adds the nodes that scale a node's integer result to floats, under the name out.
func (s *scope) scaled(n *onnx.DraftNode, name, integers string, a, b quantized, out string) {
	cast := integers + "_cast_output"
	s.add(onnx.NewNode("Cast", integers+"_cast", []string{integers}, []string{cast}, graph.Attr{Name: "to", Value: int64(graph.Float32)}))
	scales := a.scale + "_" + b.scale + "_mul"
	if name != "" {
		scales = name + "_scales_mul"
	}
	if s.named[scales] == nil {
		s.add(onnx.NewNode("Mul", scales, []string{a.scale, b.scale}, []string{scales + ":0"}))
	}
	last := ""
	if name != "" {
		last = name + "_output_scale_mul"
	}
	s.add(onnx.NewNode("Mul", last, []string{cast, s.named[scales].Outputs[0]}, []string{out}))
}

func suffixed(name, suffix string) string {
	if name == "" {
		return ""
	}
	return name + suffix
}

func matMul(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) != 2 || len(n.Outputs) != 1 {
		return skip{why: "does not have two inputs and one output"}
	}
	_, t := s.initializer(n.Inputs[1])
	if t == nil && !s.o.AnyProduct {
		return skip{n.Inputs[1], "is computed, and is the second factor"}
	}
	for _, in := range n.Inputs {
		if why := s.floats(in); why != "" {
			return skip{in, why}
		}
	}
	a, b, err := s.factors(n, true)
	if err != nil {
		return err
	}
	name, integers := suffixed(n.Name, "_quant"), n.Outputs[0]+"_output_quantized"
	s.add(onnx.NewNode("MatMulInteger", name, []string{a.value, b.value, a.zero, b.zero}, []string{integers}))
	s.scaled(n, name, integers, a, b, n.Outputs[0])
	return nil
}

func conv(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) < 2 || len(n.Outputs) != 1 {
		return skip{why: "does not have two inputs and one output"}
	}
	for _, in := range n.Inputs[:2] {
		if why := s.floats(in); why != "" {
			return skip{in, why}
		}
	}
	bias := len(n.Inputs) == 3 && n.Inputs[2] != ""
	_, w := s.initializer(n.Inputs[1])
	if w == nil {
		return skip{n.Inputs[1], "is computed, and is the weight"}
	}
	a, b, err := s.factors(n, false)
	if err != nil {
		return err
	}
	out := n.Outputs[0]
	name, integers := suffixed(n.Name, "_quant"), out+"_output_quantized"
	s.add(n.Same("", "ConvInteger", name, []string{a.value, b.value, a.zero, b.zero}, []string{integers}))
	if !bias {
		s.scaled(n, name, integers, a, b, out)
		return nil
	}
	s.scaled(n, name, integers, a, b, out+"quant_scaled_output")
	shape, reshaped := out+"_bias_reshape_shape", out+"_bias_reshape_output"
	var dims []byte
	for i := range w.Shape {
		d := int64(1)
		if i == 1 {
			d = -1
		}
		dims = binary.LittleEndian.AppendUint64(dims, uint64(d))
	}
	s.g.Tensors = append(s.g.Tensors, &onnx.DraftTensor{Name: shape, Type: graph.Int64, Shape: []int64{int64(len(w.Shape))}, Data: graph.Bytes(dims)})
	s.dequantize(n.Inputs[2])
	s.add(onnx.NewNode("Reshape", "", []string{n.Inputs[2], shape}, []string{reshaped}),
		onnx.NewNode("Add", out+"_bias_add", []string{out + "quant_scaled_output", reshaped}, []string{out}))
	return nil
}

// moved adds a node that only moves 8-bit values: its result has the scale of its input.
func (s *scope) moved(n *onnx.DraftNode, q quantized) {
	out := n.Outputs[0]
	s.done[out] = quantized{value: out + "_quantized", scale: q.scale, zero: q.zero}
	n.Outputs[0] = out + "_quantized"
	s.add(n)
}

func gather(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) != 2 || len(n.Outputs) != 1 {
		return skip{why: "does not have two inputs and one output"}
	}
	if t := s.tensors[n.Inputs[0]]; t == nil {
		return skip{n.Inputs[0], "is computed, and is the table"}
	}
	if why := s.floats(n.Inputs[0]); why != "" {
		return skip{n.Inputs[0], why}
	}
	q, err := s.input(n.Inputs[0])
	if err != nil {
		return err
	}
	if q.perAxis {
		return skip{n.Inputs[0], "has a scale for each column already"}
	}
	s.dequantize(n.Inputs[1])
	n.Inputs[0] = q.value
	s.moved(n, q)
	return nil
}

// direct is a node that moves 8-bit values as it moves floats: a Transpose, a Reshape.
func direct(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) < 1 || len(n.Outputs) != 1 {
		return skip{why: "does not have an input and one output"}
	}
	if since, is := movesSince[n.Op]; is && s.d.Opsets[""] < since {
		return skip{why: fmt.Sprintf("moves no integers before opset %d", since)}
	}
	var q quantized
	if s.o.Unasked {
		if s.tensors[n.Inputs[0]] == nil {
			return skip{why: "its input is computed"}
		}
		if why := s.floats(n.Inputs[0]); why != "" {
			return skip{n.Inputs[0], why}
		}
		var err error
		if q, err = s.input(n.Inputs[0]); err != nil {
			return err
		}
	} else {
		var is bool
		if q, is = s.found(n.Inputs[0]); !is {
			return skip{why: "its input is not quantized"}
		}
	}
	if q.perAxis {
		return skip{n.Inputs[0], "has a scale for each column"}
	}
	n.Inputs[0] = q.value
	s.moved(n, q)
	return nil
}

// movesSince is the first opset whose operator takes 8-bit integers, where that is not the first of
// quantization.
var movesSince = map[string]int{"MaxPool": 12}

// found is a quantized value of this graph or of a parent.
func (s *scope) found(name string) (q quantized, is bool) {
	for at := s; at != nil && !is; at = at.parent {
		q, is = at.done[name]
	}
	return q, is
}

// lstm quantizes the weights of an LSTM, always to int8.
func lstm(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) < 3 {
		return skip{why: "has fewer than three inputs"}
	}
	if layout, ok := n.Attr("layout").(int64); ok && layout != 0 {
		return skip{why: "has layout 1 (batch first), which the quantized form lacks"}
	}
	inputs := slices.Clone(n.Inputs)
	for len(inputs) < 8 {
		inputs = append(inputs, "")
	}
	for _, name := range n.Inputs[1:3] {
		t := s.tensors[name]
		if t == nil {
			return skip{name, "is computed, and is the weight"}
		}
		if why := s.floats(name); why != "" {
			return skip{name, why}
		}
		if len(t.Shape) != 3 {
			return skip{name, "does not have three dims"}
		}
		if _, is := s.done[name]; is {
			return skip{name, "is quantized for another node"}
		}
	}
	for k, name := range n.Inputs[1:3] {
		t := s.tensors[name]
		x := transposed(t)
		p := &scheme{typ: graph.Int8, symmetric: s.o.symmetric(graph.Int8), reduced: s.o.ReduceRange, least: s.o.MinRealRange, channels: t.Shape[0]}
		if s.o.weights() != graph.Int8 {
			p.symmetric = s.o.Symmetric == nil || *s.o.Symmetric
		}
		scales := []int64{t.Shape[0]}
		gates, size := t.Shape[1], t.Shape[1]*t.Shape[2]
		p.channel = func(i int64) int64 { return i / size }
		if s.o.PerChannel {
			p.channels, scales = t.Shape[0]*gates, []int64{t.Shape[0], gates}
			p.channel = func(i int64) int64 { return i/size*gates + i%gates }
		}
		q := quantized{value: name + "_quantized", scale: name + "_scale", zero: name + "_zero_point"}
		if err := s.put(t, x, p, q, x.shape, scales); err != nil {
			return err
		}
		inputs[1+k] = q.value
		inputs = append(inputs, q.scale, q.zero)
	}
	for _, in := range append(slices.Clone(n.Inputs[:1]), n.Inputs[3:]...) {
		s.dequantize(in)
	}
	made := n.Same(microsoft, "DynamicQuantizeLSTM", suffixed(n.Name, "_quant"), inputs, n.Outputs)
	made.DropAttr("layout")
	s.foreign(made)
	return nil
}

// foreign adds a node of an operator of ONNX Runtime.
func (s *scope) foreign(n *onnx.DraftNode) {
	s.add(n)
	if !slices.Contains(s.report.Foreign, n.Op) {
		s.report.Foreign = append(s.report.Foreign, n.Op)
	}
}

func attention(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) < 3 || n.Inputs[2] == "" {
		return skip{why: "has no bias"}
	}
	if n.Attr("qkv_hidden_sizes") != nil {
		return skip{why: "has the attribute qkv_hidden_sizes"}
	}
	for _, in := range n.Inputs[:2] {
		if why := s.floats(in); why != "" {
			return skip{in, why}
		}
	}
	a, b, err := s.factors(n, true)
	if err != nil {
		return err
	}
	at := func(i int) string {
		if i < len(n.Inputs) {
			return n.Inputs[i]
		}
		return ""
	}
	for _, in := range n.Inputs[2:] {
		s.dequantize(in)
	}
	s.foreign(n.Same(microsoft, "QAttention", suffixed(n.Name, "_quant"),
		[]string{a.value, b.value, n.Inputs[2], a.scale, b.scale, at(3), a.zero, b.zero, at(4)}, n.Outputs))
	return nil
}

func embedding(s *scope, n *onnx.DraftNode) error {
	if len(n.Outputs) > 2 {
		return skip{why: "has three outputs"}
	}
	if len(n.Inputs) < 7 {
		return skip{why: "has fewer than seven inputs"}
	}
	values, scales, zeros := []string{n.Inputs[0], n.Inputs[1]}, []string{}, []string{}
	for _, in := range n.Inputs[2:7] {
		if in == "" {
			continue
		}
		if _, t := s.initializer(in); t == nil {
			return skip{in, "is computed, and is the table"}
		}
		if why := s.floats(in); why != "" {
			return skip{in, why}
		}
	}
	for _, in := range n.Inputs[2:7] {
		var q quantized
		if in != "" {
			var err error
			if q, err = s.input(in); err != nil {
				return err
			}
		}
		values, scales, zeros = append(values, q.value), append(scales, q.scale), append(zeros, q.zero)
	}
	mask := ""
	if len(n.Inputs) > 7 {
		mask = n.Inputs[7]
	}
	s.foreign(n.Same(microsoft, "QEmbedLayerNormalization", suffixed(n.Name, "_quant"), slices.Concat(values, []string{mask}, scales, zeros), n.Outputs))
	return nil
}

func appendFloat(b []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
}

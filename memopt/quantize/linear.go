package quantize

import (
	"encoding/binary"
	"slices"
	"strconv"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// Operators on integers, for the QOperator format. Each replaces the node of an operator on floats,
// reads what that reads in 8 bits, and writes 8 bits.

// fixedResult is the result of a node in 8 bits, with the scale of its range.
func (s *scope) fixedResult(n *onnx.DraftNode) (quantized, error) {
	out := n.Outputs[0]
	if !s.ranged(out) {
		return quantized{}, skip{out, noRange}
	}
	return quantized{value: out + "_quantized", scale: out + "_scale", zero: out + "_zero_point"}, nil
}

// ready checks the number of inputs and outputs, and that values are floats with ranges: if it
// returns nil, the node can be replaced.
func (s *scope) ready(n *onnx.DraftNode, inputs int, floats ...int) error {
	if len(n.Inputs) < inputs || len(n.Outputs) != 1 {
		return skip{why: "does not have its inputs and one output"}
	}
	for _, i := range floats {
		in := n.Inputs[i]
		if _, is := s.found(in); is {
			continue
		}
		if why := s.floats(in); why != "" {
			return skip{in, why}
		}
		if _, t := s.initializer(in); t == nil && !s.hasRange(in) {
			return skip{in, noRange}
		}
	}
	if !s.hasRange(n.Outputs[0]) {
		return skip{n.Outputs[0], noRange}
	}
	return nil
}

func (s *scope) hasRange(name string) bool {
	_, is := s.o.Static.Ranges[name]
	return is
}

// replaced adds a node of ONNX Runtime's own, or of ONNX, with the attributes of another one.
func (s *scope) replaced(n *onnx.DraftNode, domain, op string, inputs []string, q quantized) *onnx.DraftNode {
	made := n.Same(domain, op, suffixed(n.Name, "_quant"), inputs, []string{q.value})
	made.SortAttrs()
	if domain == microsoft {
		s.foreign(made)
	} else {
		s.add(made)
	}
	s.done[n.Outputs[0]] = q
	return made
}

func argMax(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) == 0 {
		return skip{why: "has no input"}
	}
	q, is := s.found(n.Inputs[0])
	if !is || q.perAxis {
		return skip{why: "its input is not quantized"}
	}
	n.Inputs[0] = q.value
	s.add(n)
	return nil
}

// linearFactors quantizes both factors of a product, and its result.
func (s *scope) linearFactors(n *onnx.DraftNode, typ graph.DType, axis int64, perAxis bool) (inputs []string, out quantized, err error) {
	a, err := s.input(n.Inputs[0])
	if err != nil {
		return nil, out, err
	}
	b, err := s.weight(n.Inputs[1], typ, axis, perAxis, true)
	if err != nil {
		return nil, out, err
	}
	if out, err = s.fixedResult(n); err != nil {
		return nil, out, err
	}
	return []string{a.value, a.scale, a.zero, b.value, b.scale, b.zero}, out, nil
}

func linearMatMul(s *scope, n *onnx.DraftNode) error {
	if err := s.ready(n, 2, 0, 1); err != nil {
		return err
	}
	if _, t := s.initializer(n.Inputs[1]); t == nil && !s.o.AnyProduct {
		return skip{n.Inputs[1], "is computed, and is the second factor"}
	}
	inputs, out, err := s.linearFactors(n, s.o.weights(), -1, s.o.PerChannel)
	if err != nil {
		return err
	}
	s.replaced(n, "", "QLinearMatMul", append(inputs, out.scale, out.zero), out)
	return nil
}

func linearConv(s *scope, n *onnx.DraftNode) error {
	if err := s.ready(n, 2, 0, 1); err != nil {
		return err
	}
	typ, perAxis := s.o.weights(), s.o.PerChannel && s.tensors[n.Inputs[1]] != nil
	if perAxis {
		typ = graph.Int8 // upstream's operator takes no others
	}
	if err := s.biased(n); err != nil {
		return err
	}
	inputs, out, err := s.linearFactors(n, typ, 0, perAxis)
	if err != nil {
		return err
	}
	inputs = append(inputs, out.scale, out.zero)
	if len(n.Inputs) == 3 {
		bias, err := s.linearBias(n, 1)
		if err != nil {
			return err
		}
		inputs = append(inputs, bias)
	}
	s.replaced(n, "", "QLinearConv", inputs, out)
	return nil
}

func linearGemm(s *scope, n *onnx.DraftNode) error {
	if err := s.ready(n, 2, 0, 1); err != nil {
		return err
	}
	if _, t := s.initializer(n.Inputs[1]); t == nil && !s.o.AnyProduct {
		return skip{n.Inputs[1], "is computed, and is the second factor"}
	}
	if err := s.biased(n); err != nil {
		return err
	}
	axis := int64(1)
	if !is(n, "transB", 0) {
		axis = 0
	}
	inputs, out, err := s.linearFactors(n, s.o.weights(), axis, s.o.PerChannel && s.tensors[n.Inputs[1]] != nil)
	if err != nil {
		return err
	}
	bias := ""
	if len(n.Inputs) == 3 {
		if bias, err = s.linearBias(n, factorOf(n, "beta")/factorOf(n, "alpha")); err != nil {
			return err
		}
	}
	s.replaced(n, microsoft, "QGemm", append(inputs, bias, out.scale, out.zero), out).DropAttr("beta")
	return nil
}

// biased checks the bias of a node.
func (s *scope) biased(n *onnx.DraftNode) error {
	if len(n.Inputs) < 3 {
		return nil
	}
	if t := s.tensors[n.Inputs[2]]; t == nil || t.Type != graph.Float32 {
		return skip{n.Inputs[2], "is computed, and is the bias"}
	}
	return nil
}

// linearBias rounds the bias of a node, whose factors are quantized, to 32 bits, times the factor of
// the bias over that of the product, since the node adds integers before it scales them. A bias that
// another node has, too, is rounded for each scale.
func (s *scope) linearBias(n *onnx.DraftNode, factor float64) (string, error) {
	name := n.Inputs[2]
	t := s.tensors[name]
	a, _ := s.found(n.Inputs[0])
	b, _ := s.found(n.Inputs[1])
	input, weight := s.scalesOf(a), s.scalesOf(b)
	if len(input) != 1 || len(weight) == 0 {
		return "", skip{name, "has factors whose scales are not known"}
	}
	bias, err := s.floatsOf(t)
	if err != nil {
		return "", err
	}
	if r := s.rounds[b.scale]; r != nil && len(s.readersOf(b)) == 0 {
		r.widen(input[0], bias)
		weight = s.scalesOf(b)
	}
	scales, integers := rounded32(bias, factor, input[0], weight)
	key := name + "\x00" + string(integers)
	for _, x := range scales {
		key += string(appendFloat(nil, x))
	}
	if q, is := s.biases[key]; is {
		return q.value, nil
	}
	as := name
	for k := 2; s.named32[as]; k++ {
		as = name + strconv.Itoa(k)
	}
	s.named32[as] = true
	q := s.addBias(t, as, scales, integers)
	s.biases[key] = q
	if as == name {
		s.done[name] = q
	}
	row := s.report.tensor(s.where, t, &scheme{typ: graph.Int32, channels: int64(len(scales))})
	row.worst32(bias, factor, scales, integers)
	return q.value, nil
}

// readersOf lists the nodes that read a quantized weight already.
func (s *scope) readersOf(q quantized) (all []*onnx.DraftNode) {
	for _, n := range s.nodes {
		if slices.Contains(n.Inputs, q.value) {
			all = append(all, n)
		}
	}
	return all
}

// linearPair is an operator on two values.
func linearPair(s *scope, n *onnx.DraftNode) error {
	if err := s.ready(n, 2, 0, 1); err != nil {
		return err
	}
	a, err := s.input(n.Inputs[0])
	if err != nil {
		return err
	}
	b, err := s.input(n.Inputs[1])
	if err != nil {
		return err
	}
	out, err := s.fixedResult(n)
	if err != nil {
		return err
	}
	s.replaced(n, microsoft, "QLinear"+n.Op, []string{a.value, a.scale, a.zero, b.value, b.scale, b.zero, out.scale, out.zero}, out)
	return nil
}

// linearClip is a Relu or Clip, which rounding does if its input has the range of its result.
func linearClip(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) == 0 || len(n.Outputs) != 1 {
		return skip{why: "does not have an input and one output"}
	}
	q, is := s.done[n.Inputs[0]]
	switch {
	case !is || q.perAxis:
		return skip{why: "its input is not quantized"}
	case s.o.Activations:
		return skip{why: "symmetric ranges have negative integers"}
	case s.o.Static.Ranges[n.Inputs[0]] != s.o.Static.Ranges[n.Outputs[0]]:
		return skip{why: "its input has a wider range, for other nodes"}
	}
	s.done[n.Outputs[0]] = q
	return nil
}

// linearOne is an operator on one value.
func linearOne(s *scope, n *onnx.DraftNode) error {
	if err := s.ready(n, 1, 0); err != nil {
		return err
	}
	if n.Op == "Softmax" || n.Op == "Sigmoid" && s.o.Static.SigmoidScale {
		s.unit(n)
	}
	out, err := s.fixedResult(n)
	if err != nil {
		return err
	}
	a, err := s.input(n.Inputs[0])
	if err != nil {
		return err
	}
	made := s.replaced(n, microsoft, "QLinear"+n.Op, []string{a.value, a.scale, a.zero, out.scale, out.zero}, out)
	if n.Op == "Softmax" {
		made.SetAttr("opset", int64(s.d.Opsets[""]))
		made.SortAttrs()
	}
	return nil
}

// unit gives the result of a node, which is between 0 and 1, the scale 1/256.
func (s *scope) unit(n *onnx.DraftNode) {
	zero := int32(-128)
	if s.o.activations() == graph.Uint8 || n.Op == "Sigmoid" {
		zero = 0
	}
	s.fixed(n.Outputs[0], rounding{1.0 / 256, zero})
}

func linearMean(s *scope, n *onnx.DraftNode) error {
	if err := s.ready(n, 1); err != nil {
		return err
	}
	a, is := s.done[n.Inputs[0]]
	if !is || a.perAxis {
		return skip{why: "its input is not quantized"}
	}
	out, err := s.fixedResult(n)
	if err != nil {
		return err
	}
	made := s.replaced(n, microsoft, "QLinear"+n.Op, []string{a.value, a.scale, a.zero, out.scale, out.zero}, out)
	made.SetAttr("channels_last", int64(0))
	made.SortAttrs()
	return nil
}

func linearSplit(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) == 0 {
		return skip{why: "has no input"}
	}
	if _, is := s.found(n.Inputs[0]); !is {
		if why := s.floats(n.Inputs[0]); why != "" {
			return skip{n.Inputs[0], why}
		}
	}
	a, err := s.input(n.Inputs[0])
	if err != nil {
		return err
	}
	outputs := slices.Clone(n.Outputs)
	for i, out := range n.Outputs {
		outputs[i] = out + "quantized"
		s.done[out] = quantized{value: outputs[i], scale: a.scale, zero: a.zero}
	}
	made := n.Same("", n.Op, suffixed(n.Name, "_quant"), append([]string{a.value}, n.Inputs[1:]...), outputs)
	made.SortAttrs()
	s.add(made)
	return nil
}

func linearConcat(s *scope, n *onnx.DraftNode) error {
	every := make([]int, len(n.Inputs))
	for i := range every {
		every[i] = i
	}
	if err := s.ready(n, 1, every...); err != nil {
		return err
	}
	var inputs []string
	for _, in := range n.Inputs {
		q, err := s.input(in)
		if err != nil {
			return err
		}
		inputs = append(inputs, q.value, q.scale, q.zero)
	}
	out, err := s.fixedResult(n)
	if err != nil {
		return err
	}
	s.replaced(n, microsoft, "QLinearConcat", append([]string{out.scale, out.zero}, inputs...), out)
	return nil
}

func linearWhere(s *scope, n *onnx.DraftNode) error {
	if !s.o.Unasked {
		return skip{why: "is not asked for"}
	}
	if err := s.ready(n, 3, 1, 2); err != nil {
		return err
	}
	a, err := s.input(n.Inputs[1])
	if err != nil {
		return err
	}
	b, err := s.input(n.Inputs[2])
	if err != nil {
		return err
	}
	out, err := s.fixedResult(n)
	if err != nil {
		return err
	}
	s.replaced(n, microsoft, "QLinearWhere", []string{n.Inputs[0], a.value, a.scale, a.zero, b.value, b.scale, b.zero, out.scale, out.zero}, out)
	return nil
}

// linearPad pads integers, with the integer of what the node pads with.
func linearPad(s *scope, n *onnx.DraftNode) error {
	if len(n.Inputs) < 2 || len(n.Outputs) != 1 {
		return skip{why: "does not have two inputs and one output"}
	}
	q, is := s.done[n.Inputs[0]]
	if !is || q.perAxis {
		return skip{why: "its input is not quantized"}
	}
	if mode, given := n.Attr("mode").(string); !given || mode == "constant" {
		for len(n.Inputs) < 3 {
			n.Inputs = append(n.Inputs, "")
		}
		by := n.Inputs[2]
		t := s.tensors[by]
		scales := s.scalesOf(q)
		switch {
		case by == "":
			n.Inputs[2] = q.zero
		case t != nil && t.Type == graph.Float32 && len(scales) == 1:
			if err := s.padding(t, q, scales[0]); err != nil {
				return err
			}
			n.Inputs[2] = by + "_quantized"
		default:
			s.add(onnx.NewNode("QuantizeLinear", by+"_QuantizeLinear", []string{by, q.scale, q.zero}, []string{by + "_quantized"}))
			n.Inputs[2] = by + "_quantized"
		}
	}
	n.Inputs[0] = q.value
	s.moved(n, q)
	return nil
}

// padding adds a constant, rounded by the scale of what it pads.
func (s *scope) padding(t *onnx.DraftTensor, q quantized, scale float32) error {
	if _, is := s.tensorNamed(t.Name + "_quantized"); is {
		return nil
	}
	all, err := s.floatsOf(t)
	if err != nil {
		return err
	}
	zero, is := s.tensorNamed(q.zero)
	if !is {
		return skip{t.Name, "pads a value whose zero point is not known"}
	}
	data, err := zero.Numbers()
	if err != nil {
		return err
	}
	b, err := data.Bytes()
	if err != nil {
		return err
	}
	p := &scheme{typ: zero.Type}
	var out []byte
	for _, v := range all {
		out = appendInt(out, p.typ, p.integer(v, rounding{scale, integerAt(b, p.typ)}))
	}
	s.constant(t.Name+"_quantized", p.typ, t.Shape, out)
	return nil
}

// integerAt is the first integer of some bytes.
func integerAt(b []byte, t graph.DType) int32 {
	switch t {
	case graph.Uint8:
		return int32(b[0])
	case graph.Int8:
		return int32(int8(b[0]))
	case graph.Uint16:
		return int32(binary.LittleEndian.Uint16(b))
	}
	return int32(int16(binary.LittleEndian.Uint16(b)))
}

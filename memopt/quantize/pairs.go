package quantize

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// mark is how a value is to be rounded between QuantizeLinear and DequantizeLinear.
type mark struct {
	weight  bool // to the type of weights
	perAxis bool
	axis    int64
	from    string // the value whose scale it has; "": its own
}

// pairs is static quantization in the QDQ format. Nodes mark the values that they want rounded; then
// each is.
type pairs struct {
	*scope
	marked  map[string]mark
	order   []string // of the marks
	bias    map[string]biasOf
	biased  []string
	readers map[string][]*onnx.DraftNode // among nodes that are quantized
	gone    map[*onnx.DraftNode]bool
	has     map[string]bool      // values that the model dequantizes already
	paired  map[string]quantized // with the name of what readers read as value
	outputs map[string]bool
}

// biasOf is what gives a bias its scale.
type biasOf struct {
	input, weight string
	beta          float64
}

// marks is ONNX Runtime's registry of the QDQ format, a fixed list of names in files. Nodes of
// operators that are not in it mark all that they read and write. A function returns whether a node is quantized.
var marks map[string]func(p *pairs, n *onnx.DraftNode) bool

func init() {
	marks = map[string]func(p *pairs, n *onnx.DraftNode) bool{
		"Conv":                  (*pairs).conv,
		"ConvTranspose":         (*pairs).conv,
		"Gemm":                  (*pairs).gemm,
		"MatMul":                (*pairs).matMul,
		"Clip":                  (*pairs).clip,
		"Relu":                  (*pairs).clip,
		"Reshape":               (*pairs).moves,
		"Transpose":             (*pairs).moves,
		"Squeeze":               (*pairs).moves,
		"Unsqueeze":             (*pairs).moves,
		"Flatten":               (*pairs).moves,
		"Resize":                (*pairs).moves,
		"MaxPool":               (*pairs).moves,
		"AveragePool":           (*pairs).moves,
		"Slice":                 (*pairs).moves,
		"TopK":                  (*pairs).moves,
		"Pad":                   (*pairs).pad,
		"Split":                 (*pairs).split,
		"Gather":                (*pairs).gather,
		"GatherElements":        (*pairs).gather,
		"Where":                 (*pairs).choice,
		"InstanceNormalization": (*pairs).norm,
		"LayerNormalization":    (*pairs).norm,
		"BatchNormalization":    (*pairs).norm,
		"CumSum":                (*pairs).all,
	}
}

func (s *scope) pairs() *pairs {
	p := &pairs{scope: s, marked: map[string]mark{}, bias: map[string]biasOf{}, readers: map[string][]*onnx.DraftNode{},
		gone: map[*onnx.DraftNode]bool{}, has: map[string]bool{}, paired: map[string]quantized{}, outputs: map[string]bool{}}
	for _, v := range s.g.Outputs {
		p.outputs[v.Name] = true
	}
	return p
}

func (p *pairs) quantize() error {
	for _, n := range slices.Clone(p.g.Nodes) {
		if n.Op == "DequantizeLinear" {
			for _, out := range n.Outputs {
				p.has[out] = true
			}
		}
		if n.Op == "DequantizeLinear" || n.Op == "QuantizeLinear" || len(p.o.Ops) == 0 && !slices.Contains(Operators(*p.o), n.Op) {
			continue
		}
		name, why := nameOf(n), p.o.chosen(n, "")
		if why == "" {
			f := marks[n.Op]
			if f == nil {
				f = (*pairs).all
			}
			if !f(p, n) {
				why = "none of its values is quantized"
			}
			for _, in := range n.Inputs {
				p.readers[in] = append(p.readers[in], n)
			}
		}
		p.report.node(p.where, n, n.Op, name, skip{why: why})
	}
	if err := p.roundWeights(); err != nil {
		return err
	}
	for _, name := range slices.Clone(p.order) {
		if p.marked[name].from != "" {
			continue
		}
		if t := p.tensors[name]; t != nil {
			p.pairOfWeight(t)
		} else if !p.has[name] {
			if !p.ranged(name) {
				return fmt.Errorf("%s %s", name, noRange)
			}
			p.pairsOf(name, quantized{scale: name + "_scale", zero: name + "_zero_point"})
		}
		p.unmark(name)
	}
	for more := true; more; {
		more = false
		for _, name := range slices.Clone(p.order) {
			if q, is := p.paired[p.marked[name].from]; is {
				p.unmark(name)
				p.pairsOf(name, quantized{scale: q.scale, zero: q.zero})
				more = true
			}
		}
	}
	if !p.o.Static.FloatBiases {
		if err := p.pairBiases(); err != nil {
			return err
		}
	}
	p.g.Nodes = slices.DeleteFunc(p.g.Nodes, func(n *onnx.DraftNode) bool { return p.gone[n] })
	if p.domain() != "" && p.d.Opsets[microsoft] == 0 {
		p.d.Opsets[microsoft] = 1
	}
	return nil
}

// domain is that of the pairs. ONNX's own take 16-bit integers since opset 21.
func (p *pairs) domain() string {
	wide := p.o.weights().Size() > 1 || p.o.activations().Size() > 1
	if p.o.Static.OwnDomain || wide && p.d.Opsets[""] < 21 {
		return microsoft
	}
	return ""
}

func (p *pairs) put(name string, m mark) {
	if _, is := p.marked[name]; !is {
		p.order = append(p.order, name)
	}
	p.marked[name] = m
}

func (p *pairs) unmark(name string) {
	delete(p.marked, name)
	p.order = slices.DeleteFunc(p.order, func(other string) bool { return other == name })
}

func (p *pairs) is(name string) bool {
	_, marked := p.marked[name]
	_, bias := p.bias[name]
	return marked || bias
}

// can reports whether a value is a float that can be rounded.
func (p *pairs) can(name string) bool {
	if t := p.tensors[name]; t != nil {
		return t.Type == graph.Float32
	}
	return name != "" && p.typeOf(name) == graph.Float32
}

// value marks a value to be rounded as an activation, or the way that it is marked already.
func (p *pairs) value(name string) bool {
	if !p.can(name) {
		return false
	}
	if _, is := p.marked[name]; !is {
		p.put(name, mark{})
	}
	return true
}

// as marks a value to be rounded like another one.
func (p *pairs) as(name, from string) bool {
	if p.can(name) {
		p.put(name, mark{from: from})
	}
	return p.can(name)
}

// factor marks a weight, with the scales of an axis if that is asked for.
func (p *pairs) factor(n *onnx.DraftNode, name string, axis int64, byOperator bool) {
	t := p.tensors[name]
	if t != nil && p.o.PerChannel {
		if own, is := p.o.Static.Axes[n.Op]; is && byOperator {
			axis = own
		}
		rank := int64(len(t.Shape))
		if axis < 0 {
			axis += rank
		}
		if 0 <= axis && axis < rank {
			if p.can(name) {
				p.put(name, mark{weight: true, perAxis: true, axis: axis})
			}
			return
		}
	}
	if _, is := p.marked[name]; !is && p.can(name) {
		p.put(name, mark{weight: true})
	}
}

// result marks the results of a node.
func (p *pairs) result(n *onnx.DraftNode) (some bool) {
	if slices.Contains(p.o.Static.PlainResults, n.Op) {
		return false
	}
	for _, out := range n.Outputs {
		some = p.value(out) || some
	}
	return some
}

func (p *pairs) all(n *onnx.DraftNode) (some bool) {
	for _, in := range n.Inputs {
		some = p.value(in) || some
	}
	return p.result(n) || some
}

func (p *pairs) conv(n *onnx.DraftNode) bool {
	if len(n.Inputs) < 2 {
		return false
	}
	some := p.value(n.Inputs[0])
	some = p.result(n) || some
	axis := int64(0)
	if n.Op == "ConvTranspose" {
		axis = 1
	}
	p.factor(n, n.Inputs[1], axis, false)
	if len(n.Inputs) == 3 {
		p.addend(n, 2, 1)
	}
	return some
}

func (p *pairs) gemm(n *onnx.DraftNode) bool {
	if len(n.Inputs) < 2 {
		return false
	}
	some := p.value(n.Inputs[0])
	some = p.result(n) || some
	axis := int64(1)
	if !is(n, "transB", 0) {
		axis = 0
	}
	p.factor(n, n.Inputs[1], axis, false)
	if len(n.Inputs) == 3 && p.tensors[n.Inputs[2]] != nil {
		p.addend(n, 2, factorOf(n, "beta"))
		if n.Attr("beta") != nil { // the bias is multiplied by it
			n.DropAttr("beta")
			n.SetAttr("beta", 1.0)
			n.SortAttrs()
		}
	}
	return some
}

// factorOf is alpha or beta of a Gemm.
func factorOf(n *onnx.DraftNode, name string) float64 {
	if x, is := n.Attr(name).(float64); is {
		return x
	}
	return 1
}

func (p *pairs) matMul(n *onnx.DraftNode) (some bool) {
	values := n.Inputs
	if !slices.Contains(p.o.Static.PlainResults, n.Op) {
		values = slices.Concat(n.Inputs, n.Outputs)
	}
	for _, name := range values {
		if p.tensors[name] != nil {
			p.factor(n, name, 1, true)
		} else {
			some = p.value(name) || some
		}
	}
	return some
}

// clip is a Relu or Clip: rounding to unsigned integers clips, too, where nothing else reads what it
// reads.
func (p *pairs) clip(n *onnx.DraftNode) bool {
	if len(n.Inputs) == 0 || len(n.Outputs) != 1 || !p.is(n.Inputs[0]) {
		return false
	}
	in, out := n.Inputs[0], n.Outputs[0]
	uses := 0
	for _, other := range p.g.Nodes {
		for _, name := range other.Inputs {
			if name == in {
				uses++
			}
		}
	}
	ranges := p.o.Static.Ranges
	_, has := ranges[out]
	_, had := ranges[in]
	if !p.o.Activations && !p.o.Static.KeepClips && has && had && uses == 1 && !p.outputs[in] && !p.isInput(in) {
		p.renameOutput(in, out)
		p.unmark(in)
		p.gone[n] = true
	} else {
		p.value(in)
	}
	p.result(n)
	return true
}

func (p *pairs) isInput(name string) bool {
	return slices.ContainsFunc(p.g.Inputs, func(v onnx.DraftValue) bool { return v.Name == name })
}

// moves is a node whose result is some of its input, or close to it.
func (p *pairs) moves(n *onnx.DraftNode) bool {
	if len(n.Inputs) == 0 || len(n.Outputs) == 0 || p.d.Opsets[""] < movesSince[n.Op] {
		return false
	}
	plain := slices.Contains(p.o.Static.PlainResults, n.Op)
	switch {
	case p.o.Unasked:
		p.value(n.Inputs[0])
	case !p.is(n.Inputs[0]) || plain:
		return false
	}
	return plain || p.as(n.Outputs[0], n.Inputs[0])
}

func (p *pairs) split(n *onnx.DraftNode) bool {
	if len(n.Inputs) == 0 {
		return false
	}
	some := p.is(n.Inputs[0]) || p.value(n.Inputs[0])
	if !slices.Contains(p.o.Static.PlainResults, n.Op) {
		for _, out := range n.Outputs {
			p.as(out, n.Inputs[0])
		}
	}
	return some
}

func (p *pairs) gather(n *onnx.DraftNode) bool {
	if len(n.Inputs) == 0 || len(n.Outputs) == 0 {
		return false
	}
	t := p.tensors[n.Inputs[0]]
	if t != nil && t.Type == graph.Float32 || p.o.Unasked {
		p.value(n.Inputs[0])
	} else if !p.is(n.Inputs[0]) {
		return false
	}
	return p.as(n.Outputs[0], n.Inputs[0])
}

func (p *pairs) choice(n *onnx.DraftNode) bool {
	if len(n.Inputs) != 3 {
		return false
	}
	if p.o.Unasked {
		for _, in := range n.Inputs[1:] {
			if !p.is(in) {
				p.value(in)
			}
		}
	} else if !p.is(n.Inputs[1]) || !p.is(n.Inputs[2]) {
		return false
	}
	return p.result(n) || p.o.Unasked
}

func (p *pairs) norm(n *onnx.DraftNode) bool {
	if len(n.Inputs) < 2 {
		return false
	}
	some := p.value(n.Inputs[0])
	if p.tensors[n.Inputs[1]] != nil {
		p.factor(n, n.Inputs[1], 1, true)
	} else {
		p.value(n.Inputs[1])
	}
	if len(n.Inputs) > 2 && n.Inputs[2] != "" {
		p.addend(n, 2, 1)
	}
	return p.result(n) || some
}

// pad marks what a Pad pads, and with what. Its result has the scale of its input if the padding is
// zeros or copies, which that scale has integers for.
func (p *pairs) pad(n *onnx.DraftNode) (some bool) {
	for _, in := range n.Inputs {
		some = p.value(in) || some
	}
	if len(n.Inputs) == 0 || len(n.Outputs) != 1 || slices.Contains(p.o.Static.PlainResults, n.Op) {
		return some
	}
	alike := false
	switch mode, _ := n.Attr("mode").(string); mode {
	case "reflect", "edge", "wrap":
		alike = true
	case "constant", "":
		alike = len(n.Inputs) < 3 || n.Inputs[2] == "" || p.isZero(n.Inputs[2])
	}
	if alike {
		return p.as(n.Outputs[0], n.Inputs[0]) || some
	}
	return p.value(n.Outputs[0]) || some
}

// isZero reports whether a value is a constant float zero.
func (p *pairs) isZero(name string) bool {
	if t := p.tensors[name]; t != nil {
		if t.Type != graph.Float32 || t.Len() != 4 {
			return false
		}
		all, err := p.floatsOf(t)
		return err == nil && all[0] == 0
	}
	for _, n := range p.g.Nodes {
		if n.Op == "Constant" && len(n.Outputs) == 1 && n.Outputs[0] == name {
			switch x := n.Attr("value").(type) {
			case *graph.Tensor:
				return x.Type == graph.Float32 && x.Len() == 1 && x.Float(0) == 0
			}
			return n.Attr("value_float") == 0.0
		}
	}
	return false
}

// addend marks the bias of a node, to be rounded to 32 bits. A bias that another node has, too, is
// copied, since its scale is that of the node's factors.
func (p *pairs) addend(n *onnx.DraftNode, at int, beta float64) {
	name := n.Inputs[at]
	t := p.tensors[name]
	if t == nil || t.Type != graph.Float32 {
		return
	}
	if _, is := p.bias[name]; is {
		last := -1
		for other := range p.tensors {
			if rest, is := strings.CutPrefix(other, name); is {
				if k, err := strconv.Atoi(rest); err == nil {
					last = max(last, k)
				}
			}
		}
		name += strconv.Itoa(last + 1)
		x := p.numbersOf(t)
		t = &onnx.DraftTensor{Name: name, Type: t.Type, Shape: t.Shape, Write: x.write}
		p.g.Tensors = append(p.g.Tensors, t)
		p.tensors[name], p.numbers[t] = t, x
		n.Inputs[at] = name
	}
	p.bias[name] = biasOf{n.Inputs[0], n.Inputs[1], beta}
	p.biased = append(p.biased, name)
}

// roundWeights finds the scales of the marked initializers.
func (p *pairs) roundWeights() error {
	for _, name := range p.order {
		t, m := p.tensors[name], p.marked[name]
		if t == nil {
			continue
		}
		s := &scheme{typ: p.o.activations(), symmetric: p.o.Activations, reduced: p.o.ReduceRange, least: p.o.MinRealRange, channels: 1}
		if m.weight {
			s.typ = p.o.weights()
			s.symmetric = p.o.symmetric(s.typ)
		}
		x := p.numbersOf(t)
		if m.perAxis {
			s.symmetric = true // all channels need one zero point
			inner, size := int64(1), x.shape[m.axis]
			for _, d := range x.shape[m.axis+1:] {
				inner *= d
			}
			s.channels, s.channel = size, func(i int64) int64 { return i / inner % size }
		}
		by, err := s.roundings(x)
		if err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
		p.rounds[name+"_scale"] = &rounds{x: x, scheme: s, by: by}
	}
	if p.o.Static.TrustScales {
		return nil
	}
	for _, name := range p.biased {
		b := p.bias[name]
		r, is := p.rounds[b.weight+"_scale"]
		_, input := p.marked[b.input]
		if !is || !input || !p.hasRange(b.input) {
			continue
		}
		bias, err := p.floatsOf(p.tensors[name])
		if err != nil {
			return err
		}
		r.widen(p.rounded(p.o.Static.Ranges[b.input]).scale, bias)
	}
	return nil
}

// node adds a QuantizeLinear or DequantizeLinear.
func (p *pairs) node(op, name, in, out string, q quantized) {
	var attrs []graph.Attr
	if q.perAxis {
		attrs = []graph.Attr{{Name: "axis", Value: q.axis}}
	}
	n := onnx.NewNode(op, name, []string{in, q.scale, q.zero}, []string{out}, attrs...)
	n.Domain = p.domain()
	p.g.Nodes = append(p.g.Nodes, n)
}

func (p *pairs) renameInput(from, to string) {
	for _, n := range p.g.Nodes {
		renamed(n.Inputs, from, to)
	}
}

func (p *pairs) renameOutput(from, to string) {
	for _, n := range p.g.Nodes {
		renamed(n.Outputs, from, to)
	}
}

func renamed(list []string, from, to string) {
	for i, name := range list {
		if name == from {
			list[i] = to
		}
	}
}

// pairOfWeight puts a DequantizeLinear behind a weight.
func (p *pairs) pairOfWeight(t *onnx.DraftTensor) {
	name, m, r := t.Name, p.marked[t.Name], p.rounds[t.Name+"_scale"]
	q := quantized{scale: name + "_scale", zero: name + "_zero_point", perAxis: m.perAxis, axis: m.axis, value: name + "_DequantizeLinear_Output"}
	var shape []int64
	if m.perAxis {
		shape = []int64{int64(len(r.by))}
	}
	var zb []byte
	for _, one := range r.by {
		zb = appendInt(zb, r.scheme.typ, one.zero)
	}
	p.constant(q.zero, r.scheme.typ, shape, zb)
	p.g.Tensors = append(p.g.Tensors, &onnx.DraftTensor{Name: q.scale, Type: graph.Float32, Shape: shape, Write: r.writeScales})
	p.renameInput(name, q.value)
	if p.o.Static.FloatWeights {
		p.node("QuantizeLinear", name+"_QuantizeLinear", name, name+"_QuantizeLinear_Output", q)
		p.node("DequantizeLinear", name+"_DequantizeLinear", name+"_QuantizeLinear_Output", q.value, q)
	} else {
		row := p.report.tensor(p.where, t, r.scheme)
		p.g.Tensors = append(p.g.Tensors, &onnx.DraftTensor{Name: name + "_quantized", Type: r.scheme.typ, Shape: r.x.shape,
			Write: func(w io.Writer) error { return r.scheme.write(w, r.x, r.by, &row.WorstError) }})
		p.node("DequantizeLinear", name+"_DequantizeLinear", name+"_quantized", q.value, q)
	}
	p.paired[name] = q
}

// pairsOf puts a QuantizeLinear and a DequantizeLinear behind a value.
func (p *pairs) pairsOf(name string, q quantized) {
	const qIn, qOut, out = "_QuantizeLinear_Input", "_QuantizeLinear_Output", "_DequantizeLinear_Output"
	pair := func(in, end, to string) {
		p.node("QuantizeLinear", name+"_QuantizeLinear"+end, in, name+qOut+end, q)
		p.node("DequantizeLinear", name+"_DequantizeLinear"+end, name+qOut+end, to, q)
	}
	q.value = name + out
	if readers := p.readers[name]; p.o.Static.OwnPairs && len(readers) > 1 {
		for i, n := range readers {
			end := "_" + strconv.Itoa(i+1)
			pair(name, end, name+out+end)
			renamed(n.Inputs, name, name+out+end)
		}
		q.value = name + out + "_1"
	} else if p.outputs[name] {
		q.value = name
		p.renameOutput(name, name+qIn)
		pair(name+qIn, "", name)
	} else {
		p.renameInput(name, name+out)
		pair(name, "", name+out)
	}
	p.paired[name] = q
}

// pairBiases rounds biases by the scales of the node's factors.
func (p *pairs) pairBiases() error {
	for _, name := range p.biased {
		if _, is := p.paired[name]; is {
			continue
		}
		b, t := p.bias[name], p.tensors[name]
		weight, input := p.scaleOf(b.weight), p.scaleOf(b.input)
		if len(weight) == 0 || len(input) != 1 {
			continue // its factors stay floats
		}
		bias, err := p.floatsOf(t)
		if err != nil {
			return err
		}
		scales, integers := rounded32(bias, b.beta, input[0], weight)
		q := p.addBias(t, name, scales, integers)
		row := p.report.tensor(p.where, t, &scheme{typ: graph.Int32, channels: int64(len(scales))})
		row.worst32(bias, b.beta, scales, integers)
		p.paired[name] = q
		p.g.Tensors = slices.DeleteFunc(p.g.Tensors, func(other *onnx.DraftTensor) bool { return other == t })
		p.node("DequantizeLinear", name+"_DequantizeLinear", q.value, name, q)
	}
	return nil
}

// scaleOf is the scales of a value that was rounded here or is dequantized by the model; nil if
// neither is so.
func (p *pairs) scaleOf(name string) []float32 {
	if q, is := p.paired[name]; is {
		return p.scalesOf(q)
	}
	for _, n := range p.g.Nodes {
		if n.Op == "DequantizeLinear" && slices.Contains(n.Outputs, name) && len(n.Inputs) > 1 {
			if t := p.tensors[n.Inputs[1]]; t != nil && t.Type == graph.Float32 {
				if all, err := p.floatsOf(t); err == nil {
					return all
				}
			}
		}
	}
	return nil
}

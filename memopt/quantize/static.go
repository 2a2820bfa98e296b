package quantize

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// Static selects static quantization, and how activations are quantized. Options that the format
// lacks have no effect, as upstream.
type Static struct {
	Operators   bool             // QOperator: operators on integers; else QDQ
	Activations graph.DType      // Int8, Uint8, Int16 or Uint16; Invalid: Int8
	Ranges      map[string]Range // of activations, by name

	Restricted   bool // a zero point of uint8 activations is the least or the middle integer
	SigmoidScale bool // a Sigmoid's result has the scale 1/256, as NNAPI requires

	// Of QDQ:
	FloatWeights bool             // weights stay floats, and are rounded when the model runs
	OwnPairs     bool             // each reader of a value has a pair of its own
	FloatBiases  bool             // biases stay floats
	KeepClips    bool             // keep a Relu or Clip whose work the rounding does
	TrustScales  bool             // do not widen the scale of a weight so that its bias fits
	OwnDomain    bool             // QuantizeLinear and DequantizeLinear of ONNX Runtime's own domain
	PlainResults []string         // operators whose results are not rounded
	Axes         map[string]int64 // by operator: the axis of a weight's scales
}

func (s *Static) activations() graph.DType {
	if s.Activations == graph.Invalid {
		return graph.Int8
	}
	return s.Activations
}

const noRange = "has no range: it did not occur in the calibration"

// observed lists the values that static quantization may need ranges of: all floats that nodes of
// these operators read or write.
func (s *scope) observed() (names []string) {
	seen := map[string]bool{}
	can := Operators(*s.o)
	for _, n := range s.g.Nodes {
		if list := s.o.Ops; len(list) > 0 && !slices.Contains(list, n.Op) || len(list) == 0 && !slices.Contains(can, n.Op) {
			continue
		}
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			if name != "" && !seen[name] && s.tensors[name] == nil && s.typeOf(name) == graph.Float32 {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// Observe writes the model at path to the file at to, with every value that static quantization may
// need a range of as an output. It lists these values; some may be inputs of the model.
func Observe(ctx context.Context, path, to string, o Options) (names []string, err error) {
	d, err := onnx.OpenDraft(ctx, path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if v := d.Opsets[""]; v < oldestOpset {
		return nil, &OpsetError{path, v}
	}
	q := &quantizer{ctx: ctx, o: &o, d: d}
	s := q.scope(d.Graph, nil, "")
	s.index()
	names = s.observed()
	there := map[string]bool{}
	for _, v := range slices.Concat(d.Graph.Inputs, d.Graph.Outputs) {
		there[v.Name] = true
	}
	for _, name := range names {
		if !there[name] {
			d.Graph.Outputs = append(d.Graph.Outputs, onnx.NewValue(name, graph.Float32))
		}
	}
	return names, d.Save(to, onnx.Until(ctx))
}

// static prepares static quantization, and returns the function that does it.
func (s *scope) static() (func() error, error) {
	t := s.o.Static
	wide := func(t graph.DType) bool { return t.Size() > 1 }
	if t.Operators && (wide(s.o.weights()) || wide(t.activations())) {
		return nil, fmt.Errorf("the QOperator format has 8-bit integers only; 16-bit ones need QDQ")
	}
	if t.activations() == graph.Int8 && s.o.weights() == graph.Uint8 {
		return nil, fmt.Errorf("activations of int8 with weights of uint8 have no operators; choose uint8 activations or int8 weights")
	}
	s.index()
	s.settle()
	if t.Operators {
		s.table = linear
		return s.quantize, nil
	}
	return s.pairs().quantize, nil
}

// settle gives values whose range is known better the range of what they become: what a Relu or
// Clip reads if nothing else does, and the result of a Softmax.
func (s *scope) settle() {
	uses := map[string]int{}
	for _, n := range s.g.Nodes {
		for _, in := range n.Inputs {
			uses[in]++
		}
	}
	ranges := s.o.Static.Ranges
	for _, n := range s.g.Nodes {
		if len(n.Inputs) == 0 || len(n.Outputs) == 0 || s.o.chosen(n, "") != "" {
			continue
		}
		switch out, is := ranges[n.Outputs[0]]; n.Op {
		case "Relu", "Clip":
			if _, has := ranges[n.Inputs[0]]; is && has && uses[n.Inputs[0]] == 1 {
				ranges[n.Inputs[0]] = out
			}
		case "Softmax":
			ranges[n.Outputs[0]] = Range{0, 1}
		}
	}
}

// ranged adds a value's scale and zero point, if there is a range to have them from.
func (s *scope) ranged(name string) bool {
	if s.scales[name+"_scale"] != nil {
		return true
	}
	r, is := s.o.Static.Ranges[name]
	if !is {
		return false
	}
	s.fixed(name, s.rounded(r))
	return true
}

// tensorNamed is an initializer that was added.
func (s *scope) tensorNamed(name string) (*onnx.DraftTensor, bool) {
	i := slices.IndexFunc(s.g.Tensors, func(t *onnx.DraftTensor) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.g.Tensors[i], true
}

// rounded is the scale and zero point of an activation.
func (s *scope) rounded(r Range) rounding {
	t := s.o.Static
	p := &scheme{typ: t.activations(), symmetric: s.o.Activations, least: s.o.MinRealRange}
	low, high := min(r.Low, 0), max(r.High, 0)
	if t.Restricted && p.typ == graph.Uint8 && !p.symmetric {
		return p.restricted(float64(low), float64(high))
	}
	return p.rounding(low, high)
}

// restricted is the scale for a range that includes zero if the zero point may be the least integer,
// where no value is negative, or the middle one.
func (s *scheme) restricted(low, high float64) rounding {
	least, most := s.limits()
	middle := math.Floor((least + most + 1) / 2)
	high = max(high, low+s.least)
	floor := s.least / (most - least)
	zero, scale := least, high/(most-least)
	switch {
	case high <= low: // nothing but zeros
		scale = 1 / (most - least)
	case low < 0:
		zero, scale = middle, max(-low/(middle-least), high/(most-middle))
	}
	if scale = float64(float32(scale)); scale < floor {
		scale = floor
	}
	return rounding{float32(scale), int32(zero)}
}

// fixed adds a value's scale and zero point, which the file is to hold.
func (s *scope) fixed(name string, r rounding) {
	s.constant(name+"_zero_point", s.o.Static.activations(), nil, appendInt(nil, s.o.Static.activations(), r.zero))
	s.scale(name+"_scale", r.scale)
}

func (s *scope) scale(name string, x float32) {
	s.constant(name, graph.Float32, nil, appendFloat(nil, x))
	s.scales[name] = []float32{x}
}

func (s *scope) constant(name string, t graph.DType, shape []int64, b []byte) {
	s.g.Tensors = append(s.g.Tensors, &onnx.DraftTensor{Name: name, Type: t, Shape: shape, Data: graph.Bytes(b)})
}

// rounds is how a weight is rounded. Its scales may change until the file is written.
type rounds struct {
	x      *numbers
	scheme *scheme
	by     []rounding
}

func (r *rounds) writeScales(w io.Writer) error {
	var b []byte
	for _, one := range r.by {
		b = appendFloat(b, one.scale)
	}
	_, err := w.Write(b)
	return err
}

// scalesOf is the scales of a quantized value; nil if they are not in the file.
func (s *scope) scalesOf(q quantized) (all []float32) {
	if r := s.rounds[q.scale]; r != nil {
		for _, one := range r.by {
			all = append(all, one.scale)
		}
		return all
	}
	return s.scales[q.scale]
}

// numbersOf is the floats of an initializer.
func (q *quantizer) numbersOf(t *onnx.DraftTensor) *numbers {
	if x := q.numbers[t]; x != nil {
		return x
	}
	return plain(t)
}

func (q *quantizer) floatsOf(t *onnx.DraftTensor) (all []float32, err error) {
	err = q.numbersOf(t).each(func(_ int64, some []float32) error {
		all = append(all, some...)
		return nil
	})
	return all, err
}

// widen makes the scales of a weight so large that a bias rounded to the product of its scales and
// of the input's fits into 32 bits. Only symmetric weights of int8 and int16 are.
func (r *rounds) widen(input float32, bias []float32) {
	const above, values = 1.0001, 2 * float64(math.MaxInt32)
	if r.scheme.typ != graph.Int8 && r.scheme.typ != graph.Int16 || slices.ContainsFunc(r.by, func(one rounding) bool { return one.zero != 0 }) {
		return
	}
	fit := func(i int, smallest float64) {
		if now := float64(input) * float64(r.by[i].scale); now > 0 && now < smallest {
			r.by[i].scale = float32(float64(r.by[i].scale) * (smallest / now))
		}
	}
	if r.scheme.channel == nil {
		most := float32(0)
		for _, b := range bias {
			most = max(most, abs(b))
		}
		fit(0, above*(2*float64(most))/values)
		return
	}
	for i := range min(len(r.by), len(bias)) {
		fit(i, float64(float32(above)*(2*abs(bias[i])))/values)
	}
}

// rounded32 is a bias times a factor, rounded to 32 bits by the scales of its node's input and
// weight, as the integers that the node adds have no scale of their own. Upstream divides by a Gemm's
// beta instead of multiplying by it.
func rounded32(bias []float32, factor float64, input float32, weight []float32) (scales []float32, integers []byte) {
	for _, w := range weight {
		scales = append(scales, input*w)
	}
	for i, b := range bias {
		q := math.RoundToEven(float64(b) * factor / float64(scales[i%len(scales)]))
		q = min(max(q, math.MinInt32), math.MaxInt32)
		integers = binary.LittleEndian.AppendUint32(integers, uint32(int32(q)))
	}
	return scales, integers
}

// addBias adds a rounded bias, its scales and zero points, under the bias's name with a suffix.
func (s *scope) addBias(t *onnx.DraftTensor, name string, scales []float32, integers []byte) quantized {
	q := quantized{value: name + "_quantized", scale: name + "_quantized_scale", zero: name + "_quantized_zero_point"}
	s.constant(q.value, graph.Int32, t.Shape, integers)
	var b []byte
	for _, x := range scales {
		b = appendFloat(b, x)
	}
	n := int64(len(scales))
	s.constant(q.scale, graph.Float32, []int64{n}, b)
	if n > 1 {
		q.perAxis = true
		s.constant(q.zero, graph.Int32, []int64{n}, make([]byte, 4*n))
	} else {
		s.constant(q.zero, graph.Int32, nil, make([]byte, 4))
	}
	return q
}

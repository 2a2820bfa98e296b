// Package quantize rewrites a forward model to compute products with 8-bit integers, as ONNX
// Runtime's quantization does: weights are quantized in the file, activations when the
// model runs, with one scale a tensor.
//
//	report, err := quantize.File(ctx, "model.onnx", "model.int8.onnx", quantize.Options{})
//
// With Options.Static, activations have scales in the file, too, from the ranges that they have on
// sample data: Observe writes a model whose outputs are the values to see, Calibration.Ranges makes
// ranges of them. Pairs of QuantizeLinear and DequantizeLinear say where values are rounded (QDQ),
// or operators on integers replace those on floats (QOperator).
//
// The file is rewritten node by node, with the names that upstream uses: a MatMul becomes
// DynamicQuantizeLinear, MatMulInteger, Cast and two Muls; a Gemm that is a plain product first
// becomes a MatMul and an Add. Everything else stays byte for byte. Weights are read from the
// mapped file twice, for their range and while the new file is written, and are never in memory as
// a whole.
package quantize

import (
	"context"
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// Options select what is quantized and how. The zero value is upstream's default: int8 weights,
// symmetric, one scale a tensor, all operators that can be quantized.
type Options struct {
	Weights      graph.DType // Int8 or Uint8; Invalid: Int8
	PerChannel   bool        // a scale for each output channel of a product
	ReduceRange  bool        // 7 bits, for processors whose 8-bit sums saturate
	Ops          []string    // operators to quantize; nil: all that can be
	Nodes        []string    // names of nodes to quantize; nil: all
	Exclude      []string    // names of nodes not to quantize
	Symmetric    *bool       // whether ranges of weights are; nil: those of signed types
	Activations  bool        // ranges of tables that nodes read as activations are symmetric
	AnyProduct   bool        // also quantize a MatMul whose second factor is computed
	Subgraphs    bool        // quantize graphs in attributes
	Unasked      bool        // quantize a Transpose if it reads a weight, not if it reads a quantized value
	MinRealRange float64     // smallest range to compute a scale for
	Fold         bool        // treat the Transpose of a weight as a weight
	External     bool        // write weights to a file beside the model, also of small models
	Static       *Static     // quantize activations by ranges that are known; nil: when the model runs
	// Types returns element types that the file does not have; it is called only if they matter.
	Types func() map[string]graph.DType
}

func (o *Options) weights() graph.DType {
	if o.Weights == graph.Invalid {
		return graph.Int8
	}
	return o.Weights
}

func (o *Options) activations() graph.DType {
	if o.Static == nil {
		return graph.Uint8
	}
	return o.Static.activations()
}

// symmetric reports whether ranges of tensors quantized to a type are symmetric.
func (o *Options) symmetric(t graph.DType) bool {
	switch {
	case t != o.weights():
		return o.Activations
	case o.Symmetric != nil:
		return *o.Symmetric
	}
	return t == graph.Int8 || t == graph.Int16
}

// oldestOpset is the first opset with DynamicQuantizeLinear.
const oldestOpset = 11

// File quantizes the model at path into the file at to. The report lists the quantized tensors, and
// the others with the reason.
func File(ctx context.Context, path, to string, o Options) (report *Report, err error) {
	d, err := onnx.OpenDraft(ctx, path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if v := d.Opsets[""]; v < oldestOpset {
		return nil, &OpsetError{path, v}
	}
	q := &quantizer{ctx: ctx, o: &o, d: d, was: map[string]string{}, table: operators,
		scales: map[string][]float32{}, rounds: map[string]*rounds{}, biases: map[string]quantized{}, named32: map[string]bool{},
		numbers: map[*onnx.DraftTensor]*numbers{}, transposes: map[string]string{}, at: map[*onnx.DraftGraph]map[string]int{},
		report: &Report{Weights: word(o.weights()), PerChannel: o.PerChannel, ReduceRange: o.ReduceRange,
			Tensors: []*Tensor{}, Skipped: []Skipped{}, Nodes: []Node{},
			byName: map[string]*Tensor{}, folded: map[string]string{}, reasons: map[*onnx.DraftNode]skip{}, readers: map[string][]reader{}}}
	q.report.before(d.Graph)
	if q.foldable(d.Graph); o.Fold {
		q.fold(d.Graph)
	}
	if o.Static == nil {
		replaceProducts([]*onnx.DraftGraph{d.Graph}, q)
	}
	q.report.read(d.Graph)
	top := q.scope(d.Graph, nil, "")
	quantize, err := top.quantize, error(nil)
	if o.Static != nil {
		q.report.static(&o)
		if quantize, err = top.static(); err != nil {
			return nil, err
		}
	}
	if err := quantize(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Static == nil || !o.Static.FloatWeights {
		top.clean()
	}
	if err := sorted(d.Graph); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(q.report.Foreign) > 0 && d.Opsets[microsoft] == 0 {
		d.Opsets[microsoft] = 1
	}
	q.report.finish(d.Graph)
	opts := []onnx.Option{onnx.Until(ctx)}
	if o.External {
		opts = append(opts, onnx.External)
	}
	if err := d.Save(to, opts...); err != nil {
		return nil, err
	}
	q.report.measure()
	return q.report, nil
}

// OpsetError is the error that a file's opset lacks the operators that quantizing needs.
type OpsetError struct {
	Path  string
	Opset int
}

func (e *OpsetError) Error() string {
	return fmt.Sprintf("%s is for opset %d, but quantizing needs %d or later", e.Path, e.Opset, oldestOpset)
}

// microsoft is the domain of ONNX Runtime's own operators.
const microsoft = "com.microsoft"

// chosen says why the options exclude a node; "" if they do not.
func (o *Options) chosen(n *onnx.DraftNode, was string) string {
	named := func(list []string) bool {
		return n.Name != "" && (slices.Contains(list, n.Name) || was != "" && slices.Contains(list, was))
	}
	switch {
	case len(o.Nodes) > 0 && !named(o.Nodes):
		return "is not among the nodes to quantize"
	case len(o.Ops) > 0 && !slices.Contains(o.Ops, n.Op):
		return "is not among the operators to quantize"
	case named(o.Exclude):
		return "is excluded"
	}
	return ""
}

package forward

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/joint"
	"memopt/internal/onnx"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/internal/whole"
	"memopt/kernels"
	"memopt/memopt/exit"
	"memopt/memopt/quantize"
)

// Quantized reports what was quantized.
type Quantized struct {
	*quantize.Report
	Warnings []string `json:"warnings"`
}

// Quantize writes a forward model with 8-bit integer products, as ONNX Runtime's dynamic quantization does, or, with
// sample inputs, its static one.
func Quantize(ctx context.Context, path, to string, c configs.Config) (Quantized, error) {
	return stop.When(ctx, func() (q Quantized, err error) {
		defer weights.Guard(&err)()
		if joint.Is(path) {
			return q, exit.Input(fmt.Errorf("%s is no ONNX model; only those are quantized", filepath.Base(path)))
		}
		o, err := roundings(ctx, path, c)
		if err != nil {
			return q, exit.Input(err)
		}
		q.Report, err = roundModel(ctx, path, to, o, c)
		var old *quantize.OpsetError
		if errors.As(err, &old) {
			q.Report, err = quantizeOld(ctx, path, to, o, c)
			q.Warnings = append(q.Warnings, fmt.Sprintf("%s is for opset %d; it was converted to a later opset first, which may rename nodes", filepath.Base(path), old.Opset))
		}
		if err != nil {
			return Quantized{}, exit.Input(err)
		}
		q.Warnings = append(q.Warnings, quantizeWarnings(q.Report, path, o, c)...)
		return q, nil
	})
}

// roundModel finds the ranges of activations, if they are to be static, and writes the model.
func roundModel(ctx context.Context, path, to string, o quantize.Options, c configs.Config) (r *quantize.Report, err error) {
	if o.Static != nil {
		if o.Static.Ranges, err = calibrated(ctx, path, o, c); err != nil {
			return nil, err
		}
	}
	return quantize.File(ctx, path, to, o)
}

// quantizeOld quantizes a model whose opset has no quantized operators: it reads the model as a graph and writes it
// for a later opset first.
func quantizeOld(ctx context.Context, path, to string, o quantize.Options, c configs.Config) (r *quantize.Report, err error) {
	g, source, err := onnx.OpenAt(ctx, path, kernels.AsRead(), nil)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	for _, file := range onnx.Written(to) {
		if whole.Among(file, source.Files()) {
			return nil, fmt.Errorf("%s is read, and would be overwritten; choose another name", file)
		}
	}
	dir, err := os.MkdirTemp("", "memopt-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	between := filepath.Join(dir, filepath.Base(path))
	if err := onnx.Write(between, g, onnx.Until(whole.Apart(ctx))); err != nil {
		return nil, err
	}
	return roundModel(ctx, between, to, o, c)
}

// roundings converts settings to options of quantization.
func roundings(ctx context.Context, path string, c configs.Config) (o quantize.Options, err error) {
	o = quantize.Options{Weights: graph.Int8, PerChannel: c.PerChannel, ReduceRange: c.ReduceRange,
		Activations: c.ActivationSymmetric, AnyProduct: c.MatMulConstBOnly == "off" || c.MatMulConstBOnly == "auto" && c.Calibrate != "", Subgraphs: c.EnableSubgraph, Unasked: c.ForceQuantize,
		MinRealRange: c.MinimumRealRange, Fold: c.FoldTransposes, External: c.ExternalData}
	o.Weights = integerTypes[c.WeightType]
	if c.WeightSymmetric != "auto" {
		on := c.WeightSymmetric == "on"
		o.Symmetric = &on
	}
	for _, list := range []struct {
		from []string
		to   *[]string
	}{{c.OpTypes, &o.Ops}, {c.Nodes, &o.Nodes}, {c.Exclude, &o.Exclude}} {
		if *list.to, err = configs.ReadNames(list.from); err != nil {
			return o, err
		}
	}
	if o.Static, err = staticRoundings(c); err != nil {
		return o, err
	}
	if o.Static == nil && o.Weights.Size() > 1 {
		return o, fmt.Errorf("products of integers take weights of 8 bits; %s needs %s, with sample inputs", c.WeightType, c.Say("calibrate", "DATA"))
	}
	o.Types = func() map[string]graph.DType {
		types := map[string]graph.DType{}
		g, source, err := onnx.OpenAt(ctx, path, kernels.AsRead(), c.Dims)
		if err != nil {
			return types // rely on the types in the file
		}
		defer source.Close()
		for _, v := range g.Values {
			types[v.Name] = v.Type
		}
		return types
	}
	return o, nil
}

var integerTypes = map[string]graph.DType{"int8": graph.Int8, "uint8": graph.Uint8, "int16": graph.Int16, "uint16": graph.Uint16}

// quantizeWarnings warns of settings that have no effect.
func quantizeWarnings(r *quantize.Report, path string, o quantize.Options, c configs.Config) (warnings []string) {
	can := quantize.Operators(o)
	for _, op := range o.Ops {
		if slices.Contains(can, op) {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s has no quantized form%s", op, didYouMean(op, can)))
	}
	for _, list := range [][]string{o.Nodes, o.Exclude} {
		for _, name := range list {
			if !r.Has(name) {
				warnings = append(warnings, fmt.Sprintf("no node that can be quantized is named %s%s", name, didYouMean(name, r.Names())))
			}
		}
	}
	if len(r.Foreign) > 0 {
		warnings = append(warnings, fmt.Sprintf("the model has operators now that only ONNX Runtime runs: %s; %s", strings.Join(r.Foreign, ", "), leaveOut(o, c)))
	}
	if r.Foldable > 0 && !o.Fold {
		warnings = append(warnings, fmt.Sprintf("%d weights reach their products through a Transpose, and stay as they are; %s quantizes them too", r.Foldable, c.Say("fold_transposes", "on")))
	}
	if len(r.Tensors) == 0 {
		warnings = append(warnings, fmt.Sprintf("nothing of %s was quantized%s", filepath.Base(path), firstReason(r)))
	}
	return warnings
}

// leaveOut says how to have only ONNX's own operators.
func leaveOut(o quantize.Options, c configs.Config) string {
	if o.Static != nil {
		return c.Say("quant_format", "qdq") + " needs none of them"
	}
	return "leave them out with " + c.Say("op_types", "MatMul,Conv,Gather,Transpose")
}

func didYouMean(name string, known []string) string {
	if near, ok := configs.Nearest(name, known); ok {
		return ", did you mean " + near + "?"
	}
	return "; there are " + strings.Join(known[:min(len(known), 8)], ", ")
}

func firstReason(r *quantize.Report) string {
	if len(r.Nodes) == 0 {
		return ": it has no node of an operator that can be"
	}
	return ": " + r.Nodes[0].Op + " " + r.Nodes[0].Name + " " + strings.TrimSpace(r.Nodes[0].Value+" "+r.Nodes[0].Reason)
}

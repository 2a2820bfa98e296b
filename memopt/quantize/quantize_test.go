package quantize

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/tensorfile"
	"memopt/kernels"
)

func symmetric(on bool) *bool { return &on }

// options lists those of testdata/record.py, by name.
var options = map[string]Options{
	"int8":       {},
	"uint8":      {Weights: graph.Uint8},
	"channels":   {PerChannel: true, ReduceRange: true},
	"asymmetric": {Symmetric: symmetric(false), Subgraphs: true},
	"computed":   {Weights: graph.Uint8, PerChannel: true, AnyProduct: true, Activations: true},
	"some":       {Ops: []string{"MatMul", "Conv"}, Exclude: []string{"q", "conv2", "fc3"}},
}

var models = []string{"mlp", "text", "conv", "lstm", "branches"}

func made(t *testing.T, model, option string) (path string, r *Report) {
	t.Helper()
	path = filepath.Join(t.TempDir(), model+".onnx")
	r, err := File(context.Background(), filepath.Join("testdata", model+".onnx"), path, options[option])
	if err != nil {
		t.Fatal(err)
	}
	return path, r
}

// TestNodesAndWeightsEqualUpstream: for every model and option the nodes, their names, and every
// bit of scales, zero points and integers equal those written by onnxruntime's quantize_dynamic.
func TestNodesAndWeightsEqualUpstream(t *testing.T) {
	for _, model := range models {
		for option := range options {
			t.Run(model+"/"+option, func(t *testing.T) {
				path, _ := made(t, model, option)
				got, want := spelled(t, path), spelled(t, filepath.Join("testdata", model+"."+option+".onnx"))
				for _, line := range want {
					if !slices.Contains(got, line) {
						t.Errorf("missing %s", line)
					}
				}
				for _, line := range got {
					if !slices.Contains(want, line) {
						t.Errorf("has %s", line)
					}
				}
			})
		}
	}
}

// spelled is a model's nodes and initializers, one a line.
func spelled(t *testing.T, path string) (lines []string) {
	t.Helper()
	d, err := onnx.OpenDraft(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var add func(g *onnx.DraftGraph, in string)
	add = func(g *onnx.DraftGraph, in string) {
		for _, n := range g.Nodes {
			lines = append(lines, fmt.Sprintf("%s%s.%s %q %q → %q axis %v to %v pads %v", in, n.Domain, n.Op, n.Name, n.Inputs, n.Outputs, n.Attr("axis"), n.Attr("to"), n.Attr("pads")))
			names, graphs := n.Graphs()
			for i, inner := range graphs {
				add(inner, in+names[i]+"/")
			}
		}
		for _, x := range g.Tensors {
			data, err := x.Numbers()
			if err != nil {
				t.Fatal(err)
			}
			b, err := data.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("%s%s %s%v %x", in, x.Name, x.Type, x.Shape, b))
		}
	}
	add(d.Graph, "")
	slices.Sort(lines)
	return lines
}

// TestOutputsEqualONNXRuntime: the quantized model computes the same here as in onnxruntime.
func TestOutputsEqualONNXRuntime(t *testing.T) {
	for _, model := range []string{"mlp", "text", "conv", "branches"} { // the LSTM becomes an operator of onnxruntime's own
		for option := range options {
			t.Run(model+"/"+option, func(t *testing.T) {
				path, _ := made(t, model, option)
				data, err := tensorfile.ReadNPZ(filepath.Join("testdata", model+"."+option+".npz"))
				if err != nil {
					t.Fatal(err)
				}
				g, source, err := onnx.Open(path, kernels.Library)
				if err != nil {
					t.Fatal(err)
				}
				defer source.Close()
				for name, x := range data.Tensors { // aligned
					own := graph.NewTensor(x.Type, x.Shape...)
					copy(own.Bytes, x.Bytes)
					data.Tensors[name] = own
				}
				in, dims := map[string]*graph.Tensor{}, map[string]int64{}
				for _, v := range g.Inputs {
					x := data.Tensors["input."+v.Name]
					in[v.Name] = x
					for i, d := range v.Shape {
						for _, name := range d.Names() {
							dims[name] = int64(x.Shape[i])
						}
					}
				}
				b, err := graph.Bind(dims)
				if err != nil {
					t.Fatal(err)
				}
				values, err := kernels.Interpret(g, b, in)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range g.Outputs {
					want := data.Tensors["output."+v.Name]
					if d := difference(values[v.ID], want); d > 1e-6 {
						t.Errorf("output %s is off by %.3g of its range", v.Name, d)
					}
				}
			})
		}
	}
}

// difference is the largest difference of two tensors, relative to the largest element of one.
func difference(got, want *graph.Tensor) float64 {
	if !slices.Equal(got.Shape, want.Shape) {
		return math.Inf(1)
	}
	worst, largest := 0.0, 1e-30
	for i := range want.Len() {
		worst, largest = max(worst, math.Abs(got.Float(i)-want.Float(i))), max(largest, math.Abs(want.Float(i)))
	}
	return worst / largest
}

// TestErrorsAreMeasured: the reported error of a weight is above zero, and at most half a step of
// its scale.
func TestErrorsAreMeasured(t *testing.T) {
	path, r := made(t, "mlp", "int8")
	if len(r.Tensors) != 3 || r.WorstError <= 0 {
		t.Fatalf("%d tensors, worst %g", len(r.Tensors), r.WorstError)
	}
	d, err := onnx.OpenDraft(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, row := range r.Tensors {
		i := slices.IndexFunc(d.Graph.Tensors, func(x *onnx.DraftTensor) bool { return x.Name == row.Name+"_scale" })
		data, err := d.Graph.Tensors[i].Numbers()
		if err != nil {
			t.Fatal(err)
		}
		b, _ := data.Bytes()
		scale := (&graph.Tensor{Type: graph.Float32, Bytes: b}).Float(0)
		if row.WorstError <= scale/10 || row.WorstError > scale/2*1.0001 {
			t.Errorf("%s was moved by %g, and its step is %g", row.Name, row.WorstError, scale)
		}
	}
	if r.Before <= r.After || r.After <= r.Before/4 {
		t.Errorf("%d bytes became %d", r.Before, r.After)
	}
}

// TestSkippedHaveReasons: every float initializer is in one of the two lists.
func TestSkippedHaveReasons(t *testing.T) {
	_, r := made(t, "mlp", "some")
	why := map[string]string{}
	for _, s := range r.Skipped {
		why[s.Name] = s.Reason
	}
	for name, want := range map[string]string{"w3": "is excluded", "b1": "Add has no quantized form", "w4": "alpha = beta = 1", "b4": "not a plain product"} {
		if !strings.Contains(why[name], want) {
			t.Errorf("%s: %q does not say %q", name, why[name], want)
		}
	}
	if len(r.Tensors)+len(r.Skipped) != 7 {
		t.Errorf("%d and %d of 7 tensors", len(r.Tensors), len(r.Skipped))
	}
	if !r.Has("fc3") || r.Has("nothing") {
		t.Error("names of nodes")
	}
}

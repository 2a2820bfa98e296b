package forward

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/tensorfile"
	"memopt/internal/whole"
	"memopt/memopt/feed"
	"memopt/memopt/quantize"
	"memopt/memopt/session"
)

// staticRoundings converts settings to options of static quantization; nil if there are no sample inputs.
func staticRoundings(c configs.Config) (*quantize.Static, error) {
	if c.Calibrate == "" {
		return nil, nil
	}
	o := &quantize.Static{Operators: c.QuantFormat == "qoperator", Activations: integerTypes[c.ActivationType],
		Restricted: c.ActivationRestricted, SigmoidScale: c.SigmoidNNAPI, FloatWeights: c.PairToWeight, OwnPairs: c.DedicatedPair,
		FloatBiases: !c.QuantizeBias, KeepClips: c.KeepRemovable, TrustScales: c.KeepWeightScales, OwnDomain: c.ContribPairs, Axes: map[string]int64{}}
	var err error
	if o.PlainResults, err = configs.ReadNames(c.PlainResults); err != nil {
		return nil, err
	}
	for _, entry := range c.ChannelAxes {
		op, axis, found := strings.Cut(entry, "=")
		n, err := strconv.ParseInt(strings.TrimSpace(axis), 10, 64)
		if !found || err != nil {
			return nil, fmt.Errorf("qdq_op_type_per_channel_support_to_axis: %q is not an operator and an axis, as in MatMul=0", entry)
		}
		o.Axes[strings.TrimSpace(op)] = n
	}
	return o, nil
}

// calibrated is the ranges that a model's values have on sample inputs.
func calibrated(ctx context.Context, path string, o quantize.Options, c configs.Config) (map[string]quantize.Range, error) {
	dir, err := os.MkdirTemp("", "memopt-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all := filepath.Join(dir, "observed.onnx")
	names, err := quantize.Observe(whole.Apart(ctx), path, all, o)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 { // no operator that can be quantized
		return map[string]quantize.Range{}, nil
	}
	c.Optimize, c.Device = "off", "cpu"
	s, err := Open(ctx, session.Model{Path: all, Name: path}, c, c.Calibrate)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	runs, err := sampleFiles(c.Calibrate)
	if err != nil {
		return nil, err
	}
	stride := c.CalibStride
	if stride == 0 || len(runs) == 1 {
		stride = len(runs)
	}
	if len(runs)%stride != 0 {
		return nil, fmt.Errorf("%s has %d files, which strides of %d do not divide", c.Calibrate, len(runs), stride)
	}
	k := &quantize.Calibration{Method: c.CalibrateMethod, Percentile: c.CalibPercentile, Moving: c.CalibMoving, Average: c.CalibAverage}
	if c.CalibSymmetric != "auto" {
		on := c.CalibSymmetric == "on"
		k.Symmetric = &on
	}
	return k.Ranges(len(runs)/stride, func(group int, see func(name string, x []float32)) error {
		for _, file := range runs[group*stride : (group+1)*stride] {
			if err := observed(ctx, s, c, file, names, see); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(file), err)
			}
		}
		return nil
	})
}

// sampleFiles lists the files of sample inputs: the file itself, or those of a folder.
func sampleFiles(path string) (files []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".npz") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no npz files", path)
	}
	return files, nil
}

// observed runs a model on the arrays of a file, as many rows at a time as dims say, and shows these values of each run.
func observed(ctx context.Context, s *session.Session, c configs.Config, file string, names []string, see func(name string, x []float32)) error {
	data, err := feed.Read(file)
	if err != nil {
		return err
	}
	defer data.Close()
	for more := true; more; {
		in, _, err := InputsOf(s, data, c)
		if err != nil {
			return err
		}
		r, err := Once(ctx, s, c, in, nil, session.RunOptions{})
		if err != nil {
			return err
		}
		values := map[string]*graph.Tensor{}
		for name, x := range in {
			values[name] = x
		}
		for _, out := range r.Outputs {
			values[out.Name] = out.Tensor
		}
		for _, name := range names {
			x := values[name]
			if x == nil {
				return fmt.Errorf("value %s was not computed", name)
			}
			see(name, x.Aligned().F32())
		}
		more = nextRows(data, s, in)
	}
	return nil
}

// nextRows leaves out of the data the rows that a run has had, and reports whether there are as many again. Arrays
// that are read whole stay.
func nextRows(data *tensorfile.Set, s *session.Session, had map[string]*graph.Tensor) (more bool) {
	rests := map[string]*graph.Tensor{}
	for _, p := range s.Signature.Inputs {
		x, taken := feed.Array(data, p.Name), had[p.Name]
		if slices.Equal(x.Shape, taken.Shape) {
			continue
		}
		rest := &graph.Tensor{Type: x.Type, Shape: slices.Clone(x.Shape)}
		if rest.Shape[0] -= taken.Shape[0]; rest.Shape[0] < taken.Shape[0] {
			return false
		}
		rest.Bytes = x.Bytes[int64(len(x.Bytes))-int64(rest.Len())*x.Type.Size():]
		rests[p.Name] = rest
	}
	for name, rest := range rests {
		if data.Tensors[name] == nil {
			name = "input." + name
		}
		data.Tensors[name] = rest
	}
	return len(rests) > 0
}

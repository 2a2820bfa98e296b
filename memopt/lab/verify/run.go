package verify

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/planner"
)

// Run runs every case below the root of a file system. The error is about reading files; failures of cases are in
// the report.
func Run(fsys fs.FS) (*Report, error) {
	dirs, err := Find(fsys)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	for _, dir := range dirs {
		c, err := Open(fsys, dir)
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, c.run())
	}
	return r, nil
}

// Find lists the folders that hold a case, sorted.
func Find(fsys fs.FS) ([]string, error) {
	var dirs []string
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Base(p) == modelFile {
			dirs = append(dirs, path.Dir(p))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no folder with a %s; the node tests are made by onnx.backend.test, or lie in its folder data", modelFile)
	}
	slices.Sort(dirs)
	return dirs, nil
}

// run runs one case.
func (c *Case) run() Result {
	r := Result{Case: c.Name, Op: c.op(), Ops: c.Outline.Ops, Types: c.types(), Outcome: Passed}
	if why, is := otherwise[path.Base(c.Name)]; is {
		r.Outcome, r.Reason = NotApplicable, why
		return r
	}
	if len(c.Outline.Foreign) > 0 {
		r.Outcome, r.Reason = NotApplicable, c.Outline.Foreign[0]
		return r
	}
	for _, s := range c.Sets {
		g, known, err := c.Read(s)
		if err == nil {
			r.Known = known
			var loose bool
			loose, err = c.compute(g, s)
			r.Loose = r.Loose || loose
		}
		if err != nil {
			r.Loose = false
			r.Outcome, r.Reason = classify(err)
			break
		}
	}
	return r
}

// otherwise lists cases whose results ONNX does not define, with the reason.
var otherwise = map[string]string{
	"test_training_dropout":              numpyMask,
	"test_training_dropout_default":      numpyMask,
	"test_training_dropout_mask":         numpyMask,
	"test_training_dropout_default_mask": numpyMask,
	"test_bernoulli":                     numpyNumbers,
	"test_bernoulli_double":              numpyNumbers,
	"test_bernoulli_double_expanded":     numpyNumbers,
	"test_bernoulli_expanded":            numpyNumbers,
	"test_bernoulli_seed":                numpyNumbers,
	"test_bernoulli_seed_expanded":       numpyNumbers,
}

const (
	numpyMask    = "expects the random mask that NumPy's generator gives"
	numpyNumbers = "expects the random numbers that NumPy's generator gives"
)

// compute runs one data set in both ways.
func (c *Case) compute(g *graph.Graph, s Set) (loose bool, err error) {
	dims, err := s.dims(g)
	if err != nil {
		return false, err
	}
	for _, way := range []struct {
		name string
		run  func(*graph.Graph, map[string]int64, map[string]*graph.Tensor) ([]*graph.Tensor, error)
	}{{"interpreted", interpret}, {"on the device", onDevice}} {
		got, err := way.run(g, dims, s.Inputs)
		var l bool
		if err == nil {
			l, err = compare(got, s.Outputs, g.Outputs)
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", way.name, err)
		}
		loose = loose || l
	}
	return loose, nil
}

func interpret(g *graph.Graph, dims map[string]int64, in map[string]*graph.Tensor) (out []*graph.Tensor, err error) {
	b, err := graph.Bind(dims)
	if err != nil {
		return nil, err
	}
	var values []*graph.Tensor
	// Operators panic on invalid data.
	if e := graph.Try(func() { values, err = kernels.Interpret(g, b, in) }); e != nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	for _, v := range g.Outputs {
		out = append(out, values[v.ID])
	}
	return out, nil
}

// onDevice fills memory that no value owns with poison, so that reading it changes the results.
func onDevice(g *graph.Graph, dims map[string]int64, in map[string]*graph.Tensor) (out []*graph.Tensor, err error) {
	p, err := planner.Make(g, planner.Request{Dims: dims})
	if err != nil {
		return nil, err
	}
	s, err := p.Schedule()
	if err != nil {
		return nil, err
	}
	d, err := cpu.Open(s, cpu.Options{Poison: true})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
		return nil, err
	}
	for _, v := range g.Outputs {
		x, err := d.Output(v.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// types are the element types of the inputs and outputs, sorted.
func (c *Case) types() []graph.DType {
	var ts []graph.DType
	for _, s := range c.Sets {
		for _, x := range s.Inputs {
			ts = append(ts, x.Type)
		}
		for _, x := range s.Outputs {
			ts = append(ts, x.Type)
		}
	}
	slices.Sort(ts)
	return slices.Compact(ts)
}

// op is the report's row for a case.
func (c *Case) op() string {
	switch {
	case strings.Contains(c.Name, "_expanded"):
		return "(expanded)"
	case len(c.Outline.Ops) == 1:
		return c.Outline.Ops[0]
	}
	return "(graphs)"
}

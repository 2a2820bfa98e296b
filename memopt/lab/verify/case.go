package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
)

const (
	modelFile = "model.onnx"
	setPrefix = "test_data_set_"
)

// Case is one folder of the node tests.
type Case struct {
	Name    string
	Outline onnx.Outline
	Sets    []Set

	model []byte
}

// Set is the inputs and the expected outputs of one run.
type Set struct {
	Inputs  map[string]*graph.Tensor
	Outputs []*graph.Tensor
}

// Open reads the case in a folder.
func Open(fsys fs.FS, dir string) (*Case, error) {
	c := &Case{Name: dir}
	var err error
	if c.model, err = fs.ReadFile(fsys, path.Join(dir, modelFile)); err != nil {
		return nil, err
	}
	if c.Outline, err = onnx.ParseOutline(c.model); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	sets, err := fs.Glob(fsys, path.Join(dir, setPrefix+"*"))
	if err != nil {
		return nil, err
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s has no %s0", dir, setPrefix)
	}
	if len(c.Outline.Foreign) > 0 {
		return c, nil // the data sets have types that graphs do not have
	}
	for _, dir := range sets {
		s, err := c.openSet(fsys, dir)
		if err != nil {
			return nil, err
		}
		c.Sets = append(c.Sets, s)
	}
	return c, nil
}

func (c *Case) openSet(fsys fs.FS, dir string) (Set, error) {
	s := Set{Inputs: map[string]*graph.Tensor{}}
	read := func(kind string, i int) (*graph.Tensor, error) {
		name := fmt.Sprintf("%s_%d.pb", kind, i)
		src, err := fs.ReadFile(fsys, path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		_, x, err := onnx.ParseTensor(src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(dir, name), err)
		}
		return x, nil
	}
	for i, name := range c.Outline.Inputs {
		x, err := read("input", i)
		if err != nil {
			return s, err
		}
		s.Inputs[name] = x
	}
	for i := range c.Outline.Outputs {
		x, err := read("output", i)
		if err != nil {
			return s, err
		}
		s.Outputs = append(s.Outputs, x)
	}
	return s, nil
}

// Read reads the model. If it cannot be read otherwise, inputs of a data set become constants of the graph; known
// names them.
func (c *Case) Read(s Set) (g *graph.Graph, known []string, err error) {
	read := func(known []string) (*graph.Graph, error) {
		numbers := map[string]*graph.Tensor{}
		for _, name := range known {
			numbers[name] = s.Inputs[name]
		}
		return onnx.ParseKnown(c.model, c.Name, kernels.Library, numbers)
	}
	if g, err = read(nil); err == nil || foreign(err) != "" {
		return g, nil, err
	}
	all := slices.Sorted(maps.Keys(s.Inputs))
	whole := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return s.Inputs[name].Type.IsFloat() })
	for _, known := range [][]string{whole, all} {
		if g, err = read(known); err != nil {
			continue
		}
		for _, name := range slices.Clone(known) {
			fewer := slices.DeleteFunc(slices.Clone(known), func(n string) bool { return n == name })
			if h, err := read(fewer); err == nil {
				g, known = h, fewer
			}
		}
		return g, known, nil
	}
	return nil, nil, err
}

// foreign says why the model cannot be read in any way, because it contains what graphs do not have; "" for errors
// of operators.
func foreign(err error) string {
	var opset *onnx.OpsetError
	if errors.As(err, &opset) {
		return fmt.Sprintf("opset %d is not read", opset.Opset)
	}
	var u *onnx.UnsupportedError
	if !errors.As(err, &u) {
		return ""
	}
	for _, item := range u.Items {
		switch {
		case item.Foreign && item.Op != "":
			return item.Op + ": " + item.Msg
		case item.Foreign:
			return item.Msg
		}
	}
	return ""
}

// dims are the sizes of named dims, as found in the inputs.
func (s Set) dims(g *graph.Graph) (map[string]int64, error) {
	dims := map[string]int64{}
	for _, v := range g.Inputs {
		x := s.Inputs[v.Name]
		if x.Type != v.Type || len(x.Shape) != v.Rank() {
			return nil, fmt.Errorf("input %q is %s%v, the model says %s", v.Name, x.Type, x.Shape, v)
		}
		for i, d := range v.Shape {
			if names := d.Names(); len(names) == 1 && d.Equal(graph.Sym(names[0])) {
				dims[names[0]] = int64(x.Shape[i])
			}
		}
	}
	return dims, nil
}

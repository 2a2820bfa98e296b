package step

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/joint"
	"memopt/internal/onnx"
	"memopt/internal/weights"
	"memopt/kernels"
	"memopt/memopt/exit"
)

// Read reads the graph from the file and cleans it up, unless it is a training graph already: a file's own backward
// pass is kept as it is.
func (m *Model) Read() (err error) {
	if m.Bytes == nil && joint.Is(m.Path) {
		return m.readJoint()
	}
	from := onnx.From{Path: m.Path, Bytes: m.Bytes, Dims: m.Config.Dims, Given: m.Given, Apart: true}
	if m.Graph, m.Source, err = from.Read(m.Ctx, kernels.Library); err != nil {
		return exit.Input(err)
	}
	for name := range m.Given {
		if !slices.Contains(m.Source.Taken, name) {
			return exit.Input(fmt.Errorf("initializer %q is given, and the model has none of that name", name))
		}
	}
	if m.Graph.HasBackward() {
		m.noteInitials()
		return nil
	}
	if err := m.selectTrained(); err != nil {
		return err
	}
	if err := m.addLoss(); err != nil {
		return err
	}
	m.clean(graph.CleanOptions{Fuse: kernels.Fusions, Unfold: true})
	return nil
}

// clean runs the passes on a forward graph, as far as the settings allow.
func (m *Model) clean(o graph.CleanOptions) {
	switch m.Config.Optimize {
	case "off":
		return
	case "clean":
		o = graph.CleanOptions{}
	}
	// A named loss is not necessarily an output yet.
	if loss := m.Graph.ByName(m.Loss); loss != nil && !slices.Contains(m.Graph.Outputs, loss) {
		m.Graph.Outputs = append(m.Graph.Outputs, loss)
	}
	o.Context = m.Ctx
	m.cleaned, m.Passes = o, m.Graph.Clean(o)
}

// Optimized reports what Optimize did to a model.
type Optimized struct {
	graph.Report
	InFile   int // nodes in the file; the graph that is read may have more or fewer
	Warnings []string
}

// Optimize runs the passes on a model's forward graph and writes it as ONNX, with operators that other runtimes
// have too. Only tensors that Open would not train either are fused into attributes.
func Optimize(path, to string, c configs.Config) (o Optimized, err error) {
	m := &Model{Path: path, Config: c}
	if joint.Is(path) {
		return o, exit.Input(fmt.Errorf("%s is no ONNX model; only those are optimized", filepath.Base(path)))
	}
	if m.Graph, m.Source, err = onnx.OpenAt(m.Ctx, path, kernels.AsRead(), m.Config.Dims); err != nil {
		return o, exit.Input(err)
	}
	defer m.Close()
	defer weights.Guard(&err)() // must run before Close unmaps the file
	for _, file := range onnx.Written(to) {
		if m.Reads(file) {
			return o, exit.Input(fmt.Errorf("%s is read, and would be overwritten; choose another name", file))
		}
	}
	o.InFile = m.Source.Nodes
	if m.Graph.HasBackward() {
		return o, exit.Input(fmt.Errorf("%s has a backward pass; only forward graphs are optimized", filepath.Base(path)))
	}
	if err := m.selectTrained(); err != nil {
		return o, err
	}
	if err := m.addLoss(); err != nil {
		return o, err
	}
	m.clean(graph.CleanOptions{Fuse: kernels.Portable})
	o.Report, o.Warnings = m.Passes, unknownElsewhere(m.Graph, path, to)
	if m.Unchanged(&err); err != nil {
		return o, err
	}
	var opts []onnx.Option
	if c.ExternalData || len(m.Source.Files()) > 1 { // external weights stay external, so that they can be mapped
		opts = append(opts, onnx.External)
	}
	if err := onnx.Write(to, m.Graph, opts...); err != nil {
		return o, exit.Input(err)
	}
	return o, nil
}

// unknownElsewhere warns of operators that only memopt implements.
func unknownElsewhere(g *graph.Graph, path, to string) []string {
	var ops []string
	for _, n := range g.Nodes {
		if name := n.Op.FullName(); kernels.Ours(n.Op) && !slices.Contains(ops, name) {
			ops = append(ops, name)
		}
	}
	if ops == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s has operators that other runtimes do not know: %s; for those, keep %s as it is",
		filepath.Base(to), strings.Join(ops, ", "), filepath.Base(path))}
}

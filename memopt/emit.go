package memopt

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/planner"
	"memopt/planner/cluster"
)

// SaveGraphs writes a plan's training graph as it was and as it is under the
// plan into a folder, as NAME.before.onnx and NAME.after.onnx.
func (m *Model) SaveGraphs(p *planner.Plan, folder, name string) (warnings []string, err error) {
	if err := runnable(p.Graph); err != nil {
		return nil, err
	}
	before := filepath.Join(folder, name+".before.onnx")
	if o := p.Request.Outline; o != nil {
		var order []int
		if order, err = cluster.DefaultOrder(o); err == nil {
			_, err = onnx.WriteEdited(before, m.Path, o, order)
		}
	} else {
		err = onnx.Write(before, p.Graph)
	}
	if err != nil {
		return nil, input(fmt.Errorf("memopt: %w", err))
	}
	return m.Emit(p, filepath.Join(folder, name+".after.onnx"))
}

// Emit writes the training graph under the plan as ONNX. A trainer's file is
// written back as it was read, with copies of the nodes that run again; any other
// as the plan's own graph. Warnings are of operators for which other tools may
// refuse the file.
func (m *Model) Emit(p *planner.Plan, path string) (warnings []string, err error) {
	if err := runnable(p.Graph); err != nil {
		return nil, err
	}
	after, order, ok, err := m.edited(p)
	if err != nil {
		return nil, err
	}
	var strange []string
	if ok {
		strange, err = onnx.WriteEdited(path, m.Path, after, order)
	} else {
		g, wrong := p.Rewrite()
		if wrong != nil {
			return nil, wrong
		}
		strange, err = onnx.Strange(g), onnx.Write(path, g)
	}
	if err != nil {
		return nil, input(fmt.Errorf("memopt: %w", err))
	}
	if len(strange) > 0 {
		warnings = append(warnings, fmt.Sprintf("ONNX's checker refuses %s as it refuses %s: ONNX has no %s in the opset that the file is for",
			filepath.Base(path), filepath.Base(m.Path), strings.Join(strange, ", ")))
	}
	return warnings, nil
}

// byORT reports whether a plan of a trainer's file is no more than what settings
// turned on.
func (m *Model) byORT(p *planner.Plan) bool {
	return p.Analysis != nil && p.Strategy == "keep-all" && len(p.Request.Again) == 0
}

// edited is a plan as an edit of the trainer's file, if it is one. What settings
// alone turned on is copied as ONNX Runtime does it, in its order, in which copies
// come right before their first reader.
func (m *Model) edited(p *planner.Plan) (after *graph.Outline, order []int, ok bool, err error) {
	o := p.Request.Outline
	switch {
	case o == nil:
		return nil, nil, false, nil
	case !m.byORT(p):
		return p.RewriteOutline(o)
	}
	after = cluster.Rewrite(p.Analysis, p.Asked, int64(m.Config.Seed))
	inOrder := cluster.DefaultOrder
	if len(p.Asked) > 0 {
		inOrder = cluster.MemoryEfficientOrder
	}
	order, err = inOrder(after)
	return after, order, true, err
}

// ORT writes what ONNX Runtime shows of a trainer's program: the line of the
// feature and, but for level "warn" and above, its plans and notes; for level
// "devinfo" and "debug" the node-level report too.
func (m *Model) ORT(w io.Writer, p *planner.Plan, level string) error {
	if p.Analysis == nil {
		return nil
	}
	a := p.Analysis
	asked := requested(p)
	lines, err := a.Table(asked, m.sizes())
	if err != nil {
		return err
	}
	if m.Config.Level > 0 {
		level := cluster.Level(cluster.KeysOf(lines), m.Config.Level)
		if m.Config.Compat != "" {
			asked = nil // a level replaces them
		}
		asked = append(level, asked...)
		if lines, err = a.Table(asked, m.sizes()); err != nil {
			return err
		}
	}
	quiet := level != "info" && level != "devinfo" && level != "debug"
	h := cluster.Heading{On: m.Config.Level > 0 || len(m.Config.Requests) > 0, Level: m.Config.Level, Path: m.planFile()}
	shown := lines
	if quiet {
		shown = nil
	}
	if err := cluster.PrintTable(w, h, shown); err != nil {
		return err
	}
	if quiet || len(lines) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := cluster.PrintNotes(w, a.Outline, m.sizes()); err != nil {
		return err
	}
	if err := m.printPeaks(w, p); err != nil {
		return err
	}
	if level == "info" {
		return nil
	}
	_, err = fmt.Fprintf(w, "\n%s", a.Report(asked, h.Path))
	return err
}

// printPeaks adds what no table of savings tells: the peak of the program as it
// is and with what is on, both run as ONNX Runtime runs them.
func (m *Model) printPeaks(w io.Writer, p *planner.Plan) error {
	before, err := m.simulate(p, nil)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "\nPeak in ONNX Runtime's order, each value in a place of its own:\n  everything kept    %s\n", before); err != nil || len(p.Asked) == 0 {
		return err
	}
	after, err := m.simulate(p, p.Asked)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "  with what is ON    %s\n", after)
	return err
}

func (m *Model) simulate(p *planner.Plan, choices []cluster.Choice) (string, error) {
	o := cluster.Rewrite(p.Analysis, choices, 0)
	order, err := cluster.MemoryEfficientOrder(o)
	if err != nil {
		return "", err
	}
	l, err := cluster.Simulate(o, order, m.sizes())
	if err != nil || l.At < 0 {
		return "nothing runs", err
	}
	return fmt.Sprintf("%d bytes at %s, %d kept for the backward pass", l.Peak, o.Nodes[l.At].Name, l.Stored), nil
}

// requested is the plan's clusters as the table takes them.
func requested(p *planner.Plan) (list []cluster.Request) {
	for _, c := range p.Request.Clusters {
		r := cluster.Request{ID: c.ID, Type: c.Strategy, Count: c.Count}
		for _, l := range c.Places {
			r.Places = append(r.Places, cluster.Places(l))
		}
		list = append(list, r)
	}
	return list
}

// planFile is where the clusters were asked for; a level asks for itself.
func (m *Model) planFile() string {
	from, ok := m.Config.Source("config")
	switch {
	case m.Config.Level > 0 || !ok:
		return ""
	case from.Pos.File != "" && from.Pos.File != from.Name && !strings.HasPrefix(from.Pos.File, "--"):
		return from.Pos.File
	}
	text, _ := m.Config.Given("config") // as before 1.19, when the setting was the text
	return text
}

// sizes are those of all names in the file. What has to be one size for the
// graph to run is one name in the graph, and its others have the same size.
func (m *Model) sizes() map[string]int64 {
	sizes := map[string]int64{}
	for name, n := range m.Config.Dims {
		sizes[name] = n
	}
	for range m.Graph.Assumed {
		for _, e := range m.Graph.Assumed {
			a, b := e.A.Names(), e.B.Names()
			if len(a) != 1 || len(b) != 1 || e.A.String() != a[0] || e.B.String() != b[0] {
				continue
			}
			for _, pair := range [][2]string{{a[0], b[0]}, {b[0], a[0]}} {
				if n, ok := sizes[pair[0]]; ok && sizes[pair[1]] == 0 {
					sizes[pair[1]] = n
				}
			}
		}
	}
	return sizes
}

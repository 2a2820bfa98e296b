// Package report puts what was promised beside what was measured: the plan
// table for people, and one line for each owner of memory.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"memopt/planner"
	"memopt/planner/cluster"
)

// Setting is a non-default setting and where it came from.
type Setting struct{ Name, Value, Source string }

// maxRows is how many clusters the table shows before it says how many more
// there are; the JSON has all.
const maxRows = 24

// Plan writes the plan table. Rows and columns are those ONNX Runtime's users
// know; what it saves at the peak stands above.
func Plan(w io.Writer, p *planner.Plan, model string, settings []Setting) {
	fmt.Fprintf(w, "model     %s: %d nodes, %d of them forward\n", model, len(p.Graph.Nodes), forward(p))
	if len(p.Request.Dims) > 0 {
		fmt.Fprintf(w, "dims      %s\n", dims(p.Request.Dims))
	}
	fmt.Fprintf(w, "strategy  %s\n", p.Strategy)
	for _, s := range settings {
		if s.Name != "dims" {
			fmt.Fprintf(w, "setting   %s = %s (%s)\n", s.Name, s.Value, s.Source)
		}
	}
	fmt.Fprintln(w)

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\teverything kept\tthis plan\tfloor\t")
	fmt.Fprintf(t, "peak\t%s\t%s\t%s\t\n", Bytes(p.Baseline.Peak), Bytes(p.Result.Peak), Bytes(p.Floor.Peak))
	fmt.Fprintf(t, "arena\t%s\t%s\t\t\n", Bytes(p.Baseline.Arena), Bytes(p.Arena))
	fmt.Fprintf(t, "kept for backward\t%s\t%s\t\t\n", Bytes(p.Baseline.Stashed), Bytes(p.Result.Stashed))
	fmt.Fprintf(t, "extra compute\t–\t%+.1f %%\t\t\n", 100*p.Result.Overhead)
	fmt.Fprintf(t, "nodes run again\t–\t%d\t\t\n", p.Result.Again)
	t.Flush()
	fmt.Fprintf(w, "\npeak at   %s\n          %s\n", p.Result.PeakNode, clip(p.Result.PeakFormula, 300))
	fmt.Fprintf(w, "floor at  %s\n\n", p.Floor.Node)

	fmt.Fprintln(w, "memory")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, o := range Owners(p) {
		fmt.Fprintf(t, "\t%s\t%s\t\n", o.Name, Bytes(o.Bytes))
	}
	t.Flush()

	if len(p.Clusters) > 0 {
		fmt.Fprintln(w)
		clusters(w, p)
	}
	fmt.Fprintf(w, "\nplanned in %.1f ms\n", float64(p.Took.Microseconds())/1000)
	for _, msg := range p.Warnings {
		fmt.Fprintf(w, "warning: %s\n", msg)
	}
}

// Owner is who holds how much at the peak.
type Owner struct {
	Name  string
	Bytes int64
}

// Owners splits the total that a budget binds.
func Owners(p *planner.Plan) []Owner {
	m := p.Memory
	return []Owner{{"parameters and constants", m.Weights}, {"optimizer states", m.Optimizer}, {"inputs", m.Staging},
		{"gradients at the peak", m.Gradients}, {"activations and work space", m.Activations}, {"total", m.Total}}
}

func clusters(w io.Writer, p *planner.Plan) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\t\tConfigs\tFreq\tMax Saving(Bytes)\tSaving Symbolic(Bytes)")
	for i, r := range p.Clusters {
		if i == maxRows {
			fmt.Fprintf(t, "\t\tand %d more (--format json has all)\t\t\t\n", len(p.Clusters)-maxRows)
			break
		}
		on := "OFF"
		switch {
		case r.Applied == r.Freq:
			on = "ON"
		case r.Applied > 0:
			on = fmt.Sprintf("ON %d", r.Applied)
		}
		fmt.Fprintf(t, " - Plan %d\t%s\t%s\t%d\t%s\t%s\n", i+1, on, clip(r.Key(), 60), r.Freq, Thousands(r.Bytes), clip(cluster.Formula(r.Saving), 60))
	}
	t.Flush()
}

func forward(p *planner.Plan) (n int) {
	for _, node := range p.Graph.Nodes {
		if node.Phase == 0 {
			n++
		}
	}
	return n
}

func dims(m map[string]int64) string {
	var parts []string
	for k, v := range m {
		parts = append(parts, fmt.Sprintf("%s=%d", k, v))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Bytes is a size with three digits and its unit.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	x, i := float64(n), 0
	for x >= 1024 && i < len(units)-1 {
		x, i = x/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.2f %s", x, units[i])
}

// Thousands is a number with commas.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/report"
	"memopt/planner"
)

var explainCommand = &cli.Command{
	Name:      "explain",
	Usage:     "the ledger of a plan: what each choice frees at the peak and costs, and what blocks a lower peak",
	ArgsUsage: "PLAN",
	Flags: common(
		&cli.StringFlag{Name: "node", Usage: "explain one node instead"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PLAN")
		if err != nil {
			return err
		}
		f, err := planner.ReadFile(c.Args().First())
		if err != nil {
			return asInput(err)
		}
		if name := c.String("node"); name != "" {
			return explainNode(c.App.Writer, f, name, asJSON)
		}
		if asJSON {
			f.Steps, f.Offsets, f.Program = nil, nil, nil
			return printJSON(c.App.Writer, f)
		}
		explainPlan(c.App.Writer, f)
		return nil
	},
}

func explainPlan(w io.Writer, f *planner.File) {
	fmt.Fprintf(w, "peak      %s at %s; %s with everything kept\n", report.Bytes(f.Result.Peak), f.Result.PeakNode, report.Bytes(f.Baseline.Peak))
	fmt.Fprintf(w, "cost      %+.1f %% of a step, %d nodes run again\n", 100*f.Result.Overhead, f.Result.Recomputed)
	fmt.Fprintf(w, "floor     %s: %s needs that much by itself\n", report.Bytes(f.Floor.Peak), f.Floor.Node)
	for i, h := range f.Dominant {
		what := "          "
		if i == 0 {
			what = "largest   "
		}
		fmt.Fprintf(w, "%s%s %s (%.0f %% of the peak)\n", what, report.Bytes(h.Bytes), h.Value, 100*float64(h.Bytes)/float64(max(f.Result.Peak, 1)))
	}
	fmt.Fprintln(w, "\nOn, and what the peak would be higher without:")
	ledger(w, f, func(c planner.FileCluster) bool { return c.Applied > 0 })
	fmt.Fprintln(w, "\nOff, and what the peak would be lower with:")
	ledger(w, f, func(c planner.FileCluster) bool { return c.Applied == 0 })
}

func ledger(w io.Writer, f *planner.File, show func(planner.FileCluster) bool) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := 0
	for _, c := range f.Clusters {
		if !show(c) {
			continue
		}
		rows++
		verdict := ""
		switch {
		case c.Applied == 0 && c.PeakEffect <= 0:
			verdict = "does not lower the peak"
		case c.Applied > 0 && c.PeakEffect <= 0:
			verdict = "does not touch the peak by itself"
		}
		fmt.Fprintf(t, "  %s\t%d of %d\tpeak %s\tcost %.2f %%\tkeeps %s\t%s\n", c.Key, c.Applied, c.Freq, report.Bytes(c.PeakEffect), 100*c.Cost, report.Bytes(c.Bytes), verdict)
	}
	t.Flush()
	if rows == 0 {
		fmt.Fprintln(w, "  none")
	}
}

// explainNode tells when a node runs and in which cluster it is.
func explainNode(w io.Writer, f *planner.File, name string, asJSON bool) error {
	node := -1
	var names []string
	for i, line := range f.Program {
		names = append(names, nodeName(line))
		if names[i] == name {
			node = i
		}
	}
	if node < 0 {
		if near, ok := configs.Nearest(name, names); ok {
			return usage("the plan has no node %q; did you mean %q?", name, near)
		}
		return usage("the plan has no node %q", name)
	}
	var first, again []int
	for i, s := range f.Steps {
		switch {
		case int(s.Node) == node && s.Again:
			again = append(again, i)
		case int(s.Node) == node:
			first = append(first, i)
		}
	}
	var in []string
	for _, c := range f.Clusters {
		for _, n := range c.Nodes {
			if n == name {
				in = append(in, c.Key)
			}
		}
	}
	if asJSON {
		return printJSON(w, map[string]any{"node": name, "program": f.Program[node], "steps": first, "again": again, "clusters": in,
			"is_peak": f.Result.PeakNode == name, "is_floor": f.Floor.Node == name})
	}
	fmt.Fprintln(w, f.Program[node])
	switch {
	case len(first) == 0:
		fmt.Fprintln(w, "a view: it has no step and no bytes of its own")
	case len(again) == 0:
		fmt.Fprintf(w, "runs once, at step %d of %d\n", first[0], len(f.Steps))
	default:
		fmt.Fprintf(w, "runs at step %d and again at step %d of %d\n", first[0], again[0], len(f.Steps))
	}
	if len(in) > 0 {
		fmt.Fprintf(w, "heads the cluster %s\n", strings.Join(in, ", "))
	}
	if f.Result.PeakNode == name {
		fmt.Fprintln(w, "the peak is here")
	}
	if f.Floor.Node == name {
		fmt.Fprintln(w, "the floor is here: no plan in this order can go below what this node needs")
	}
	return nil
}

// nodeName is the name in a line of the program: behind @, or the first output.
func nodeName(line string) string {
	if i := strings.LastIndex(line, " @"); i >= 0 && !strings.Contains(line[i:], "=") {
		return strings.Trim(line[i+2:], `"`)
	}
	if strings.HasPrefix(line, `"`) {
		if end := strings.Index(line[1:], `"`); end >= 0 {
			return line[1 : 1+end]
		}
	}
	name, _, _ := strings.Cut(line, " ")
	return name
}

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/visible"
	"memopt/memopt"
	"memopt/memopt/report"
	"memopt/planner"
	"memopt/planner/planfile"
)

var explainCommand = &cli.Command{
	Name:      "explain",
	Category:  "Inspect",
	Usage:     "show what each choice of a plan frees and costs, and what prevents a lower peak",
	ArgsUsage: "PLAN",
	UsageText: "memopt explain gpt.plan.json\n" +
		"memopt explain gpt.plan.json --node transformer.h.0.mlp.act",
	Flags: common(
		&cli.StringFlag{Name: "node", Usage: "`NAME` explain one node instead"},
		htmlFlag("also write it as a self-contained HTML page"),
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PLAN")
		if err != nil {
			return err
		}
		if c.IsSet("node") && c.IsSet("html") {
			return usage("--html writes a page about the whole plan; leave out --node")
		}
		if _, err := destinations(c, configs.Config{}, "html"); err != nil {
			return err
		}
		answer, err := explanation(c.Context, c.Args().First(), c.String("node"), c.String("html"), typed(c, configs.Config{}))
		if err != nil {
			return err
		}
		return answer.print(c, asJSON)
	},
}

// explanation explains a plan file, or a node in it, and writes the page if html is a path.
func explanation(ctx context.Context, path, node, html, command string) (answer, error) {
	f, err := memopt.ReadPlan(path)
	if err != nil {
		return answer{}, err
	}
	if html != "" {
		if err := writePage(ctx, html, report.Page{Title: filepath.Base(f.Model.Path), File: f, Settings: carried(f, path), Command: command}); err != nil {
			return answer{}, err
		}
	}
	if node != "" {
		return explainNode(f, node)
	}
	bare := *f
	bare.Steps, bare.Offsets, bare.Program = []planner.Step{}, []int64{}, []string{}
	return answer{&bare, func(w io.Writer) { explainPlan(w, f) }}, nil
}

// carried lists the settings of the plan's step.
func carried(f *planfile.File, path string) (out []report.Setting) {
	for name, value := range f.Settings {
		out = append(out, report.Setting{Name: name, Value: value, Source: path})
	}
	slices.SortFunc(out, func(a, b report.Setting) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func explainPlan(w io.Writer, f *planfile.File) {
	rows := [][]string{
		{"peak", fmt.Sprintf("%s at %s; %s with everything kept", report.Bytes(f.Result.Peak), f.Result.PeakNode, report.Bytes(f.Baseline.Peak))},
		{"cost", fmt.Sprintf("%s of the step's %s, %d nodes run again", report.Extra(f.Result.Overhead, 2), f.Unit(), f.Result.Recomputed)},
		{"bound", fmt.Sprintf("%s at least for this peak, so at most %.2f points could be saved", report.Extra(f.Bound.Overhead, 2), 100*f.Bound.Gap)},
		{"floor", fmt.Sprintf("%s: no plan goes below what node %s needs", report.Bytes(f.Floor.Peak), f.Floor.Node)},
	}
	if text := report.Tiles(f.Tiles); text != "" {
		rows = append(rows, []string{"rows", text})
	}
	if text := report.FileOffload(f); text != "" {
		rows = append(rows, []string{"moves", text})
	}
	if text := report.States(f.Streamed); text != "" {
		rows = append(rows, []string{"updates", text})
	}
	rows = append(rows, report.Largest(f.Dominant, f.Result.Peak)...)
	if above := f.Result.Peak - f.Floor.Peak; above > 0 {
		rows = append(rows, []string{"blocks", fmt.Sprintf("%s more than the floor are alive at %s; to lower the peak, recompute a kept row below", report.Bytes(above), f.Result.PeakNode)})
	} else {
		rows = append(rows, []string{"blocks", fmt.Sprintf("the peak is the floor: %s reads, writes and holds this much whatever is recomputed", f.Floor.Node)})
	}
	report.Table(w, "lt", rows)
	fmt.Fprintln(w, "\nRecomputed; without it the peak would be higher by")
	ledger(w, f, func(c planner.Cluster) bool { return c.Applied > 0 })
	fmt.Fprintln(w, "\nKept; if recomputed, the peak would be lower by")
	ledger(w, f, func(c planner.Cluster) bool { return c.Applied == 0 })
	if f.Formulas != nil && len(f.Formulas.Ranges) > 0 {
		fmt.Fprintln(w, "\nPeak of the same choices for other sizes")
		report.Ranges(w, f.Formulas)
	}
}

// notTaken says why a cluster that would lower the peak is kept: no limit requires it, or other
// clusters cost less per byte freed.
func notTaken(f *planfile.File, c planner.Cluster) string {
	limited := f.Request.Budget > 0 || f.Request.ActivationBudget > 0 || f.Request.MaxOverhead > 0
	price := func(c planner.Cluster) float64 { return c.Cost / float64(max(c.PeakEffect, 1)) }
	worst := -1.0
	for _, other := range f.Clusters {
		if other.Applied > 0 && other.PeakEffect > 0 && price(other) > worst {
			worst = price(other)
		}
	}
	fits := f.Request.Budget > 0 && f.Memory.Total <= f.Request.Budget || f.Request.ActivationBudget > 0 && f.Result.Arena <= f.Request.ActivationBudget
	const mebibyte = 1 << 20
	perMiB := func(p float64) string { return fmt.Sprintf("%.3g %% a MiB", 100*p*mebibyte) }
	switch {
	case !limited:
		return "no limit requires it"
	case worst >= 0 && price(c) > worst:
		return fmt.Sprintf("costs more: %s, against at most %s of those above", perMiB(price(c)), perMiB(worst))
	case f.Request.MaxOverhead > 0 && f.Result.Overhead+c.Cost > f.Request.MaxOverhead:
		return "over the limit of extra " + f.Unit()
	case fits:
		return "the budget is met without it"
	}
	return "others were better, given what is recomputed already"
}

// ledger lists clusters with their effect on the peak and their cost.
func ledger(w io.Writer, f *planfile.File, show func(planner.Cluster) bool) {
	rows := [][]string{{"", "peak", "cost", "bytes", "again", "cluster", ""}}
	for _, c := range f.Clusters {
		if !show(c) {
			continue
		}
		effect, verdict := report.Bytes(c.PeakEffect), ""
		switch {
		case c.Applied > 0 && c.PeakEffect <= 0:
			effect, verdict = "–", "the peak would be the same"
		case c.PeakEffect < 0:
			effect, verdict = "–", "the peak would be higher: its inputs would be kept longer"
		case c.PeakEffect == 0:
			effect, verdict = "–", "it is not alive at the peak"
			if slices.ContainsFunc(f.Model.Holds, func(h planfile.Hold) bool { return slices.Contains(c.Nodes, h.Maker) }) {
				verdict += ", or the program holds it there"
			}
		case c.Applied == 0:
			verdict = notTaken(f, c)
		}
		rows = append(rows, []string{"", effect, fmt.Sprintf("%.2f %%", 100*c.Cost), report.Bytes(c.Bytes), fmt.Sprintf("%d of %d", c.Applied, c.Freq), c.Key, verdict})
	}
	if len(rows) == 1 {
		fmt.Fprintln(w, "  none")
		return
	}
	report.Table(w, "=lrrr2r1nt", rows)
}

// explainNode shows when a node runs, and its clusters.
func explainNode(f *planfile.File, name string) (answer, error) {
	node := -1
	var names []string
	for i, line := range f.Program {
		names = append(names, graph.ParseLine(line).Name)
		if names[i] == name {
			node = i
		}
	}
	if node < 0 {
		if near, ok := configs.Nearest(name, names); ok {
			return answer{}, usage("the plan has no node %q; did you mean %q?", name, near)
		}
		return answer{}, usage("the plan has no node %q; memopt plan MODEL --show graph lists all", name)
	}
	first, again, in := []int{}, []int{}, []string{}
	for i, s := range f.Steps {
		switch {
		case int(s.Node) == node && s.Again:
			again = append(again, i)
		case int(s.Node) == node:
			first = append(first, i)
		}
	}
	for _, c := range f.Clusters {
		for _, n := range c.Nodes {
			if n == name {
				in = append(in, c.Key)
			}
		}
	}
	held := []planfile.Hold{}
	for _, h := range f.Model.Holds {
		if h.Maker == name {
			held = append(held, h)
		}
	}
	return answer{map[string]any{"format": "memopt.explain/1", "node": name, "program": f.Program[node], "steps": first, "again": again, "clusters": in,
		"held": held, "is_peak": f.Result.PeakNode == name, "is_floor": f.Floor.Node == name}, func(w io.Writer) { printNode(w, f, node, first, again, in, held) }}, nil
}

// printNode prints when a node runs first and again, the clusters that it heads, and how long the
// program holds its outputs.
func printNode(w io.Writer, f *planfile.File, node int, first, again []int, in []string, held []planfile.Hold) {
	name := graph.ParseLine(f.Program[node]).Name
	visible.Fprintf(w, "%s\n", f.Program[node])
	switch {
	case len(first) == 0:
		fmt.Fprintln(w, "a view: it has no step and no bytes of its own")
	case len(again) == 0:
		fmt.Fprintf(w, "runs once, at step %d of %d\n", first[0], len(f.Steps))
	default:
		fmt.Fprintf(w, "runs at step %d and again at step %d of %d\n", first[0], again[0], len(f.Steps))
	}
	if len(in) > 0 {
		visible.Fprintf(w, "heads the cluster %s\n", strings.Join(in, ", "))
	}
	for _, h := range held {
		visible.Fprintf(w, "the program holds %s until %s has run, whatever the plan\n", h.Value, h.Until)
	}
	if f.Result.PeakNode == name {
		fmt.Fprintln(w, "the peak is here")
	}
	if f.Floor.Node == name {
		fmt.Fprintln(w, "the floor is here: no plan in this order can go below what this node needs")
	}
}

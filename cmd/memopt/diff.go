package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"memopt/internal/visible"
	"memopt/memopt"
	"memopt/memopt/report"
	"memopt/planner/planfile"
)

var diffCommand = &cli.Command{
	Name:      "diff",
	Category:  "Inspect",
	Usage:     "compare two plans: figures, clusters, and nodes that only one recomputes or values that only one keeps",
	ArgsUsage: "PLAN PLAN",
	UsageText: "memopt diff before.json after.json",
	Flags:     common(),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PLAN PLAN")
		if err != nil {
			return err
		}
		a, err := memopt.ReadPlan(c.Args().Get(0))
		if err != nil {
			return err
		}
		b, err := memopt.ReadPlan(c.Args().Get(1))
		if err != nil {
			return err
		}
		d := compareFiles(a, b)
		if d.SameModel = a.Model.Fingerprint == b.Model.Fingerprint; !d.SameModel {
			warn(c, "the plans are for different graphs; nodes are compared by name")
		}
		if asJSON {
			return printJSON(c.App.Writer, d)
		}
		d.print(c.App.Writer)
		return nil
	},
}

// diffFile is the JSON of diff: A is of the first plan, B of the second.
type diffFile struct {
	Format    string        `json:"format"`
	SameModel bool          `json:"same_model"`
	Figures   []figureFile  `json:"figures"`
	Clusters  []clusterFile `json:"clusters"` // those recomputed at different numbers of places
	Again     onlyFile      `json:"again"`
	Saved     onlyFile      `json:"saved"`
}

type figureFile struct {
	Name string  `json:"name"`
	A    float64 `json:"a"`
	B    float64 `json:"b"`
	unit func(float64) string
}

// inLimit is inBytes of a limit, of which 0 is none.
func inLimit(x float64) string {
	if x == 0 {
		return none
	}
	return inBytes(x)
}

// none is the placeholder of a missing figure.
const none = "–"

type clusterFile struct {
	Key  string `json:"key"`
	Freq int    `json:"freq"`
	A    int    `json:"a"`
	B    int    `json:"b"`
}

// onlyFile lists the names that are in one of two lists only.
type onlyFile struct {
	A []string `json:"a"`
	B []string `json:"b"`
}

func inBytes(x float64) string { return report.Bytes(int64(x)) }
func percent(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }
func counted(x float64) string { return fmt.Sprintf("%.0f", x) }

func compareFiles(a, b *planfile.File) diffFile {
	d := diffFile{Format: "memopt.diff/1", Clusters: []clusterFile{}}
	unit := a.Unit()
	if other := b.Unit(); other != unit {
		unit += " and " + other
	}
	for _, f := range []struct {
		name string
		of   func(*planfile.File) float64
		unit func(float64) string
	}{
		{"budget", func(f *planfile.File) float64 { return float64(f.Request.Budget) }, inLimit},
		{"arena budget", func(f *planfile.File) float64 { return float64(f.Request.ActivationBudget) }, inLimit},
		{"everything kept", func(f *planfile.File) float64 { return float64(f.Baseline.Peak) }, inBytes},
		{"peak", func(f *planfile.File) float64 { return float64(f.Result.Peak) }, inBytes},
		{"arena", func(f *planfile.File) float64 { return float64(f.Result.Arena) }, inBytes},
		{"kept for backward", func(f *planfile.File) float64 { return float64(f.Result.Stashed) }, inBytes},
		{"total", func(f *planfile.File) float64 { return float64(f.Memory.Total) }, inBytes},
		{"floor", func(f *planfile.File) float64 { return float64(f.Floor.Peak) }, inBytes},
		{"extra " + unit, func(f *planfile.File) float64 { return f.Result.Overhead }, percent},
		{"its bound", func(f *planfile.File) float64 { return f.Bound.Overhead }, percent},
		{"nodes run again", func(f *planfile.File) float64 { return float64(f.Result.Recomputed) }, counted},
	} {
		if x, y := f.of(a), f.of(b); x != 0 || y != 0 {
			d.Figures = append(d.Figures, figureFile{f.name, x, y, f.unit})
		}
	}
	d.Clusters = differentClusters(a, b)
	d.Again = only(a.RunAgain(), b.RunAgain())
	d.Saved = only(a.Saved, b.Saved)
	return d
}

func differentClusters(a, b *planfile.File) []clusterFile {
	out := []clusterFile{}
	add := func(key string, freq, x, y int) {
		if x != y && !slices.ContainsFunc(out, func(c clusterFile) bool { return c.Key == key }) {
			out = append(out, clusterFile{key, freq, x, y})
		}
	}
	applied := func(f *planfile.File, key string) int {
		for _, c := range f.Clusters {
			if c.Key == key {
				return c.Applied
			}
		}
		return 0
	}
	for _, c := range a.Clusters {
		add(c.Key, c.Freq, c.Applied, applied(b, c.Key))
	}
	for _, c := range b.Clusters {
		add(c.Key, c.Freq, applied(a, c.Key), c.Applied)
	}
	return out
}

func only(a, b []string) onlyFile {
	without := func(x, y []string) []string {
		has := map[string]bool{}
		for _, n := range y {
			has[n] = true
		}
		out := []string{}
		for _, n := range x {
			if !has[n] {
				out = append(out, n)
				has[n] = true
			}
		}
		return out
	}
	return onlyFile{without(a, b), without(b, a)}
}

func (d *diffFile) print(w io.Writer) {
	rows := [][]string{{"", "first", "second", "change"}}
	for _, f := range d.Figures {
		a, b, change := f.unit(f.A), f.unit(f.B), none
		if f.A != f.B && a != none && b != none {
			change = f.unit(f.B - f.A)
			if f.B > f.A {
				change = "+" + change
			}
		}
		rows = append(rows, []string{f.Name, a, b, change})
	}
	report.Table(w, "=lrrr", rows)
	if len(d.Clusters) > 0 {
		fmt.Fprintln(w, "\nRun again")
		rows = [][]string{{"", "first", "second", "of", "cluster"}}
		for _, c := range d.Clusters {
			rows = append(rows, []string{"", fmt.Sprint(c.A), fmt.Sprint(c.B), fmt.Sprint(c.Freq), c.Key})
		}
		report.Table(w, "=lrrrn", rows)
	}
	for _, l := range []struct {
		what  string
		names []string
	}{
		{"Nodes that only the first runs again", d.Again.A}, {"Nodes that only the second runs again", d.Again.B},
		{"Values that only the first keeps for the backward pass", d.Saved.A}, {"Values that only the second keeps for the backward pass", d.Saved.B},
	} {
		if len(l.names) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s: %d\n", l.what, len(l.names))
		for i, n := range l.names {
			if i == maxNames {
				fmt.Fprintf(w, "  and %d more (--format json has all)\n", len(l.names)-maxNames)
				break
			}
			visible.Fprintf(w, "  %s\n", n)
		}
	}
}

// maxNames is the number of names shown of a list.
const maxNames = 12

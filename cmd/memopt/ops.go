package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/memopt/report"
)

var opsCommand = &cli.Command{
	Name:      "ops",
	Usage:     "the operator library: what runs, what has a gradient, what the planner may repeat",
	ArgsUsage: " ",
	Flags: common(
		&cli.StringFlag{Name: "verify", Usage: "`DIR` run the ONNX project's node tests in it, or in a zip of it"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		if dir := c.String("verify"); dir != "" {
			return verifyOps(c, dir, asJSON)
		}
		var rows []opRow
		for _, op := range kernels.Library.All() {
			rows = append(rows, describe(op))
		}
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.ops/1", "ops": rows})
		}
		table := [][]string{{"operator", "since", "gradient", "again", "in place", "what it does"}}
		for _, r := range rows {
			table = append(table, []string{r.Name, since(r.Since), r.Gradient, r.Recompute, r.InPlace, r.Doc})
		}
		report.Table(c.App.Writer, "llllll", table)
		fmt.Fprintf(c.App.Writer, "\n%d forms of operators\n", len(rows))
		return nil
	},
}

// opRow is an operator's facets as text.
type opRow struct {
	Name      string `json:"name"`
	Domain    string `json:"domain"`
	Since     int    `json:"since"`
	Inputs    string `json:"inputs"`
	Outputs   string `json:"outputs"`
	Attrs     string `json:"attributes"`
	Gradient  string `json:"gradient"`
	Recompute string `json:"recompute"`
	InPlace   string `json:"in_place"`
	Random    bool   `json:"random"`
	Optimizer string `json:"optimizer,omitempty"`
	Doc       string `json:"doc"`
}

func describe(op *graph.Op) opRow {
	r := opRow{Name: op.FullName(), Domain: op.Domain, Since: op.Since, Inputs: op.In, Outputs: op.Out, Attrs: op.Attrs,
		Gradient: "yes", Recompute: op.Recompute.String(), Random: op.Random, Optimizer: op.Optimizer, Doc: op.Doc}
	switch {
	case op.Rewrite != nil:
		r.Gradient, r.Recompute = "rewritten", "–"
		if r.Doc == "" {
			r.Doc = "an older form"
		}
	case op.NoGrad:
		r.Gradient = "none flows"
	case op.Grad == nil:
		r.Gradient = "no"
	}
	switch {
	case op.View:
		r.InPlace, r.Recompute = "view", "free"
	case op.Overwrites != nil:
		r.InPlace = "always"
	case len(op.InPlace) > 0:
		r.InPlace = "over " + strings.Trim(fmt.Sprint(op.InPlace), "[]")
	}
	return r
}

func since(n int) string {
	if n == 0 {
		return "any"
	}
	return fmt.Sprint(n)
}

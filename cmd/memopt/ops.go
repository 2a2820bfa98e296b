package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/report"
)

var opsCommand = &cli.Command{
	Name:      "ops",
	Category:  "This machine",
	Usage:     "list the operators: types, gradients, whether they may be recomputed",
	ArgsUsage: " ",
	UsageText: "memopt ops\n" +
		"memopt ops --format json",
	Flags: common(
		&cli.StringFlag{Name: "verify", Usage: "`DIR` run the ONNX project's node tests in this folder, or a zip of it"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		if dir := c.String("verify"); dir != "" {
			return verifyOps(c, dir, asJSON)
		}
		rows := describeAll()
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.ops/1", "ops": rows})
		}
		table := [][]string{{"operator", "opsets", "types", "gradient", "again", "in place", "vulkan", "what it does"}}
		for _, r := range rows {
			table = append(table, []string{r.Name, joinInts(r.Opsets), typesText(r.Types), r.Gradient, r.Recompute, r.InPlace, yes(r.Vulkan), r.Doc})
		}
		report.Table(c.App.Writer, "=nt2t4l6l3l1l5t", table)
		fmt.Fprintf(c.App.Writer, "\n%d operators\n", len(rows))
		return nil
	},
}

// opRow is an operator's facets as text.
type opRow struct {
	Name      string   `json:"name"`
	Domain    string   `json:"domain"`
	Since     int      `json:"since"`
	Opsets    []int    `json:"opsets"` // opsets whose form of it can be read
	Types     []string `json:"types"`
	Inputs    string   `json:"inputs"`
	Outputs   string   `json:"outputs"`
	Attrs     string   `json:"attributes"`
	Gradient  string   `json:"gradient"`
	Recompute string   `json:"recompute"`
	InPlace   string   `json:"in_place"`
	Vulkan    bool     `json:"vulkan"` // it has kernels, or needs none
	Random    bool     `json:"random"`
	Optimizer string   `json:"optimizer,omitempty"`
	Doc       string   `json:"doc"`
}

// describeAll describes the newest form of each operator.
func describeAll() []opRow {
	var rows []opRow
	for _, op := range kernels.Library.All() {
		if kernels.Library.Find(op.Domain, op.Name, 0) == op {
			rows = append(rows, describe(op))
		}
	}
	return rows
}

func describe(op *graph.Op) opRow {
	r := opRow{Name: op.FullName(), Domain: op.Domain, Since: op.Since, Opsets: opsets(op), Types: []string{},
		Inputs: op.In, Outputs: op.Out, Attrs: op.Attrs,
		Gradient: "yes", Recompute: op.Recompute.String(), InPlace: "no", Vulkan: op.Lower != nil || op.View || op.Rewrite != nil, Random: op.Random, Optimizer: op.Optimizer, Doc: op.Doc}
	for _, t := range kernels.Types(op) {
		r.Types = append(r.Types, t.String())
	}
	switch {
	case op.Rewrite != nil:
		// Its facets are those of the operators that replace it.
		r.Gradient, r.Recompute, r.InPlace = "rewritten", "rewritten", "rewritten"
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
		r.InPlace = "over " + joinInts(op.InPlace)
	}
	return r
}

// opsets lists the opsets whose form of the operator is in the library.
func opsets(op *graph.Op) []int {
	return slices.DeleteFunc(onnx.Forms(op.Domain, op.Name), func(n int) bool {
		return kernels.Library.Find(op.Domain, op.Name, n) == nil
	})
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func joinInts(ns []int) string { return strings.Trim(fmt.Sprint(ns), "[]") }

// typeNames names sets of types.
var typeNames = []struct {
	name  string
	types []string
}{
	{"all", []string{"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"}},
	{"all but f8", []string{"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"}},
	{"numbers", []string{"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}},
	{"floats", []string{"f32", "f64", "f16", "bf16"}},
	{"integers", []string{"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}},
}

// typesText abbreviates a list of types.
func typesText(types []string) string {
	left, words := slices.Clone(types), []string{}
	for _, set := range typeNames {
		if !slices.ContainsFunc(set.types, func(t string) bool { return !slices.Contains(left, t) }) {
			words = append(words, set.name)
			left = slices.DeleteFunc(left, func(t string) bool { return slices.Contains(set.types, t) })
		}
	}
	return strings.Join(append(words, left...), " ")
}

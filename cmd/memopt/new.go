package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/memopt/report"
	"memopt/memopt/tensorfile"
	"memopt/memopt/zoo"
)

var newCommand = &cli.Command{
	Name:      "new",
	Usage:     "write a small ONNX model with symbolic batch and sequence: gpt, bert, llama, resnet or mlp",
	ArgsUsage: "FAMILY",
	Flags:     common(newFlags()...),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "FAMILY")
		if err != nil {
			return err
		}
		spec := zoo.Spec{Family: c.Args().First(), Dropout: c.Float64("dropout"), Untied: c.Bool("untied"), Gelu: c.String("gelu"), Seed: c.Uint64("seed")}
		for _, n := range zoo.Numbers() {
			*n.Of(&spec) = c.Int(n.Name)
		}
		g, err := zoo.New(spec, kernels.Library)
		if err != nil {
			return asInput(err)
		}
		to := c.String("output")
		if to == "" {
			to = spec.Family + ".onnx"
		}
		if err := onnx.Write(to, g); err != nil {
			return asInput(err)
		}
		if path := c.String("data"); path != "" {
			if err := writeData(c, spec, path); err != nil {
				return err
			}
		}
		return describeModel(c, g, to, asJSON)
	},
}

// newFlags are the numbers of a model, and where to write it.
func newFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "the ONNX file (default FAMILY.onnx)"},
		&cli.Uint64Flag{Name: "seed", Usage: "of the initial values and the data"},
		&cli.Float64Flag{Name: "dropout", Usage: "probability"},
		&cli.BoolFlag{Name: "untied", Usage: "give the head a matrix of its own"},
		&cli.StringFlag{Name: "gelu", Usage: "none (exact) or tanh"},
		&cli.StringFlag{Name: "data", Usage: "also write training data (npz)"},
		&cli.IntFlag{Name: "samples", Value: 256, Usage: "rows of the data"},
		&cli.IntFlag{Name: "seq", Usage: "length of the data's sequences"},
	}
	for _, n := range zoo.Numbers() {
		flags = append(flags, &cli.IntFlag{Name: n.Name, Usage: n.Doc, Category: "sizes"})
	}
	return flags
}

func writeData(c *cli.Context, spec zoo.Spec, path string) error {
	seq := c.Int("seq")
	for _, f := range zoo.Families() {
		if f.Name == spec.Family && seq == 0 {
			seq = f.Seq
		}
	}
	data, err := zoo.Data(spec, c.Int("samples"), seq, spec.Seed)
	if err != nil {
		return asInput(err)
	}
	set := &tensorfile.Set{Tensors: data}
	for name := range data {
		set.Names = append(set.Names, name)
	}
	slices.Sort(set.Names)
	return asInput(tensorfile.WriteNPZ(path, set))
}

func describeModel(c *cli.Context, g *graph.Graph, to string, asJSON bool) error {
	var params, bytes int64
	for _, v := range g.Values {
		if v.Kind == graph.Param {
			n, _ := v.Shape.Elems().Const()
			params, bytes = params+n, bytes+n*v.Type.Size()
		}
	}
	if asJSON {
		return printJSON(c.App.Writer, map[string]any{"format": "memopt.new/1", "path": to, "nodes": len(g.Nodes),
			"parameters": params, "bytes": bytes, "dims": g.Names()})
	}
	fmt.Fprintf(c.App.Writer, "%s: %d nodes, %s parameters (%s), dims %s\n", filepath.Base(to), len(g.Nodes), report.Thousands(params), report.Bytes(bytes), strings.Join(g.Names(), ", "))
	return nil
}

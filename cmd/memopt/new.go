package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/tensorfile"
	"memopt/internal/visible"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/machine"
	"memopt/memopt/report"
)

var newCommand = &cli.Command{
	Name:      "new",
	Category:  "Models",
	Usage:     "write a small ONNX model for experiments: gpt, bert, llama, resnet or mlp",
	ArgsUsage: "FAMILY",
	UsageText: "memopt new gpt -o gpt.onnx --layers 4 --data gpt.npz --seq 64",
	Flags:     common(newFlags()...),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "FAMILY")
		if err != nil {
			return err
		}
		spec := zoo.Spec{Family: c.Args().First(), Dropout: c.Float64("dropout"), Untied: c.Bool("untied"), Gelu: c.String("gelu"), Seed: c.Uint64("seed")}
		for _, n := range zoo.Numbers() {
			if *n.Of(&spec) = c.Int(n.Name); c.IsSet(n.Name) && c.Int(n.Name) == 0 {
				return usage("--%s must be at least 1; leave it out for the family's default", n.Name)
			}
		}
		if c.IsSet("seq") {
			if err := longEnough(c, &spec); err != nil {
				return err
			}
		}
		if _, err := destinations(c, configs.Config{}, "output", "data"); err != nil {
			return err
		}
		g, err := zoo.New(spec, kernels.Library)
		if err != nil {
			return asInput(err)
		}
		data, err := newData(c, spec, g)
		if err != nil {
			return err
		}
		to := c.String("output")
		if to == "" {
			to = spec.Family + ".onnx"
		}
		done := busy(c, "writing "+filepath.Base(to))
		err = onnx.Write(to, g)
		done()
		if err != nil {
			return asInput(err)
		}
		if data != nil {
			if err := tensorfile.WriteNPZ(c.String("data"), data); err != nil {
				return asInput(err)
			}
		}
		if err := describeModel(c, g, to, asJSON); err != nil || data == nil || asJSON {
			return err
		}
		_, err = visible.Fprintf(c.App.Writer, "%s: %d rows, to train with:\n  memopt train %s --data %s --dims %s --warmup 20\n", filepath.Base(c.String("data")), c.Int("samples"), to, c.String("data"), configs.ShellWord(dimsOf(g, data)))
		return err
	},
}

// newFlags lists the flags of sizes and files.
func newFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` where to write the model (default FAMILY.onnx)"},
		&cli.Uint64Flag{Name: "seed", Usage: "`N` seed of initial values and data (default 0)"},
		&cli.Float64Flag{Name: "dropout", Usage: "`P` probability of dropout (default 0: none)"},
		&cli.BoolFlag{Name: "untied", Usage: "do not share the head's matrix with the embedding"},
		&cli.StringFlag{Name: "gelu", Usage: "`FORM` of gelu: none (exact) or tanh"},
		&cli.StringFlag{Name: "data", Usage: "`FILE` also write training data (npz)"},
		&cli.IntFlag{Name: "samples", Value: 256, Usage: "`N` rows of the data (default 256)"},
		&cli.IntFlag{Name: "seq", Usage: "`N` tokens in a row of the data; the model gets as many positions"},
	}
	for _, n := range zoo.Numbers() {
		flags = append(flags, &cli.IntFlag{Name: n.Name, Usage: "`N` " + n.Doc, Category: "Sizes (each family has its defaults)"})
	}
	return flags
}

// longEnough gives a model as many positions as --seq needs, if it has fewer by default.
func longEnough(c *cli.Context, spec *zoo.Spec) error {
	seq := c.Int("seq")
	if seq < 1 {
		return usage("--seq must be at least 1, not %d", seq)
	}
	for _, f := range zoo.Families() {
		switch {
		case f.Name != spec.Family:
		case f.Seq == 0:
			return usage("--seq: %s reads no sequences", f.Name)
		case f.Defaults.Positions > 0 && !c.IsSet("positions"):
			spec.Positions = max(seq, f.Defaults.Positions)
		}
	}
	return nil
}

// newData makes the data for --data; nil without it.
func newData(c *cli.Context, spec zoo.Spec, g *graph.Graph) (*tensorfile.Set, error) {
	for _, v := range g.Values {
		if n, ok := v.Bytes().Const(); ok && v.Kind == graph.Param {
			if err := machine.Fits(n, "parameter "+v.Name, "; smaller --width, --vocab or --hidden would fit"); err != nil {
				return nil, err
			}
		}
	}
	if c.String("data") == "" {
		return nil, nil
	}
	seq := c.Int("seq")
	for _, f := range zoo.Families() {
		if f.Name == spec.Family && !c.IsSet("seq") {
			seq = f.Seq
		}
	}
	if b, err := graph.Bind(map[string]int64{"batch": max(1, int64(c.Int("samples"))), "seq": max(1, int64(seq))}); err == nil {
		for _, v := range g.Inputs {
			n, err := b.Eval(v.Bytes())
			if err != nil {
				return nil, asInput(err)
			}
			if err := machine.Fits(n, "the data of "+v.Name, "; fewer --samples would fit"); err != nil {
				return nil, err
			}
		}
	}
	arrays, err := zoo.Data(spec, c.Int("samples"), seq, spec.Seed)
	if err != nil {
		return nil, asInput(err)
	}
	return &tensorfile.Set{Tensors: arrays, Names: slices.Sorted(maps.Keys(arrays))}, nil
}

// dimsOf is the sizes of dims for training on the data, with a small batch.
func dimsOf(g *graph.Graph, data *tensorfile.Set) string {
	const few = 8
	sizes := map[string]int64{}
	for _, v := range g.Inputs {
		for i, d := range v.Shape {
			if _, fixed := d.Const(); !fixed {
				sizes[d.String()] = int64(data.Tensors[v.Name].Shape[i])
			}
			if i == 0 {
				sizes[d.String()] = min(sizes[d.String()], few)
			}
		}
	}
	return configs.FormatDims(sizes)
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
	visible.Fprintf(c.App.Writer, "%s: %d nodes, %s parameters (%s), dims %s\n", filepath.Base(to), len(g.Nodes), report.Thousands(params), report.Bytes(bytes), strings.Join(g.Names(), ", "))
	return nil
}

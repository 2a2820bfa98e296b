package main

import (
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/visible"
	"memopt/memopt/report"
	"memopt/memopt/step"
)

var optimizeCommand = &cli.Command{
	Name:        "optimize",
	Category:    "Models",
	Usage:       "fold constants, clean up and fuse a forward graph, and save it",
	ArgsUsage:   "MODEL",
	UsageText:   "memopt optimize gpt.onnx -o gpt.clean.onnx",
	Description: "Planning applies the same passes; parameters, inputs and outputs keep their names.",
	Flags: settingFlags("optimize",
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` where to write the model (ONNX)"},
	),
	Action: onModel(func(c *cli.Context, cfg configs.Config, asJSON bool) error {
		to, err := written(c, cfg)
		if err != nil {
			return err
		}
		path := c.Args().First()
		done := busy(c, "optimizing "+filepath.Base(path))
		r, err := step.Optimize(path, to, cfg)
		done()
		if err != nil {
			return err
		}
		warn(c, r.Warnings...)
		if !asJSON {
			if r.Passes != nil && r.InFile != r.Before {
				fmt.Fprintf(c.App.Writer, "%-10s%6d nodes, %d after reading\n", "file", r.InFile, r.Before)
			}
			report.Text(c.App.Writer, 26, "%s", visible.Lines(r.Report.String()))
			return nil
		}
		type pass struct {
			Name  string         `json:"name"`
			Nodes int            `json:"nodes"`
			Made  map[string]int `json:"made"`
		}
		passes := []pass{}
		for _, p := range r.Passes {
			made := map[string]int{}
			for _, m := range p.Made {
				made[m.Op] = m.Count
			}
			passes = append(passes, pass{p.Name, -p.Gone, made})
		}
		return printJSON(c.App.Writer, map[string]any{"format": "memopt.optimize/1", "path": to,
			"nodes_in_file": r.InFile, "nodes_before": r.Before, "nodes_after": r.After, "passes": passes})
	}),
}

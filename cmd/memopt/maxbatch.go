package main

import (
	"path/filepath"

	"github.com/urfave/cli/v2"

	"memopt/memopt/report"
	"memopt/memopt/visible"
)

var maxbatchCommand = &cli.Command{
	Name:      "maxbatch",
	Usage:     "the largest batch, or other dim, that fits a budget, and its plan",
	ArgsUsage: "MODEL",
	Description: "memopt maxbatch gpt.onnx --dims seq=1024 --budget 24GiB\n" +
		"memopt maxbatch gpt.onnx --dims batch=8 --dim seq --budget 24GiB --max-overhead 10%\n" + refusalDoc,
	Flags: settingFlags("maxbatch",
		profileFlag(),
		&cli.StringFlag{Name: "dim", Usage: "`NAME` the dim to enlarge (default batch)"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the plan (JSON)"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "MODEL")
		if err != nil {
			return err
		}
		j, err := newJob(c, "output")
		if err != nil {
			return err
		}
		for _, b := range []struct {
			name    string
			percent float64
		}{{"budget", j.cfg.Budget.Percent}, {"activation-budget", j.cfg.ActivationBudget.Percent}} {
			if b.percent > 0 {
				return usage("--%s is a size in bytes here: a share of what a batch takes does not bind the batch", b.name)
			}
		}
		if j.cfg.Budget.IsZero() && j.cfg.ActivationBudget.IsZero() {
			return usage("memopt maxbatch needs --budget or --activation-budget")
		}
		dim := c.String("dim")
		if dim == "" {
			dim = "batch"
		}
		model, err := j.open()
		if err != nil {
			return err
		}
		defer model.Close()
		done := busy(c, "planning")
		plan, err := model.Largest(dim)
		done()
		if err != nil {
			return refused(c, asJSON, err)
		}
		warn(c, plan.Warnings...)
		size := plan.Request.Dims[dim]
		file := model.PlanFile(plan)
		if to := c.String("output"); to != "" {
			if err := file.Save(to); err != nil {
				return asInput(err)
			}
		}
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.maxbatch/1", "dim": dim, "size": size, "search_ended": plan.SearchEnded, "dims": plan.Request.Dims,
				"total": plan.Memory.Total, "arena": plan.Arena, "peak": plan.Result.Peak, "overhead": plan.Result.Overhead,
				"recomputed_nodes": plan.Result.Again, "ms": float64(plan.Took.Microseconds()) / 1000, "plan": file})
		}
		verdict := "is the largest that fits"
		if plan.SearchEnded {
			verdict = "fits, and is the largest that is looked for"
		}
		visible.Fprintf(c.App.Writer, "%s = %d %s\n\n", dim, size, verdict)
		report.Plan(c.App.Writer, plan, filepath.Base(model.Path), shownSettings(model, j.profile))
		return nil
	},
}

package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"memopt/memopt"
	"memopt/memopt/report"
)

var checkCommand = &cli.Command{
	Name:      "check",
	Category:  "Inspect",
	Usage:     "verify a plan against its model: order, overlap, peak",
	ArgsUsage: "PLAN MODEL",
	UsageText: "memopt check gpt.plan.json gpt.onnx",
	Description: "The settings that the step was made with are in the plan. What is given here the plan must keep: " +
		"other dims, a smaller limit or another step make it fail.",
	Flags: settingFlags("check"),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PLAN MODEL")
		if err != nil {
			return err
		}
		cfg, err := settings(c)
		if err != nil {
			return err
		}
		done := busy(c, "checking")
		p, err := memopt.LoadPlan(c.Args().Get(0), c.Args().Get(1), cfg)
		done()
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.check/1", "ok": true, "peak": p.Result.Peak,
				"arena": p.Arena, "steps": len(p.Steps), "recomputed_nodes": p.Result.Again})
		}
		fmt.Fprintf(c.App.Writer, "ok: %d steps, %d of them again, peak %s, arena %s\n",
			len(p.Steps), p.Result.Again, report.Bytes(p.Result.Peak), report.Bytes(p.Arena))
		return nil
	},
}

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt"
	"memopt/memopt/report"
)

var checkCommand = &cli.Command{
	Name:      "check",
	Category:  "Inspect",
	Usage:     "verify a plan against its model: order, overlap, peak",
	ArgsUsage: "PLAN MODEL",
	UsageText: "memopt check gpt.plan.json gpt.onnx",
	Description: "The plan has the settings of its step. Settings given here are checked against it: " +
		"other dims, a smaller limit or another step are errors.",
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
		found, err := checked(c.Context, c.Args().Get(0), c.Args().Get(1), cfg)
		done()
		if err != nil {
			return err
		}
		return found.print(c, asJSON)
	},
}

// checked loads a plan file and checks it against its model.
func checked(ctx context.Context, plan, model string, cfg configs.Config) (answer, error) {
	p, err := memopt.LoadPlan(ctx, plan, model, cfg)
	if err != nil {
		return answer{}, err
	}
	return answer{map[string]any{"format": "memopt.check/1", "ok": true, "peak": p.Result.Peak,
		"arena": p.Arena, "steps": len(p.Steps), "recomputed_nodes": p.Result.Again}, func(w io.Writer) {
		fmt.Fprintf(w, "ok: %d steps, %d of them recomputations, peak %s, arena %s\n",
			len(p.Steps), p.Result.Again, report.Bytes(p.Result.Peak), report.Bytes(p.Arena))
	}}, nil
}

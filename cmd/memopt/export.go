package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt"
	"memopt/memopt/export"
	"memopt/memopt/report"
	"memopt/planner"
)

var exportCommand = &cli.Command{
	Name:      "export",
	Category:  "Plan",
	Usage:     "write a plan for ONNX Runtime, or as the checkpoint policy of another trainer",
	ArgsUsage: "PLAN",
	UsageText: "memopt export gpt.plan.json --to ort -o mem_opt.json\n" +
		"memopt export gpt.plan.json --to pytorch > policy.json\n" +
		"memopt export gpt.plan.json --to megatron",
	Flags: common(
		&cli.StringFlag{Name: "to", Usage: "`TOOL` " + strings.Join(export.Tools(), ", ")},
		&cli.StringFlag{Name: "model", Usage: "`FILE` the plan's model, where it is not where the plan says; other trainers' policies are chosen on it"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write what the tool reads"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PLAN")
		if err != nil {
			return err
		}
		if c.String("to") == "" {
			return usage("memopt export needs --to, one of %s", strings.Join(export.Tools(), ", "))
		}
		if _, err := destinations(c, configs.Config{}, "output"); err != nil {
			return err
		}
		f, err := memopt.ReadPlan(c.Args().First())
		if err != nil {
			return err
		}
		e, err := export.Of(f, c.String("to"), func() (*planner.Plan, error) {
			return memopt.LoadPlan(c.Context, c.Args().First(), cmp.Or(c.String("model"), f.Model.Path), configs.Config{})
		})
		if err != nil {
			return err
		}
		warn(c, e.Warnings...)
		to := c.String("output")
		if to != "" && e.Env != nil {
			e.Env["ORTMODULE_MEMORY_OPT_CONFIG"] = to
		}
		var file strings.Builder
		if print := exported[e.To]; print == nil {
			file.WriteString(e.Policy)
		} else if err := print(&file, e); err != nil {
			return err
		}
		if to != "" {
			if err := writeText(c.Context, to, []byte(file.String())); err != nil {
				return err
			}
		}
		if asJSON {
			return printJSON(c.App.Writer, e)
		}
		w := c.App.Writer
		if to == "" { // the file is the result, so notes go to standard error
			fmt.Fprint(w, file.String())
			if w = c.App.ErrWriter; c.Bool("quiet") {
				w = io.Discard
			}
		}
		if !c.Bool("quiet") {
			report.Text(c.App.ErrWriter, 2, "The plan promises a peak of %s instead of %s. %s\n", report.Bytes(e.Result.Peak), report.Bytes(e.Baseline.Peak), ownBytes(e.Allocator))
			if e.Takes != nil {
				report.Text(c.App.ErrWriter, 2, "These settings of %s promise %s, at %s of the step.\n", e.To, report.Bytes(e.Takes.Peak), report.Extra(e.Takes.Overhead, 1))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(e.Env)) {
			fmt.Fprintf(w, "export %s=%s\n", name, configs.ShellWord(e.Env[name]))
		}
		return nil
	},
}

// exported prints the file for each tool that is not told a policy as its settings.
var exported = map[string]func(io.Writer, export.Plan) error{
	"ort":     func(w io.Writer, e export.Plan) error { return printJSON(w, e.Config) },
	"pytorch": func(w io.Writer, e export.Plan) error { return printJSON(w, e) },
	"jax": func(w io.Writer, e export.Plan) error {
		fmt.Fprintln(w, "import jax")
		fmt.Fprintln(w, "\n# Values are named with jax.ad_checkpoint.checkpoint_name(x, NAME).")
		fmt.Fprintln(w, "policy = jax.checkpoint_policies.save_only_these_names(")
		for _, name := range e.Save {
			fmt.Fprintf(w, "    %s,\n", strconv.Quote(name)) // Go's quotes are valid in Python
		}
		_, err := fmt.Fprintln(w, ")")
		return err
	},
}

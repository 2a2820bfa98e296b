package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt"
	"memopt/memopt/report"
	"memopt/planner"
)

var planCommand = &cli.Command{
	Name:      "plan",
	Usage:     "decide what to keep, what to compute again and where each value lives",
	ArgsUsage: "MODEL",
	Flags: planFlags(
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the plan file"},
		&cli.StringFlag{Name: "emit", Usage: "write the rewritten training graph as ONNX"},
		&cli.StringFlag{Name: "show", Usage: "print stages: " + strings.Join(stageNames(), ", ")},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "MODEL")
		if err != nil {
			return err
		}
		cfg, err := settings(c)
		if err != nil {
			return err
		}
		show, err := stagesOf(c.String("show"))
		if err != nil {
			return err
		}
		model, err := memopt.Open(c.Args().First(), cfg)
		if err != nil {
			return err
		}
		plan, err := model.Plan()
		if err != nil {
			return err
		}
		warn(c, plan.Warnings...)
		if to := c.String("output"); to != "" {
			if err := plan.File(model.Path).Save(to); err != nil {
				return asInput(err)
			}
		}
		if to := c.String("emit"); to != "" {
			if err := memopt.Emit(plan, to); err != nil {
				return asInput(err)
			}
		}
		if asJSON {
			return printJSON(c.App.Writer, plan.File(model.Path))
		}
		for _, s := range show {
			if err := s.print(c.App.Writer, plan); err != nil {
				return err
			}
			fmt.Fprintln(c.App.Writer)
		}
		report.Plan(c.App.Writer, plan, filepath.Base(model.Path), nonDefaults(cfg))
		return nil
	},
}

// stage is something that --show can print.
type stage struct {
	name  string
	print func(io.Writer, *planner.Plan) error
}

var stages = []stage{
	{"graph", func(w io.Writer, p *planner.Plan) error { return p.Graph.Print(w) }},
	{"clusters", report.Clusters},
	{"lives", report.Lives},
	{"arena", report.Arena},
}

func stageNames() (names []string) {
	for _, s := range stages {
		names = append(names, s.name)
	}
	return names
}

func stagesOf(list string) (out []stage, err error) {
next:
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		for _, s := range stages {
			if s.name == name {
				out = append(out, s)
				continue next
			}
		}
		if near, ok := configs.Nearest(name, stageNames()); ok {
			return nil, usage("--show has no stage %q; did you mean %q?", name, near)
		}
		return nil, usage("--show has no stage %q; there are %s", name, strings.Join(stageNames(), ", "))
	}
	return out, nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

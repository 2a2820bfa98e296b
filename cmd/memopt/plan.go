package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

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
	Description: "memopt plan gpt.onnx --dims batch=8,seq=1024\n" +
		"memopt plan gpt.onnx --dims batch=8,seq=1024 --budget 60% -o gpt.plan.json --html gpt.html\n" + refusalDoc,
	Flags: planFlags(
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the plan (JSON)"},
		&cli.StringFlag{Name: "emit", Usage: "`FILE` write the training graph under the plan (ONNX)"},
		htmlFlag("write a page that stands alone: figures, memory over the step, the arena as a picture"),
		&cli.StringFlag{Name: "svg", Usage: "`FILE` draw memory over the step, this plan in front of the step with everything kept"},
		setting("seed", "`N` what --emit adds to ONNX Runtime's seeds under --compat (default 0)"),
		&cli.StringFlag{Name: "show", Usage: "`STAGES` print these first: " + strings.Join(stageNames(), ",")},
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
		files, err := destinations(c, cfg, "output", "emit", "html", "svg")
		if err != nil {
			return err
		}
		model, plan, err := makePlan(c, cfg, files)
		if err != nil {
			return refused(c, asJSON, err)
		}
		defer model.Close()
		var file *planner.File
		if asJSON || c.String("output") != "" || c.String("html") != "" || c.String("svg") != "" {
			file = model.PlanFile(plan)
		}
		if to := c.String("output"); to != "" {
			if err := file.Save(to); err != nil {
				return asInput(err)
			}
		}
		if to := c.String("emit"); to != "" {
			warnings, err := model.Emit(plan, to)
			if err != nil {
				return asInput(err)
			}
			warn(c, warnings...)
		}
		if to := c.String("html"); to != "" {
			if err := writePage(to, planPage(c, model, plan, file)); err != nil {
				return err
			}
		}
		if to := c.String("svg"); to != "" {
			if err := writeStepSVG(to, planPage(c, model, plan, file)); err != nil {
				return err
			}
		}
		if asJSON {
			return printJSON(c.App.Writer, file)
		}
		for _, s := range show {
			if err := s.print(c.App.Writer, model, plan); err != nil {
				return err
			}
			fmt.Fprintln(c.App.Writer)
		}
		if plan.Request.Outline != nil && talkative[cfg.Log] {
			if err := model.ORT(c.App.Writer, plan, cfg.Log); err != nil {
				return err
			}
			fmt.Fprintln(c.App.Writer)
		}
		report.Plan(c.App.Writer, plan, filepath.Base(model.Path), priced(c, model))
		return nil
	},
}

// makePlan opens the model that the command names and plans it; files will be written.
func makePlan(c *cli.Context, cfg configs.Config, files []destination) (*memopt.Model, *planner.Plan, error) {
	model, err := openModel(c, cfg, files)
	if err != nil {
		return nil, nil, err
	}
	done := busy(c, "planning")
	plan, err := model.Plan()
	done()
	if err != nil {
		return nil, nil, err
	}
	slog.Info("planned", "strategy", plan.Strategy, "arena", plan.Arena, "took", plan.Took)
	warn(c, plan.Warnings...)
	warnings, err := saveGraphs(model, plan, cfg.SaveONNXPath)
	if err != nil {
		return nil, nil, err
	}
	warn(c, warnings...)
	return model, plan, nil
}

// saveGraphs writes the training graph before and after a plan into a folder, if
// settings name one.
func saveGraphs(m *memopt.Model, p *planner.Plan, folder string) (warnings []string, err error) {
	if folder == "" {
		return nil, nil
	}
	warnings, err = m.SaveGraphs(p, folder, strings.TrimSuffix(filepath.Base(m.Path), ".onnx"))
	return warnings, asInput(err)
}

// openModel opens the model that the command names, if none of the files that will be
// written is one of its own.
func openModel(c *cli.Context, cfg configs.Config, files []destination) (*memopt.Model, error) {
	path := c.Args().First()
	if path == "" {
		return nil, usage("memopt %s needs the path of a model, and %q is none", c.Command.Name, path)
	}
	begin := time.Now()
	done := busy(c, "reading "+filepath.Base(path))
	model, err := memopt.Open(path, cfg)
	done()
	if err != nil {
		return nil, err
	}
	slog.Info("read", "model", path, "nodes", len(model.Graph.Nodes), "took", time.Since(begin))
	err = spareModel(files, model)
	if profile := c.String("profile"); profile != "" && err == nil {
		err = model.UseProfile(profile)
	}
	if err != nil {
		model.Close()
		return nil, err
	}
	return model, nil
}

// stage is something that --show can print.
type stage struct {
	name  string
	print func(io.Writer, *memopt.Model, *planner.Plan) error
}

var stages = []stage{
	{"passes", func(w io.Writer, m *memopt.Model, _ *planner.Plan) error {
		_, err := fmt.Fprint(w, m.Passes)
		return err
	}},
	{"graph", func(w io.Writer, _ *memopt.Model, p *planner.Plan) error { return p.Graph.Print(w) }},
	{"clusters", ofPlan(report.Clusters)},
	{"ort", func(w io.Writer, m *memopt.Model, p *planner.Plan) error {
		level := m.Config.Log
		if !talkative[level] {
			level = "info"
		}
		return m.ORT(w, p, level)
	}},
	{"lives", ofPlan(report.Lives)},
	{"arena", ofPlan(report.Arena)},
	{"chains", ofPlan(report.Chains)},
	{"formulas", func(w io.Writer, m *memopt.Model, p *planner.Plan) error {
		f := m.PlanFile(p).Formulas
		if f == nil {
			_, err := fmt.Fprintln(w, "the formulas are too large to be of use")
			return err
		}
		report.Formulas(w, f)
		return nil
	}},
}

// ofPlan prints what a plan alone can say.
func ofPlan(print func(io.Writer, *planner.Plan) error) func(io.Writer, *memopt.Model, *planner.Plan) error {
	return func(w io.Writer, _ *memopt.Model, p *planner.Plan) error { return print(w, p) }
}

// talkative are the log levels at which ONNX Runtime prints its plan table.
var talkative = map[string]bool{"info": true, "devinfo": true, "debug": true}

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

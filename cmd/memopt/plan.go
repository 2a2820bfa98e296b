package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/planner"
)

var planCommand = &cli.Command{
	Name:      "plan",
	Category:  "Plan",
	Usage:     "choose what to keep and what to recompute under a budget, and place every value",
	ArgsUsage: "MODEL",
	UsageText: "memopt plan gpt.onnx --dims batch=8,seq=1024\n" +
		"memopt plan gpt.onnx --dims batch=8,seq=1024 --budget 60% -o gpt.plan.json\n" +
		"memopt plan gpt.onnx --dims batch=8,seq=1024 --budget 6GiB --html gpt.html\n" +
		"memopt plan step.json.gz --policy train.yaml",
	Description: refusalDoc,
	Flags: settingFlags("plan",
		profileFlag(),
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the plan (JSON)"},
		&cli.StringFlag{Name: "emit", Usage: "`FILE` write the training graph under the plan (ONNX)"},
		htmlFlag("write a self-contained page: figures, memory over the step, a picture of the arena"),
		&cli.StringFlag{Name: "svg", Usage: "`FILE` draw memory over the step, in front of the step with everything kept"},
		&cli.StringFlag{Name: "policy", Usage: "`FILE` price another trainer's checkpoint policy instead, beside plans of the same bytes and of the same time; -o writes the first: JSON, YAML, TOML or flags of torchtitan, Megatron, MaxText, Transformers, axolotl, torchtune, torch_remat, JAX"},
		&cli.BoolFlag{Name: "alone", Usage: "with --policy: price the policy alone, which is faster"},
		&cli.StringFlag{Name: "show", Usage: "`STAGES` print these first: " + strings.Join(stageNames(), ", ") + "; search lists what each pass of the planner tried, with file and line"},
	),
	Action: onStep(func(c *cli.Context, j job, asJSON bool) error {
		show, err := stagesOf(c.String("show"))
		if err != nil {
			return err
		}
		j, close := j.together()
		defer close()
		if path := c.String("policy"); path != "" {
			answer, err := j.priced(c, path, c.Bool("alone"))
			if err != nil {
				return err
			}
			return answer.print(c, asJSON)
		}
		p, err := j.make()
		if err != nil {
			return err
		}
		defer p.model.Close()
		if err := p.write(); err != nil {
			return err
		}
		if err := j.commit(); err != nil {
			return asInput(err)
		}
		if asJSON {
			file, err := p.json()
			if err != nil {
				return err
			}
			return printJSON(c.App.Writer, file)
		}
		return p.text(c.App.Writer, show)
	}, "output", "emit", "html", "svg"),
}

// newJob is the job of a command line; flags lists the flags that name files to write.
func newJob(c *cli.Context, flags ...string) (job, error) {
	cfg, err := settings(c)
	if err != nil {
		return job{}, err
	}
	files, err := destinations(c, cfg, flags...)
	if err != nil {
		return job{}, err
	}
	return job{ctx: c.Context, model: c.Args().First(), cfg: cfg, profile: c.String("profile"), to: files, command: typed(c, cfg),
		busy: func(doing string) func() { return busy(c, doing) }, warn: func(warnings ...string) { warn(c, warnings...) }}, nil
}

// stage is what --show can print.
type stage struct {
	name  string
	print func(io.Writer, *step.Model, *planner.Plan) error
}

var stages = []stage{
	{"passes", ofPlan(func(w io.Writer, p *planner.Plan) error {
		_, err := fmt.Fprint(w, p.Form.Passes)
		return err
	})},
	{"graph", func(w io.Writer, m *step.Model, p *planner.Plan) error {
		return m.Guarded(func() error { return p.Graph.Print(w) })
	}},
	{"search", ofPlan(report.Search)},
	{"clusters", ofPlan(report.Clusters)},
	{"ort", func(w io.Writer, m *step.Model, p *planner.Plan) error {
		level := m.Config.Log
		if !talkative[level] {
			level = "info"
		}
		return m.Summary(w, p, level)
	}},
	{"lives", ofPlan(report.Lives)},
	{"arena", ofPlan(report.Arena)},
	{"moves", ofPlan(report.Moves)},
	{"chains", ofPlan(report.Chains)},
	{"formulas", func(w io.Writer, m *step.Model, p *planner.Plan) error {
		file, err := fileOf(m, p)
		if err != nil {
			return err
		}
		if file.Formulas == nil {
			_, err := fmt.Fprintln(w, "the formulas are too long to print")
			return err
		}
		report.Formulas(w, file.Formulas)
		return nil
	}},
}

// ofPlan is a stage that needs the plan only.
func ofPlan(print func(io.Writer, *planner.Plan) error) func(io.Writer, *step.Model, *planner.Plan) error {
	return func(w io.Writer, _ *step.Model, p *planner.Plan) error { return print(w, p) }
}

// talkative lists the log levels at which ONNX Runtime prints its plan table.
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
			return nil, usage("there is no stage %q to show; did you mean %q?", name, near)
		}
		return nil, usage("there is no stage %q to show; use %s", name, strings.Join(stageNames(), ", "))
	}
	return out, nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/visible"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/profile"
)

var frontierCommand = &cli.Command{
	Name:      "frontier",
	Category:  "Plan",
	Usage:     "show peak memory against extra time, from everything kept down to the floor",
	ArgsUsage: "MODEL",
	UsageText: "memopt frontier gpt.onnx --dims batch=8,seq=1024\n" +
		"memopt frontier gpt.onnx --dims batch=8,seq=1024 --svg gpt.svg --format json",
	Flags: settingFlags("frontier",
		profileFlag(),
		&cli.StringFlag{Name: "svg", Usage: "`FILE` also draw the curve"},
	),
	Action: onStep(func(c *cli.Context, j job, asJSON bool) error {
		answer, err := j.frontier()
		if err != nil {
			return err
		}
		return answer.print(c, asJSON)
	}, "svg"),
}

// frontier plans the frontier.
func (j job) frontier() (answer, error) {
	for _, s := range j.cfg.Unused() {
		if r, _ := configs.Find(s.Name); r.Uses("plan") {
			j.warn(ignored(s))
		}
	}
	for _, s := range j.cfg.NonDefaults() {
		if s.Name == "config" && slices.ContainsFunc(j.cfg.Requests, runsAgain) {
			j.warn(ignored(s))
		}
	}
	model, err := j.open()
	if err != nil {
		return answer{}, err
	}
	defer model.Close()
	begin := time.Now()
	done := j.busy("planning")
	curve, err := model.Frontier()
	done()
	if err != nil {
		return answer{}, err
	}
	took := time.Since(begin)
	name := filepath.Base(model.Path)
	for _, to := range j.to {
		var svg bytes.Buffer
		if err := report.FrontierSVG(&svg, curve, name, model.Unit()); err != nil {
			return answer{}, err
		}
		if err := writeText(j.ctx, to.path, svg.Bytes()); err != nil {
			return answer{}, err
		}
	}
	return answer{frontierJSON(curve, model, took), func(w io.Writer) {
		plans := "plans"
		if len(curve.Points) == 1 {
			plans = "plan"
		}
		in := ""
		if model.Priced != nil {
			in = ", in the time of " + model.Priced.Name
		}
		visible.Fprintf(w, "%s: %d %s%s\n\n", name, len(curve.Points), plans, in)
		report.Frontier(w, curve)
		fmt.Fprintf(w, "\nfound in %.1f ms\n", float64(took.Microseconds())/1000)
	}}, nil
}

// ignored is the warning about a setting that would choose one of the plans.
func ignored(s configs.Setting) string {
	return fmt.Sprintf("%s: %s is ignored: a frontier covers all plans", s.Source, s.Name)
}

// runsAgain reports whether a request is about recomputation; strategy 2 changes the step itself.
func runsAgain(r configs.Request) bool { return r.Strategy != 2 }

// frontierFile is the JSON of frontier.
type frontierFile struct {
	Format     string           `json:"format"`
	Model      string           `json:"model"`
	Dims       map[string]int64 `json:"dims"`
	Profile    *profile.Profile `json:"profile,omitempty"` // whose time extra costs are; without it they are flops and bytes
	Floor      planner.Floor    `json:"floor"`
	Fixed      int64            `json:"fixed"` // bytes outside the arena, unless a point has its own
	Points     []pointFile      `json:"points"`
	References []pointFile      `json:"references"`
	MS         float64          `json:"ms"`
}

type pointFile struct {
	Name     string  `json:"name,omitempty"`
	Form     string  `json:"form,omitempty"`
	Peak     int64   `json:"peak"`
	Arena    int64   `json:"arena"`
	Fixed    *int64  `json:"fixed,omitempty"` // if the form differs in constants, or states leave
	Total    int64   `json:"total"`
	Overhead float64 `json:"overhead"`
	Again    int     `json:"recomputed_nodes"`
	Moved    int64   `json:"moved,omitempty"` // bytes that go elsewhere and back
	// States are those elsewhere where a budget would choose how many leave; their copies' time is in Overhead.
	States *planner.Streamed `json:"states,omitempty"`
	Knee   bool              `json:"knee,omitempty"`
}

func frontierJSON(c *planner.Curve, m *step.Model, took time.Duration) frontierFile {
	f := frontierFile{Format: "memopt.frontier/1", Model: m.Path, Dims: m.Config.Dims, Profile: m.Priced, Floor: c.Floor, Fixed: c.Fixed,
		Points: []pointFile{}, References: []pointFile{}, MS: float64(took.Microseconds()) / 1000}
	if f.Dims == nil {
		f.Dims = map[string]int64{}
	}
	for _, p := range c.Points {
		f.Points = append(f.Points, pointJSON(p, c.Fixed))
	}
	for _, p := range c.References {
		f.References = append(f.References, pointJSON(p, c.Fixed))
	}
	return f
}

// pointJSON converts a point. fixed is the curve's bytes outside the arena; points of other forms
// may differ.
func pointJSON(p planner.Point, fixed int64) pointFile {
	f := pointFile{Name: p.Name, Form: p.Form, Peak: p.Peak, Arena: p.Arena, Total: p.Total, Overhead: p.Overhead, Again: p.Again, Moved: p.Moved, States: p.Sent, Knee: p.Knee}
	if own := p.Total - p.Arena; own != fixed {
		f.Fixed = &own
	}
	return f
}

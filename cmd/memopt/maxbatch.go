package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/visible"
	"memopt/memopt"
	"memopt/memopt/machine"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
	"memopt/planner/planfile"
)

var maxbatchCommand = &cli.Command{
	Name:      "maxbatch",
	Category:  "Plan",
	Usage:     "find the largest batch, or other dim, that fits a budget",
	ArgsUsage: "MODEL",
	UsageText: "memopt maxbatch gpt.onnx --dims seq=1024 --budget 24GiB\n" +
		"memopt maxbatch gpt.onnx --dims batch=8 --dim seq --budget 24GiB\n" +
		"memopt maxbatch gpt.onnx --dims seq=1024 --budget 24GiB --max-overhead 10%",
	Description: refusalDoc,
	Flags: settingFlags("maxbatch",
		profileFlag(),
		&cli.StringFlag{Name: "dim", Usage: "`NAME` the dim to enlarge (default batch)"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the plan (JSON)"},
		&cli.BoolFlag{Name: "measure", Usage: "run two steps of that size under the plan, on made-up numbers, and show promised and measured memory"},
	),
	Action: onStep(func(c *cli.Context, j job, asJSON bool) error {
		return printLargest(c, j, cmp.Or(c.String("dim"), "batch"), asJSON)
	}, "output"),
}

// printLargest prints the answer for a dim, and the command of its plan.
func printLargest(c *cli.Context, j job, dim string, asJSON bool) error {
	answer, err := j.maxbatch(dim, c.Bool("measure"))
	if err != nil {
		return err
	}
	if err := answer.print(c, asJSON); err != nil || asJSON {
		return err
	}
	visible.Fprintf(c.App.Writer, "\nThe plan of the last row:\n  %s\n", planCommandOf(c, answer.last))
	return nil
}

// largest is the answer of maxbatch, and the last row.
type largest struct {
	answer
	last step.Rung
}

// maxbatch finds the largest size of a dim that fits, batch if dim is empty. With measure it runs
// steps of that size.
func (j job) maxbatch(dim string, measure bool) (largest, error) {
	for _, b := range []struct {
		name    string
		percent float64
	}{{"budget", j.cfg.Budget.Percent}, {"activation-budget", j.cfg.ActivationBudget.Percent}} {
		if b.percent > 0 {
			return largest{}, usage("--%s must be in bytes here: a share of a batch's memory does not limit the batch", b.name)
		}
	}
	if j.cfg.Budget.IsZero() && j.cfg.ActivationBudget.IsZero() {
		return largest{}, usage("a largest size needs --budget or --activation-budget")
	}
	if _, given := j.cfg.Given(tiles); !given && isSequence(dim) {
		j.cfg.SequenceTiles = "auto"
	}
	model, err := j.open()
	if err != nil {
		return largest{}, err
	}
	defer model.Close()
	done := j.busy("planning")
	ladder, err := model.Ladder(dim)
	done()
	if err != nil {
		return largest{}, err
	}
	last := ladder[len(ladder)-1]
	j.warn(last.Plan.Warnings...)
	file, err := fileOf(last.Model, last.Plan)
	if err != nil {
		return largest{}, err
	}
	for _, to := range j.to {
		if err := file.Save(to.path); err != nil {
			return largest{}, asInput(err)
		}
	}
	found := maxbatchJSON(dim, ladder, file)
	show := func(io.Writer) {}
	if measure {
		done := j.busy("measuring")
		r, err := memopt.Run(last.Model, last.Plan, training.Options{Steps: measuredSteps, LR: j.cfg.LR, Seed: j.cfg.Seed})
		done()
		if err != nil {
			return largest{}, notRun(dim, last.Size, err)
		}
		lines := report.Lines(last.Plan, r.Trace)
		found.Measured = &measuredFile{r.Device, float64(r.Median().Microseconds()) / 1000, memoryJSON(last.Plan, lines, r.Trace, r.Memory, nil)} // no anonymous memory: the process also holds the plans of all rows
		show = func(w io.Writer) {
			visible.Fprintf(w, "\n%s %d on %s, %d steps of %s ms:\n\n", dim, last.Size, r.Device, measuredSteps, millis(r.Median()))
			measured(w, lines, r.Trace, nil)
			deviceMemory(w, r.Memory)
		}
	}
	return largest{answer{found, func(w io.Writer) {
		printLadder(w, model, dim, ladder)
		show(w)
	}}, last}, nil
}

// notRun is the error that a step of the size found could not be run.
func notRun(dim string, size int64, err error) error {
	said := fmt.Sprintf("the plan allows %s %d, but running it failed", dim, size)
	var memory *machine.MemoryError
	if errors.As(err, &memory) {
		memory.Err = fmt.Errorf("%s: %w", said, memory.Err)
		return memory
	}
	return fmt.Errorf("%s: %w", said, err)
}

// measuredSteps is enough to see that the second step needs no more than the first.
const measuredSteps = 2

// printLadder prints a row for each limit of extra cost.
func printLadder(w io.Writer, m *step.Model, dim string, ladder []step.Rung) {
	var limits []string
	if b := m.Config.Budget; b.Bytes > 0 {
		limits = append(limits, report.Bytes(b.Bytes))
	}
	if b := m.Config.ActivationBudget; b.Bytes > 0 {
		limits = append(limits, "an arena of "+report.Bytes(b.Bytes))
	}
	report.Text(w, 2, "%s: the largest %s that fits %s\n\n", filepath.Base(m.Path), dim, strings.Join(limits, " and "))
	rows := [][]string{{"extra " + m.Unit(), dim, "costs", "total", "arena", "run again", ""}}
	for _, r := range ladder {
		allowed := "any"
		if !math.IsInf(r.Most, 1) {
			allowed = "at most " + strings.TrimSuffix(report.Extra(r.Most, 1), ".0 %")
			allowed = strings.TrimSuffix(allowed, " %") + " %"
		}
		if r.Plan == nil {
			rows = append(rows, []string{allowed, none, none, none, none, none, "not even the smallest fits"})
			continue
		}
		p := r.Plan
		notes := slices.Clone(p.Form.Taken)
		if tiles := p.Tiles(); len(tiles) > 0 {
			most := slices.MaxFunc(tiles, func(a, b planner.Tiled) int { return cmp.Compare(a.Tiles, b.Tiles) })
			notes = append(notes, fmt.Sprintf("%d layers in up to %d tiles", len(tiles), most.Tiles))
		}
		if len(p.Moves) > 0 {
			notes = append(notes, fmt.Sprintf("%s moved to the %s", report.Bytes(p.Moved.Bytes), p.Moved.Place))
		}
		if p.SearchEnded {
			notes = append(notes, "search limit reached")
		}
		rows = append(rows, []string{allowed, fmt.Sprint(r.Size), report.Extra(p.Result.Overhead, 2), report.Bytes(p.Memory.Total), report.Bytes(p.Arena), fmt.Sprint(p.Result.Again), strings.Join(notes, ", ")})
	}
	report.Table(w, "=lrrrr2r1t", rows)
}

// planCommandOf is the command that makes the plan of a row.
func planCommandOf(c *cli.Context, r step.Rung) string {
	words := []string{"memopt", "plan"}
	for _, a := range c.Args().Slice() {
		words = append(words, configs.ShellWord(a))
	}
	words = append(words, "--dims", configs.ShellWord(configs.FormatDims(r.Plan.Request.Dims)))
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if _, isBool := f.(*cli.BoolFlag); c.IsSet(name) && !isBool && !aside[name] && name != "dims" && name != "dim" {
			words = append(words, "--"+name, configs.ShellWord(c.String(name)))
		}
	}
	if r.Model.Config.SequenceTiles == "auto" && !c.IsSet("sequence-tiles") {
		words = append(words, "--sequence-tiles", "auto")
	}
	return strings.Join(words, " ")
}

// tiles is the setting that a longest sequence is looked for with.
const tiles = "sequence_tiles"

// maxbatchFile is the JSON of maxbatch: the last row, and all of them.
type maxbatchFile struct {
	Format string `json:"format"`
	Dim    string `json:"dim"`
	rungFile
	Dims   map[string]int64 `json:"dims"`
	MS     float64          `json:"ms"`
	Ladder []rungFile       `json:"ladder"`
	Plan   *planfile.File   `json:"plan"`
	// Measured is of the steps that --measure ran.
	Measured *measuredFile `json:"measured,omitempty"`
}

type measuredFile struct {
	Device string      `json:"device"`
	StepMS float64     `json:"step_ms"`
	Memory trainMemory `json:"memory"`
}

type rungFile struct {
	MaxOverhead *float64        `json:"max_overhead"` // null for any
	Size        int64           `json:"size"`         // 0: none fits
	SearchEnded bool            `json:"search_ended"`
	Total       int64           `json:"total"`
	Arena       int64           `json:"arena"`
	Peak        int64           `json:"peak"`
	Overhead    float64         `json:"overhead"`
	Again       int             `json:"recomputed_nodes"`
	Forms       []string        `json:"forms"` // that the planner took, by name
	Tiles       []planner.Tiled `json:"tiles"`
	Moved       int64           `json:"moved"` // bytes that the plan keeps elsewhere
}

func maxbatchJSON(dim string, ladder []step.Rung, file *planfile.File) maxbatchFile {
	f := maxbatchFile{Format: "memopt.maxbatch/1", Dim: dim, Plan: file}
	for _, r := range ladder {
		row := rungFile{Size: r.Size, Forms: []string{}, Tiles: []planner.Tiled{}}
		if !math.IsInf(r.Most, 1) {
			row.MaxOverhead = &r.Most
		}
		if p := r.Plan; p != nil {
			row.SearchEnded, row.Total, row.Arena, row.Peak = p.SearchEnded, p.Memory.Total, p.Arena, p.Result.Peak
			row.Overhead, row.Again = p.Result.Overhead, p.Result.Again
			row.Forms, row.Tiles = append(row.Forms, p.Form.Taken...), append(row.Tiles, p.Tiles()...)
			if len(p.Moves) > 0 {
				row.Moved = p.Moved.Bytes
			}
		}
		f.Ladder = append(f.Ladder, row)
	}
	last := ladder[len(ladder)-1].Plan
	f.rungFile, f.Dims, f.MS = f.Ladder[len(f.Ladder)-1], last.Request.Dims, float64(last.Took.Microseconds())/1000
	return f
}

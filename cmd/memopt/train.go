package main

import (
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/memopt"
	"memopt/memopt/report"
	"memopt/memopt/tensorfile"
	"memopt/planner"
)

var trainCommand = &cli.Command{
	Name:      "train",
	Usage:     "run training steps under the plan: loss, time, promised beside measured",
	ArgsUsage: "MODEL",
	Flags: planFlags(
		setting("steps", "updates to do (default 10)"),
		setting("lr", "learning rate"),
		setting("weight-decay", "decay of the optimizer"),
		setting("momentum", "momentum of the optimizer"),
		setting("beta1", "first decay rate of adamw"),
		setting("beta2", "second decay rate of adamw"),
		setting("epsilon", "what adamw adds to its denominator"),
		setting("seed", "of random operators and made-up data"),
		&cli.StringFlag{Name: "data", Usage: "npz with an array for each input, in batches along the first dim"},
		&cli.StringFlag{Name: "save", Usage: "write parameters and optimizer states (safetensors)"},
		&cli.IntFlag{Name: "save-every", Usage: "also save after every `N` steps"},
		&cli.StringFlag{Name: "resume", Usage: "go on from a saved file"},
		&cli.StringFlag{Name: "check", Usage: "compare loss and gradients of one step with an npz (input.*, loss, grad.*)"},
		&cli.Float64Flag{Name: "tolerance", Value: 1e-4, Usage: "relative error that --check allows"},
		&cli.StringFlag{Name: "dump", Usage: "write inputs, loss and gradients of one step as npz"},
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
		model, err := memopt.Open(c.Args().First(), cfg)
		if err != nil {
			return err
		}
		if c.IsSet("check") || c.IsSet("dump") {
			return compare(c, model, asJSON)
		}
		plan, err := model.Plan()
		if err != nil {
			return err
		}
		warn(c, plan.Warnings...)
		training := memopt.Training{Steps: cfg.Steps, LR: cfg.LR, Seed: cfg.Seed, Data: c.String("data"),
			Save: c.String("save"), SaveEvery: c.Int("save-every"), Resume: c.String("resume")}
		if !asJSON && !c.Bool("quiet") {
			fmt.Fprintf(c.App.Writer, "%s: arena %s of %s with everything kept, %+.1f %% compute\n", filepath.Base(model.Path),
				report.Bytes(plan.Arena), report.Bytes(plan.Baseline.Arena), 100*plan.Result.Overhead)
			training.Progress = progress(c)
		}
		result, err := model.Run(plan, training)
		if err != nil {
			return err
		}
		warn(c, result.Warnings...)
		schedule, err := plan.Schedule()
		if err != nil {
			return err
		}
		lines := report.Lines(plan, schedule, result.Trace)
		if asJSON {
			return printJSON(c.App.Writer, trainJSON(result, lines))
		}
		if n := len(result.Losses); n > 0 {
			fmt.Fprintf(c.App.Writer, "\nloss %.6f after step %d, %.6f after step %d; %s a step (median)\n\n", result.Losses[0], result.FirstStep+1,
				result.Losses[n-1], result.FirstStep+n, result.Median().Round(10*time.Microsecond))
		}
		report.Measured(c.App.Writer, lines)
		return nil
	},
}

// progress prints a line for a step: every one of few, every twentieth part of
// many, and all of them on one line of a terminal.
func progress(c *cli.Context) func(step, steps int, loss float64, took time.Duration) {
	info, err := os.Stderr.Stat()
	terminal := c.App.ErrWriter == os.Stderr && err == nil && info.Mode()&os.ModeCharDevice != 0
	return func(step, steps int, loss float64, took time.Duration) {
		if every := max(1, (steps+19)/20); step%every == 0 || step == 1 || step == steps {
			if terminal {
				fmt.Fprint(c.App.ErrWriter, "\r\033[K")
			}
			fmt.Fprintf(c.App.Writer, "step %4d  loss %.6f  %8.1f ms\n", step, loss, float64(took.Microseconds())/1000)
		} else if terminal {
			fmt.Fprintf(c.App.ErrWriter, "\r\033[Kstep %d of %d, loss %.4f", step, steps, loss)
		}
	}
}

// trainFile is the JSON of train.
type trainFile struct {
	Format    string      `json:"format"`
	Device    string      `json:"device"`
	Steps     int         `json:"steps"`
	FirstStep int         `json:"first_step"`
	Loss      []float64   `json:"loss"`
	StepMS    []float64   `json:"step_ms"`
	Memory    trainMemory `json:"memory"`
	Check     *checkFile  `json:"check,omitempty"`
	Warnings  []string    `json:"warnings"`
}

type trainMemory struct {
	Promised int64                `json:"promised"`
	Measured int64                `json:"measured"`
	Spaces   map[string][2]int64  `json:"spaces"`
	ByOwner  map[string]ownerFile `json:"by_owner"`
}

type ownerFile struct {
	Promised int64 `json:"promised"`
}

type checkFile struct {
	LossRelErr float64     `json:"loss_rel_err"`
	Worst      paramFile   `json:"worst"`
	Params     int         `json:"params"`
	All        []paramFile `json:"all"`
	Missing    []string    `json:"missing"`
	Tolerance  float64     `json:"tolerance"`
	OK         bool        `json:"ok"`
}

type paramFile struct {
	Param  string  `json:"param"`
	RelErr float64 `json:"rel_err"`
}

const trainFormat = "memopt.train/1"

func trainJSON(r *memopt.Result, lines []report.Line) trainFile {
	f := trainFile{Format: trainFormat, Device: r.Device, Steps: len(r.Losses), FirstStep: r.FirstStep,
		Loss: append([]float64{}, r.Losses...), StepMS: []float64{}, Warnings: append([]string{}, r.Warnings...)}
	for _, t := range r.StepTimes {
		f.StepMS = append(f.StepMS, float64(t.Microseconds())/1000)
	}
	f.Memory = memoryJSON(r.Plan, lines)
	return f
}

func memoryJSON(p *planner.Plan, lines []report.Line) trainMemory {
	m := trainMemory{Spaces: map[string][2]int64{}, ByOwner: map[string]ownerFile{}}
	for _, l := range lines {
		if l.Name == "total" {
			m.Promised, m.Measured = l.Promised, l.Measured
		} else {
			m.Spaces[l.Name] = [2]int64{l.Promised, l.Measured}
		}
	}
	for _, o := range report.Owners(p) {
		m.ByOwner[o.Name] = ownerFile{o.Bytes}
	}
	return m
}

// compare is train --check and --dump: one step without an update.
func compare(c *cli.Context, model *memopt.Model, asJSON bool) error {
	reference := c.String("check")
	if reference == "" {
		reference = c.String("data")
	}
	set, check, err := memopt.Gradients(model, reference)
	if err != nil {
		return err
	}
	warn(c, check.Plan.Warnings...)
	if to := c.String("dump"); to != "" {
		if err := tensorfile.WriteNPZ(to, set); err != nil {
			return asInput(err)
		}
	}
	limit := c.Float64("tolerance")
	ok := check.LossRelErr <= limit && check.Worst.RelErr <= limit && len(check.Missing) == 0
	schedule, err := check.Plan.Schedule()
	if err != nil {
		return err
	}
	lines := report.Lines(check.Plan, schedule, check.Trace)
	switch {
	case asJSON:
		f := trainFile{Format: trainFormat, Device: check.Device, Steps: 1, Loss: []float64{check.Loss},
			StepMS: []float64{float64(check.Trace.Took.Microseconds()) / 1000}, Memory: memoryJSON(check.Plan, lines), Warnings: []string{}}
		if c.IsSet("check") {
			f.Check = &checkFile{LossRelErr: check.LossRelErr, Worst: paramFile(check.Worst), Params: len(check.Params),
				All: []paramFile{}, Missing: append([]string{}, check.Missing...), Tolerance: limit, OK: ok}
			for _, p := range check.Params {
				f.Check.All = append(f.Check.All, paramFile(p))
			}
		}
		if err := printJSON(c.App.Writer, f); err != nil {
			return err
		}
	default:
		t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "loss\t%.7g\t\n", check.Loss)
		if c.IsSet("check") {
			fmt.Fprintf(t, "loss against reference\t%.2e\trelative\n", check.LossRelErr)
			fmt.Fprintf(t, "gradients compared\t%d\t\n", len(check.Params))
			fmt.Fprintf(t, "worst gradient\t%.2e\t%s\n", check.Worst.RelErr, check.Worst.Param)
			for _, name := range check.Missing {
				fmt.Fprintf(t, "missing gradient\t\t%s\n", name)
			}
		}
		t.Flush()
		fmt.Fprintln(c.App.Writer)
		report.Measured(c.App.Writer, lines)
	}
	if c.IsSet("check") && !ok {
		return cli.Exit(fmt.Sprintf("the step differs from %s: loss by %.2e, gradient of %q by %.2e, over the tolerance of %.0e",
			filepath.Base(reference), check.LossRelErr, check.Worst.Param, check.Worst.RelErr, limit), memopt.ExitCannot)
	}
	return nil
}

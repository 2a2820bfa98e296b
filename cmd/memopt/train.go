package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/internal/compare"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/internal/visible"
	"memopt/memopt"
	"memopt/memopt/exit"
	"memopt/memopt/machine"
	"memopt/memopt/phases"
	"memopt/memopt/report"
	"memopt/memopt/training"
	"memopt/planner"
)

var trainCommand = &cli.Command{
	Name:      "train",
	Category:  "Train",
	Before:    gcForService,
	Usage:     "run training steps under a plan, and show promised and measured memory",
	ArgsUsage: "MODEL",
	UsageText: "memopt train gpt.onnx --data gpt.npz --dims batch=8,seq=64 --budget 60%\n" +
		"memopt train gpt.onnx --data gpt.npz --dims batch=8,seq=64 --save gpt.st\n" +
		"memopt train gpt.onnx --dims batch=2,seq=16 --check reference.npz",
	Flags: settingFlags("train",
		profileFlag(),
		&cli.StringFlag{Name: "data", Usage: "`FILE` npz with an array for each input; the first dim is split into batches"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the model with its trained weights (ONNX)"},
		&cli.StringFlag{Name: "save", Usage: "`FILE` write parameters and optimizer states (safetensors)"},
		&cli.IntFlag{Name: "save-every", Usage: "`N` also save after every N steps"},
		&cli.StringFlag{Name: "resume", Usage: "`FILE` continue from a file written by --save"},
		&cli.StringFlag{Name: "record", Usage: "`FILE` write the median time of each node, for --profile"},
		phasesFlag(),
		htmlFlag("write a self-contained page: the loss, promised and measured memory, and the page of plan --html"),
		&cli.StringFlag{Name: "check", Usage: "`FILE` compare loss, gradients and running statistics of one step with an npz (input.*, loss, grad.*, after.*)"},
		&cli.StringFlag{Name: "against", Usage: "`DEVICE` run one step on two devices, with everything kept, and list the values that differ"},
		&cli.Float64Flag{Name: "tolerance", Value: 1e-4, Usage: "`X` relative error that --check and --against allow (default 1e-4)"},
		&cli.StringFlag{Name: "dump", Usage: "`FILE` write inputs, loss and gradients of one step (npz)"},
	),
	Action: onStep(func(c *cli.Context, j job, asJSON bool) error {
		if err := trainFlags(c); err != nil {
			return err
		}
		if oneStep(c) {
			return gradientStep(c, j, asJSON)
		}
		if c.Bool("phases") {
			phases, err := phases.New(j.cfg.Device)
			if err != nil {
				return err
			}
			j.phases = phases
		}
		return train(c, j, asJSON)
	}, "output", "save", "dump", "record", "html"),
}

// oneStep reports whether a flag asks for a single step without an update.
func oneStep(c *cli.Context) bool { return c.IsSet("check") || c.IsSet("dump") || c.IsSet("against") }

// offBy is the ratio of promised and measured times beyond which a profile is said to be off.
const offBy = 1.25

// trainFlags checks for combinations of flags without effect.
func trainFlags(c *cli.Context) error {
	for _, flag := range []string{"output", "save", "save-every", "resume", "record", "html", "phases"} {
		if oneStep(c) && c.IsSet(flag) {
			return usage("--%s has no effect with --check, --dump or --against, which run one step without an update", flag)
		}
	}
	if oneStep(c) && c.IsSet("steps") {
		warn(c, "--steps has no effect: --check, --dump and --against run one step without an update")
	}
	switch t := c.Float64("tolerance"); {
	case c.IsSet("tolerance") && !c.IsSet("check") && !c.IsSet("against"):
		return usage("--tolerance has no effect without --check or --against")
	case !(t >= 0):
		return usage("--tolerance is a relative error like 1e-4, not %v", t)
	case c.Bool("phases") && c.IsSet("record"):
		return usage("--phases and --record cannot be combined: recording times every launch, and needs memory for that")
	case c.IsSet("save-every") && c.Int("save-every") < 1:
		return usage("--save-every must be at least 1, not %d", c.Int("save-every"))
	case c.IsSet("save-every") && c.String("save") == "":
		return usage("--save-every needs --save, which names the file")
	}
	if c.IsSet("check") && c.IsSet("data") {
		warn(c, "--check takes its inputs from the reference, not from --data")
	}
	return nil
}

func train(c *cli.Context, j job, asJSON bool) error {
	p, err := j.make()
	if err != nil {
		return err
	}
	model, plan, cfg := p.model, p.plan, j.cfg
	gcForSteps()
	stopper := newStopper(c)
	defer stopper.release()
	trains := ""
	if plan.Trains != nil {
		trains = report.Wrap(visible.Line(plan.Trains.String())+"\n", report.Width(c.App.Writer), 2)
	}
	head := ""
	if model.LossInput != "" {
		head += visible.Sprintf("--loss adds the input %s\n", model.LossInput)
	}
	head += visible.Sprintf("%s: arena %s, %s with everything kept, %s %s\n", filepath.Base(model.Path),
		report.Bytes(plan.Arena), report.Bytes(plan.Baseline.Arena), report.Extra(plan.Result.Overhead, 1), plan.Unit())
	steps := newSteps(c, asJSON, stopper.stop, trains+report.Wrap(head, report.Width(c.App.Writer), 2))
	run := func(p *planner.Plan, t training.Options) (*training.Result, error) { return memopt.Run(model, p, t) }
	if to := c.String("record"); to != "" {
		run = func(p *planner.Plan, t training.Options) (*training.Result, error) {
			return training.Record(model, p, t, to, memopt.Run)
		}
	}
	result, err := run(plan, training.Options{Steps: cfg.Steps, LR: cfg.LR, Warmup: cfg.Warmup, Seed: cfg.Seed, Data: c.String("data"),
		Output: c.String("output"), Save: c.String("save"), SaveEvery: c.Int("save-every"), Resume: c.String("resume"),
		Phases: j.phases, Progress: steps.done, Warn: func(msg string) { steps.status.clear(); warn(c, msg) }, Stop: stopper.stopped})
	steps.status.clear()
	if err != nil {
		return err
	}
	lines := report.Lines(plan, result.Trace)
	if n := len(result.Skipped); n > 0 {
		warn(c, fmt.Sprintf("%d of %d updates were skipped because a gradient was infinite or NaN; the loss scale is now %g", n, len(result.Losses), result.LossScale))
	}
	if to := c.String("html"); to != "" {
		page, err := p.page()
		if err != nil {
			return err
		}
		page.Trained = trained(result, lines)
		if err := writePage(c.Context, to, page); err != nil {
			return err
		}
	}
	if asJSON {
		if err := printJSON(c.App.Writer, trainJSON(result, lines)); err != nil {
			return err
		}
		return stopped(c, result)
	}
	if c.Bool("quiet") {
		fmt.Fprint(c.App.Writer, trains)
	} else {
		fmt.Fprintln(c.App.Writer)
	}
	n := len(result.Losses)
	fmt.Fprintf(c.App.Writer, "loss %.6f at step %d, %.6f at step %d; a step takes %s ms (median)\n\n", result.Losses[0], result.FirstStep+1,
		result.Losses[n-1], result.FirstStep+n, millis(result.Median()))
	if priced := result.Plan.Request.Profile; priced != nil {
		promised, _ := result.Plan.Cost()
		measured := float64(result.Median())
		visible.Fprintf(c.App.Writer, "time of a step: %s promised by the profile of %s, %s measured\n", report.Nanoseconds(promised), priced.Name, report.Nanoseconds(measured))
		if !c.IsSet("for") && (measured > offBy*promised || promised > offBy*measured) {
			fmt.Fprintln(c.App.Writer, "the profile is off: memopt profile measures this device")
		}
		if over, extra := result.Plan.Result.Overhead, result.Extra(); extra != nil && (over > 0 || *extra > 0) {
			fmt.Fprintf(c.App.Writer, "extra time: %+.1f %% promised, %+.1f %% measured (second runs and copies)\n", 100*over, 100**extra)
		}
		fmt.Fprintln(c.App.Writer)
	}
	for _, text := range []string{report.Copies(result.Plan, result.Trace), report.StateCopies(result.Plan, result.Trace)} {
		if text != "" {
			report.Text(c.App.Writer, 2, "%s\n\n", text)
		}
	}
	if l := result.Lossy; l != nil {
		visible.Fprintf(c.App.Writer, "%s\n\n", l)
	}
	if result.Chains != nil {
		visible.Fprintf(c.App.Writer, "%s\n\n", result.Chains)
	}
	measured(c.App.Writer, loading(lines, result.Load), result.Trace, result.Anonymous)
	deviceMemory(c.App.Writer, result.Memory)
	deviceCounts(c.App.Writer, result.Counts)
	phasesText(c.App.Writer, result.Phases)
	return stopped(c, result)
}

// loading adds the line of loading weights, unless they were streamed, which takes no more than the step.
func loading(lines []report.Line, l *loader.Report) []report.Line {
	if l == nil || l.Mode == loader.Streamed {
		return lines
	}
	return append(slices.Clip(lines), report.Line{Name: fmt.Sprintf("while loading (%s: %s)", l.Mode, l.Formula), Promised: l.Promised, Measured: l.Measured})
}

// measured prints promised and measured memory: of the device, and of the process as the system
// counts it.
func measured(w io.Writer, lines []report.Line, t schedule.Trace, a *machine.Anonymous) {
	if a != nil {
		lines = append(slices.Clip(lines), report.Anonymous(a.Promised, a.Measured))
	}
	report.Measured(w, lines)
	report.Workspace(w, t)
	if a != nil && a.Data > 0 {
		fmt.Fprintf(w, "%s bytes of the data are on the heap: compressed arrays, and arrays in Fortran order, cannot be mapped\n", report.Thousands(a.Data))
	}
}

// trained is the page's part about a run.
func trained(r *training.Result, lines []report.Line) *report.Trained {
	t := &report.Trained{Device: r.Device, FirstStep: r.FirstStep, Losses: r.Losses, MedianMS: float64(r.Median().Microseconds()) / 1000, Lines: lines, Workspace: r.Trace.Workspace}
	if r.Phases != nil {
		t.Phases, t.Rule = r.Phases.Rows, r.Phases.Rule
	}
	if r.Stopped != nil {
		t.Stopped = r.Stopped.Error()
	}
	if r.Lossy != nil {
		t.Lossy = r.Lossy.String()
	}
	return t
}

// stopped is the reason why training ended early, and how to continue it.
func stopped(c *cli.Context, r *training.Result) error {
	if r.Stopped != nil && exit.Code(r.Stopped) == exit.CodeStopped && c.String("save") != "" {
		return fmt.Errorf("%w; --resume %s continues it", r.Stopped, c.String("save"))
	}
	return r.Stopped
}

// stopper ends training after the current step: at the first interrupt, when the terminal is closed
// (except under nohup), or when standard output is closed. A second interrupt ends the program at
// once.
type stopper struct {
	stopped chan struct{}
	once    sync.Once
}

func newStopper(c *cli.Context) *stopper {
	s := &stopper{stopped: make(chan struct{})}
	ending.take(func() {
		warn(c, "interrupted; stopping after this step, or at once at a second interrupt")
		s.stop()
	})
	return s
}

func (s *stopper) stop() { s.once.Do(func() { close(s.stopped) }) }

func (s *stopper) release() { ending.take(nil) }

// steps prints a line for each step if there are few, else about twenty in all, and shows a
// progress line on a terminal.
type steps struct {
	c      *cli.Context
	status *status
	quiet  bool
	stop   func() // called when standard output is closed
	head   string
	count  int
}

func newSteps(c *cli.Context, asJSON bool, stop func(), head string) *steps {
	return &steps{c: c, status: newStatus(c), quiet: asJSON || c.Bool("quiet"), stop: stop, head: head}
}

// done reports step number step of of; both include the steps before a resumed run.
func (s *steps) done(step, of int, loss float64, took time.Duration) {
	s.count++
	all := of - step + s.count // of this run
	if every := max(1, (all+19)/20); !s.quiet && (s.count%every == 0 || s.count == 1 || s.count == all) {
		s.status.clear()
		fmt.Fprintf(s.c.App.Writer, "%sstep %*d  loss %.6f  %8s ms\n", s.head, len(fmt.Sprint(of)), step, loss, millis(took))
		s.head = ""
	}
	if out, is := s.c.App.Writer.(*screen); is && !s.quiet && (errors.Is(out.Err(), syscall.EPIPE) || out.To(os.Stdout) && unread(os.Stdout)) {
		s.stop()
	}
	if s.count < all {
		s.status.show("%s  loss %.4f", bar(s.count, all, time.Since(s.status.since)), loss)
	}
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d.Microseconds())/1000) }

// gradientStep is train --check, --dump and --against: a single step without an update.
func gradientStep(c *cli.Context, j job, asJSON bool) error {
	reference := c.String("check")
	if reference == "" {
		reference = c.String("data")
	}
	if reference == "" {
		warn(c, "no --data: one step on made-up numbers")
	}
	model, err := j.open()
	if err != nil {
		return err
	}
	done := busy(c, "running one step")
	set, check, err := training.Gradients(model, reference)
	done()
	if err != nil {
		return err
	}
	defer set.Close()
	warn(c, check.Plan.Warnings...)
	if c.IsSet("check") {
		if !check.HasLoss && len(check.Params)+len(check.After)+len(check.Missing) == 0 {
			return usage("%s has nothing to compare with; it needs loss, or grad.NAME for parameters", reference)
		}
		if n := len(check.Unchecked); n > 0 {
			warn(c, fmt.Sprintf("the reference has no gradient for %d of the model's parameters: %s", n, some(check.Unchecked)))
		}
	}
	if to := c.String("dump"); to != "" {
		if err := tensorfile.WriteNPZ(to, set); err != nil {
			return asInput(err)
		}
	}
	lines := report.Lines(check.Plan, check.Trace)
	limit := c.Float64("tolerance")
	wrong := mistakes(check, limit)
	var partings []compare.Parting
	if other := c.String("against"); other != "" {
		done := busy(c, "running it on both devices")
		partings, err = training.Against(model, reference, other, limit)
		done()
		if err != nil {
			return err
		}
	}
	if asJSON {
		f := checkJSON(check, lines)
		if c.IsSet("against") {
			f.Against = partingsJSON(c.String("against"), limit, partings)
		}
		if c.IsSet("check") {
			f.Check = comparison(check, limit, wrong == "")
		}
		if err := printJSON(c.App.Writer, f); err != nil {
			return err
		}
	} else {
		rows := [][]string{{"loss", fmt.Sprintf("%.7g", check.Loss), ""}}
		if c.IsSet("check") {
			if check.HasLoss {
				rows = append(rows, []string{"loss against reference", fmt.Sprintf("%.2e", check.LossRelErr), "relative"})
			}
			rows = append(rows, []string{"gradients compared", fmt.Sprint(len(check.Params)), ""})
			if len(check.Params) > 0 {
				rows = append(rows, []string{"worst gradient", fmt.Sprintf("%.2e", check.Worst.RelErr), check.Worst.Name})
			}
			if len(check.After) > 0 {
				rows = append(rows, []string{"running statistics compared", fmt.Sprint(len(check.After)), ""},
					[]string{"worst statistic", fmt.Sprintf("%.2e", check.WorstAfter.RelErr), check.WorstAfter.Name})
			}
			for _, name := range check.Missing {
				rows = append(rows, []string{"missing gradient", "", name})
			}
		}
		if l := check.Lossy; l != nil {
			rows = append(rows, []string{"lossy " + l.Type, fmt.Sprintf("%.2e", l.Worst.RelErr), "relative, of the gradient of " + l.Worst.Name})
		}
		report.Table(c.App.Writer, "llt", rows)
		fmt.Fprintln(c.App.Writer)
		measured(c.App.Writer, lines, check.Trace, check.Anonymous())
		deviceMemory(c.App.Writer, check.Memory)
		if c.IsSet("against") {
			writePartings(c.App.Writer, c.String("against"), limit, partings)
		}
	}
	if c.IsSet("check") && wrong != "" {
		return cannot{fmt.Sprintf("the step differs from %s by more than %g: %s", filepath.Base(reference), limit, wrong)}
	}
	return nil
}

// mistakes lists how a step differs from its reference; "" if it does not.
func mistakes(check *training.Check, limit float64) string {
	var parts []string
	if !(check.LossRelErr <= limit) {
		parts = append(parts, fmt.Sprintf("the loss by %.2e", check.LossRelErr))
	}
	n := 0
	for _, p := range check.Params {
		if !(p.RelErr <= limit) {
			n++
		}
	}
	if n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d gradients, %q the most by %.2e", n, len(check.Params), check.Worst.Name, check.Worst.RelErr))
	}
	n = 0
	for _, p := range check.After {
		if !(p.RelErr <= limit) {
			n++
		}
	}
	if n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d running statistics, %q the most by %.2e", n, len(check.After), check.WorstAfter.Name, check.WorstAfter.RelErr))
	}
	if len(check.Missing) > 0 {
		parts = append(parts, "the model has no gradient for "+some(check.Missing)+
			" (exporters that fold, merge or tie weights drop their names; torch.onnx.export(optimize=False) keeps most)")
	}
	return strings.Join(parts, "; ")
}

// some lists the first few names.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

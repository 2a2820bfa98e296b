package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/fitwords"
	"memopt/internal/visible"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/profile"
)

// ofFile are the flags of fit that an ONNX file or a recorded step leaves open; all others are about how a module is made.
var ofFile = []string{"budget", "for", "optimizer"}

// fitSettings are the settings that only files need.
func fitSettings() (flags []cli.Flag) {
	for _, name := range []string{"dims", "loss"} {
		row, _ := configs.Find(name)
		flags = append(flags, newSettingFlag(row, "fit"))
	}
	return flags
}

// hasStep reports whether a model is a file with a step, or a forward pass, in it: then no Python is needed.
func hasStep(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".onnx", ".gz":
		return true
	case ".json":
		return kindOf(path) == modelFile
	}
	return false
}

// statesOf is how many states of a parameter's size PyTorch's optimizers have: a recorded step ends with its gradients.
var statesOf = map[string]int64{"adam": 2, "adamw": 2, "adamw-fused": 2, "lion": 1, "momentum": 1, "sgd": 0, "none": 0}

// fitFile is the JSON of the answer about a file: the same fields as that about a config, where they have a meaning.
type fitFile struct {
	Format  string           `json:"format"`
	Model   string           `json:"model"`
	Dims    map[string]int64 `json:"dims"`
	Device  string           `json:"device"`
	Fits    bool             `json:"fits"`
	Budget  *int64           `json:"budget"`
	Peak    int64            `json:"peak"`
	Floor   int64            `json:"floor"`
	Binds   string           `json:"binds"`
	Phases  []fitPhase       `json:"phases"`
	Ladder  []fitRung        `json:"ladder"`
	Notes   []string         `json:"notes"`
	Verdict string           `json:"verdict"`
	unit    string           // of extra costs
	room    profile.Room
	curve   *planner.Curve
}

// fitPhase is what a phase takes at its peak.
type fitPhase struct {
	Phase string           `json:"phase"`
	Total int64            `json:"total"`
	Bytes map[string]int64 `json:"bytes"`
}

// fitRung is the step under a plan, or as it is.
type fitRung struct {
	Name     string  `json:"name"`
	Total    int64   `json:"total"`
	Overhead float64 `json:"overhead"`
	Time     int64   `json:"time_ns"`
	Fits     *bool   `json:"fits"`
	Batch    *int64  `json:"batch"` // the largest under the same decisions; null: not known
	Seq      *int64  `json:"seq"`

	point planner.Point
}

// fitsFile answers for a file, by the planner alone.
func fitsFile(c *cli.Context, asJSON bool) error {
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if c.IsSet(name) && (slices.ContainsFunc(fitFields, func(g cli.Flag) bool { return g.Names()[0] == name }) || name == "python") && !slices.Contains(ofFile, name) {
			return usage("%s has its step in it, so --%s has no meaning: %s", filepath.Base(c.Args().First()), name, instead(name))
		}
	}
	asked := configs.Asked{Command: "plan", Settings: given(c), Environ: os.Environ()}
	if c.IsSet("for") {
		asked.Settings["for_device"] = c.String("for")
	}
	recorded := strings.ToLower(filepath.Ext(c.Args().First())) != ".onnx"
	if c.IsSet("optimizer") && !recorded {
		asked.Settings["optimizer"] = c.String("optimizer")
	}
	var budget configs.Budget
	if c.IsSet("budget") {
		var err error
		if budget, err = configs.ParseBudget(c.String("budget")); err != nil {
			return usage("--budget %s", err)
		}
	}
	cfg, warnings, err := asked.Config()
	if err != nil {
		return asInput(err)
	}
	cfg.Budget, cfg.ActivationBudget, cfg.MaxOverhead = configs.Budget{}, configs.Budget{}, 0 // the ladder has all of them
	warn(c, warnings...)
	j := job{ctx: c.Context, model: c.Args().First(), cfg: cfg, busy: func(doing string) func() { return busy(c, doing) }, warn: func(more ...string) { warn(c, more...) }}
	if page := c.String("html"); page != "" {
		j.to = []destination{{"--html", page}}
		if err := writable(j.to, append(c.Args().Slice(), cfg.Files()...)); err != nil {
			return err
		}
	}
	found, err := j.fits(budget, cmp.Or(c.String("optimizer"), "adamw"))
	if err != nil {
		return refused(c, cfg, err)
	}
	if asJSON {
		err = printJSON(c.App.Writer, found)
	} else {
		found.text(c.App.Writer)
	}
	if err == nil && !found.Fits {
		return &cannotFit{found.Verdict}
	}
	return err
}

// instead says what asks for the same of a file.
func instead(flag string) string {
	switch flag {
	case "batch", "seq":
		return "sizes of an ONNX file are --dims " + flag + "=N"
	case "python":
		return "it is answered without Python"
	}
	return "export or record the step as it is trained"
}

// fits finds the plans of the step of the file.
func (j job) fits(budget configs.Budget, optimizer string) (*fitFile, error) {
	model, err := j.open()
	if err != nil {
		return nil, err
	}
	defer model.Close()
	states, known := statesOf[optimizer]
	if model.Recorded() && !known {
		return nil, usage("--optimizer is %q: of a recorded step's optimizers there are %s", optimizer, strings.Join(slices.Sorted(maps.Keys(statesOf)), ", "))
	}
	done := j.busy("planning")
	defer done()
	curve, err := model.Frontier()
	if err != nil {
		return nil, err
	}
	j.warn(curve.Warnings...)
	dims := model.Config.Dims
	if dims == nil {
		dims = map[string]int64{}
	}
	f := &fitFile{Format: fitwords.Format, Model: model.Path, Dims: dims, Binds: curve.Floor.Node, Notes: []string{}, unit: model.Unit(), curve: curve}
	if err := f.on(model, budget); err != nil {
		return nil, err
	}
	after := int64(0) // gradients that the update of a recorded step holds beside weights and states
	trains := model.Trains()
	if trains == nil || !model.Recorded() {
		states = 0
	} else {
		states *= trains.Bytes
		after = trains.Bytes
	}
	f.phases(curve.Whole, states, after)
	f.Peak = f.Phases[len(f.Phases)-1].Total
	takes := func(step int64) int64 { return f.takes(curve.Whole, step, states, after) }
	f.Floor = takes(curve.Fixed + curve.Floor.Peak)
	f.ladder(curve, takes, float64(curve.Time))
	f.judge()
	if f.Budget != nil {
		if err := model.Guarded(func() error { return f.largest(model, curve, states, after) }); err != nil {
			return nil, err
		}
	}
	if f.room.Context > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("the context (%s) is assumed, not measured", report.Bytes(f.room.Context)))
	}
	if f.room.Slack > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("the allocator's slack (%.0f %% of what a step allocates) is assumed, not measured", 100*f.room.Slack))
	}
	if model.Recorded() {
		if trains == nil {
			f.Notes = append(f.Notes, "optimizer states are not counted: which inputs are trained is not known")
		}
	} else {
		f.Notes = append(f.Notes, "these bytes are of memopt's own runtime")
	}
	for _, to := range j.to {
		var page bytes.Buffer
		if err := model.Guarded(func() error { return report.FitHTML(&page, f.page()) }); err != nil {
			return nil, err
		}
		if err := writeText(j.ctx, to.path, page.Bytes()); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// on sets the device, and the budget: all of the device's memory, if none is given. The runtime that steps of ONNX files run in has no
// allocator that rounds up.
func (f *fitFile) on(m *step.Model, budget configs.Budget) error {
	f.Device = "this machine"
	if m.Priced != nil {
		f.Device, f.room = m.Priced.Name, m.Priced.Room()
	}
	if !m.Recorded() {
		f.room.Slack = 0
	}
	if m.Config.ForDevice == "" {
		f.room.Memory = 0 // nobody says that the step has to fit there
	}
	if f.room.Memory > 0 {
		f.Device += fmt.Sprintf(", %.1f GiB", float64(f.room.Memory)/(1<<30))
	}
	bytes := cmp.Or(budget.Bytes, f.room.Memory)
	if budget.Percent > 0 {
		if f.room.Memory == 0 {
			return usage("--budget is a share of a device whose memory is not known: give bytes, or a device with --for (%s)", strings.Join(slices.Sorted(maps.Keys(profile.Memory())), ", "))
		}
		bytes = max(1, int64(float64(f.room.Memory)*min(budget.Percent, 100)/100))
	}
	if bytes > 0 {
		f.Budget = &bytes
	}
	return nil
}

// takes is the bytes of the device where a later step takes so many by itself, in its passes or in its update.
func (f *fitFile) takes(m planner.Memory, step, states, after int64) int64 {
	slack := func(bytes int64) int64 { return int64(float64(bytes) * f.room.Slack) }
	return f.room.Context + max(step+states+slack(step-m.Weights-m.Optimizer), m.Weights+m.Optimizer+states+after+slack(after))
}

// phases splits what is held by phase. states and after are of a recorded step, whose update is not in it: of an ONNX
// file the states are in the memory that was planned, from the start.
func (f *fitFile) phases(m planner.Memory, states, after int64) {
	step := func(name string, before int64) {
		passes := f.phase(name, map[string]int64{"weights": m.Weights, "optimizer states": m.Optimizer + before, "gradients": m.Gradients, "activations": m.Activations, "inputs": m.Staging})
		if update := f.phase(name, map[string]int64{"weights": m.Weights, "optimizer states": m.Optimizer + states, "gradients": after}); update.Total > passes.Total {
			passes = update
		}
		f.Phases = append(f.Phases, passes)
	}
	f.Phases = append(f.Phases, f.phase(fitwords.Load, map[string]int64{"weights": m.Weights, "optimizer states": m.Optimizer}))
	step(fitwords.FirstStep, 0)
	step(fitwords.LaterSteps, states)
}

// phase is a phase with the context and the allocator's slack.
func (f *fitFile) phase(name string, bytes map[string]int64) fitPhase {
	bytes["context"] = f.room.Context
	bytes["slack"] = int64(float64(bytes["gradients"]+bytes["activations"]+bytes["inputs"]) * f.room.Slack)
	maps.DeleteFunc(bytes, func(_ string, n int64) bool { return n == 0 })
	total := int64(0)
	for _, n := range bytes {
		total += n
	}
	return fitPhase{name, total, bytes}
}

// ladder has the lowest plan at each limit of cost that is below the one before; takes is the device's bytes where a plan takes some.
// time is that of the step as it is, 0 if it is not known.
func (f *fitFile) ladder(curve *planner.Curve, takes func(int64) int64, time float64) {
	f.Ladder = []fitRung{f.rung(fitwords.AsItIs, f.Peak, curve.Kept, time)}
	for _, of := range fitwords.Rungs() {
		best := f.Ladder[len(f.Ladder)-1]
		for _, p := range curve.Points {
			if total := takes(p.Total); p.Overhead <= of.Most+1e-9 && total < best.Total {
				best = f.rung(of.Name, total, p, time)
			}
		}
		if best.Name == of.Name {
			f.Ladder = append(f.Ladder, best)
		}
	}
}

func (f *fitFile) rung(name string, total int64, p planner.Point, time float64) fitRung {
	r := fitRung{Name: name, Total: total, Overhead: p.Overhead, Time: int64(time * (1 + p.Overhead)), point: p}
	if f.Budget != nil {
		fits := total <= *f.Budget
		r.Fits = &fits
	}
	return r
}

// largest finds the largest batch and row under the decisions of each rung: the budget less what a step has beside it.
func (f *fitFile) largest(m *step.Model, curve *planner.Curve, states, after int64) error {
	w, slack := curve.Whole.Weights+curve.Whole.Optimizer, f.room.Slack
	room := int64((float64(*f.Budget-f.room.Context-states) + slack*float64(w)) / (1 + slack))
	if f.takes(curve.Whole, 0, states, after) > *f.Budget {
		room = 0 // the update alone does not fit
	}
	batch, seq := m.BatchDim(), ""
	for _, name := range m.Graph.Names() {
		switch {
		case isSequence(name):
			seq = name
		case name == "batch":
			batch = name
		}
	}
	if batch == "" && seq == "" {
		f.Notes = append(f.Notes, "the largest batch and row are not known: the file has its sizes as numbers, not as named dims")
	}
	for i := range f.Ladder {
		rung := &f.Ladder[i]
		for dim, to := range map[string]**int64{batch: &rung.Batch, seq: &rung.Seq} {
			size, known, err := curve.LargestAt(rung.point, dim, room)
			if err != nil {
				return err
			}
			if known {
				*to = &size
			}
		}
	}
	return nil
}

// judge makes the verdict.
func (f *fitFile) judge() {
	size := report.Bytes
	if f.Fits = f.Budget == nil; f.Fits {
		f.Verdict = fitwords.Fill(fitwords.NoBudget, "peak", size(f.Peak))
		return
	}
	for i, r := range f.Ladder { // the first is the cheapest
		if !*r.Fits {
			continue
		}
		f.Fits = true
		text := fitwords.Under
		if i == 0 {
			text = fitwords.Whole
		}
		f.Verdict = fitwords.Fill(text, "budget", size(*f.Budget), "how", fitwords.UnderPlan, "total", size(r.Total), "extra", report.Extra(r.Overhead, 1), "unit", f.unit, "peak", size(f.Peak))
		return
	}
	f.Verdict = fitwords.Fill(fitwords.Beyond, "budget", size(*f.Budget), "peak", size(f.Peak), "floor", size(f.Floor), "binds", f.Binds)
}

// owners is the table of what is held in which phase.
func (f *fitFile) owners() [][]string {
	size := func(n int64) string {
		if n == 0 {
			return "–"
		}
		return report.Bytes(n)
	}
	head, total := []string{""}, []string{fitwords.Total}
	for _, p := range f.Phases {
		head, total = append(head, p.Phase), append(total, size(p.Total))
	}
	rows := [][]string{head}
	for _, owner := range report.FitOwners {
		row, any := []string{owner}, int64(0)
		for _, p := range f.Phases {
			row, any = append(row, size(p.Bytes[owner])), any|p.Bytes[owner]
		}
		if any != 0 {
			rows = append(rows, row)
		}
	}
	return append(rows, total)
}

// rungs is the table of the ladder.
func (f *fitFile) rungs() [][]string {
	head := []string{"", fitwords.Takes, f.unit, fitwords.AStep}
	batches, seqs := f.Ladder[0].Batch != nil, f.Ladder[0].Seq != nil
	if batches {
		head = append(head, fitwords.LargestBatch)
	}
	if seqs {
		head = append(head, fitwords.LongestRow)
	}
	rows := [][]string{append(head, "")}
	for _, r := range f.Ladder {
		time, fits := "–", ""
		if r.Time > 0 {
			time = report.Nanoseconds(float64(r.Time))
		}
		if r.Fits != nil {
			fits = map[bool]string{true: fitwords.Fits, false: fitwords.FitsNot}[*r.Fits]
		}
		row := []string{r.Name, report.Bytes(r.Total), report.Extra(r.Overhead, 1), time}
		if batches {
			row = append(row, sizeText(r.Batch))
		}
		if seqs {
			row = append(row, sizeText(r.Seq))
		}
		rows = append(rows, append(row, fits))
	}
	return rows
}

// text is the answer on one screen.
func (f *fitFile) text(w io.Writer) {
	visible.Fprintf(w, "%s\n\nmodel   %s\ndevice  %s\n\n", f.Verdict, filepath.Base(f.Model), f.Device)
	report.Table(w, "=lrrr", f.owners())
	fmt.Fprintln(w)
	rungs := f.rungs()
	report.Table(w, "=l"+strings.Repeat("r", len(rungs[0])-2)+"l", rungs)
	fmt.Fprintln(w)
	for _, n := range f.Notes {
		report.Text(w, 2, "note: %s\n", n)
	}
}

// page is the content of the page of the answer. Plans change what the step allocates.
func (f *fitFile) page() report.FitPage {
	p := report.FitPage{Title: filepath.Base(f.Model), Device: f.Device, Verdict: f.Verdict, Fits: f.Fits, Owners: f.owners(), Ladder: f.rungs(), Notes: f.Notes,
		Picture: f.curve.Picture(), Peak: f.curve.Kept.Peak, Floor: f.curve.Floor.Peak}
	if f.Budget != nil {
		p.Budget = *f.Budget
	}
	for _, phase := range f.Phases {
		p.Phases = append(p.Phases, report.Held{Name: phase.Phase, Bytes: phase.Bytes})
	}
	later := f.Phases[len(f.Phases)-1].Bytes
	beside := map[string]int64{"weights": later["weights"], "optimizer states": later["optimizer states"], "context": later["context"]}
	for _, r := range f.Ladder {
		held := maps.Clone(beside)
		held[report.OfStep] = r.Total - later["weights"] - later["optimizer states"] - later["context"]
		p.Rungs = append(p.Rungs, report.Held{Name: r.Name, Bytes: held})
	}
	return p
}

// sizeText is a largest size for people.
func sizeText(n *int64) string {
	switch {
	case n == nil:
		return "–"
	case *n == 0:
		return fitwords.None
	}
	return report.Thousands(*n)
}

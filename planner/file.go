package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/internal/visible"
	"memopt/internal/whole"
	"memopt/planner/pack"
	"memopt/planner/profile"
)

// Format is the version that plan files carry. Readers refuse a field that they do not know, so a file that may have
// one more is of the next version.
const Format = "memopt.plan/1"

// File is a plan as JSON. Sizes are bytes. Everything down to Warnings is for readers; Program and Steps are what Load
// replays.
type File struct {
	Format   string            `json:"format"`
	Model    FileModel         `json:"model"`
	Dims     map[string]int64  `json:"dims"`
	Request  FileRequest       `json:"request"`
	Settings map[string]string `json:"settings"` // what the graph was made with
	// Beside is the settings that differ in the step that baseline and costs are compared with, where that is another
	// form.
	Beside   map[string]string `json:"beside,omitempty"`
	Strategy string            `json:"strategy"`
	Trains   *Trains           `json:"trains,omitempty"`
	FileFields
	PlanMS   float64  `json:"plan_ms"` // 0 in a saved file: those of one request are the same bytes
	Warnings []string `json:"warnings"`
	Steps    []Step   `json:"steps"`
	Offsets  []int64  `json:"offsets"`
	Moves    []Move   `json:"moves,omitempty"`
	Program  []string `json:"program"`

	ctx context.Context // ends writing it
}

// FileFields are the fields of a file that describe the plan. All but the bound follows from the steps, the places and the
// graph alone, and is worked out again when a file is read.
type FileFields struct {
	Baseline FileBaseline   `json:"baseline"`
	Form     *FileForm      `json:"form,omitempty"` // the form that was taken, where that is not the plain step
	Result   FileResult     `json:"result"`
	Floor    Floor          `json:"floor"`
	Bound    Bound          `json:"bound"`
	Memory   Memory         `json:"memory"`
	Moved    *Moved         `json:"offload,omitempty"`
	Streamed *Streamed      `json:"states,omitempty"`
	Clusters []Cluster      `json:"clusters"`
	Selected Selection      `json:"selection"`
	Layers   []FileBoundary `json:"boundaries"`
	Dominant []Holding      `json:"dominant"`
	Formulas *Formulas      `json:"formulas,omitempty"`
	Saved    []string       `json:"saved"` // values that pass from forward to backward
}

// FileModel says which graph the plan is for.
type FileModel struct {
	Path        string `json:"path"`
	Fingerprint string `json:"fingerprint"`
	Kind        string `json:"kind"`
	Nodes       int    `json:"nodes"`
	Forward     int    `json:"forward_nodes"` // the first of them
	// Recorded is what a recorded step was recorded under, and Holds what its program held.
	Recorded map[string]string `json:"recorded,omitempty"`
	Holds    []FileHold        `json:"holds,omitempty"`
}

// FileHold is a value that is held until a node has run.
type FileHold struct {
	Value string `json:"value"`
	Maker string `json:"maker"` // the node that makes it; "" if none does
	Until string `json:"until"`
}

// FileRequest is what was asked.
type FileRequest struct {
	Level            int     `json:"level"`
	Config           string  `json:"config"`
	Budget           int64   `json:"budget"`
	ActivationBudget int64   `json:"activation_budget"`
	MaxOverhead      float64 `json:"max_overhead"`
	Boundary         bool    `json:"boundary"`
	Compat           string  `json:"compat,omitempty"`
	Lowered          bool    `json:"lowered,omitempty"`
	Measured         bool    `json:"measured,omitempty"` // costs are times of a device, node by node
	// Profile is what costs are nanoseconds of; without it they are flops and bytes.
	Profile *profile.Profile `json:"profile,omitempty"`
	// Elsewhere is where values may be moved to.
	Elsewhere *Elsewhere `json:"offload,omitempty"`
	// States is where states of optimizers lie that stream in and out.
	States string `json:"states,omitempty"`
	// StatesStay is of how many parameters, the smallest, they stay in memory.
	StatesStay int `json:"states_stay,omitempty"`
}

// FileBaseline is the step without recomputation.
type FileBaseline struct {
	Peak        int64  `json:"peak"`
	PeakFormula string `json:"peak_formula"`
	PeakNode    string `json:"peak_node"`
	Arena       int64  `json:"arena"`
	Stashed     int64  `json:"stashed"`
	Flops       int64  `json:"flops"`
	// Time is what the step takes by the profile, in nanoseconds; left out without one.
	Time int64 `json:"time_ns,omitempty"`
}

// FileForm is another form of the step than the plain one, with everything kept.
type FileForm struct {
	Peak     int64   `json:"peak"`
	Arena    int64   `json:"arena"`
	Stashed  int64   `json:"stashed"`
	Overhead float64 `json:"overhead"` // above the plain step
}

// FileResult is the step under the plan.
type FileResult struct {
	Peak        int64   `json:"peak"`
	PeakFormula string  `json:"peak_formula"`
	PeakNode    string  `json:"peak_node"`
	Arena       int64   `json:"arena"`
	PackBound   int64   `json:"pack_bound"`
	Stashed     int64   `json:"stashed"`
	ExtraFlops  int64   `json:"extra_flops"`
	Overhead    float64 `json:"overhead"`
	Recomputed  int     `json:"recomputed_nodes"`
	Time        int64   `json:"time_ns,omitempty"` // by the profile
}

// FileBoundary is a place where a layer begins.
type FileBoundary struct {
	Node string `json:"node"`
	Kept string `json:"kept"` // what the layer before left
}

// File is the plan's JSON form. path is where the model came from. If there can be no plan table, a warning in the file
// says why.
func (p *Plan) File(path string) *File {
	begin := time.Now()
	err := p.Tabulate()
	warnings := append([]string{}, p.Warnings...)
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("the plan table is missing: %v", err))
	}
	r := p.Request
	base := p.m.fixedBytes() + p.Baseline.Arena
	stop.Poll(p.m.ctx)
	f := &File{
		ctx:    p.m.ctx,
		Format: Format,
		Model:  p.fileModel(path, p.Graph.Fingerprint()),
		Dims:   r.Dims,
		Request: FileRequest{Level: r.Level, Budget: r.Budget.of(base), ActivationBudget: r.ActivationBudget.of(p.Baseline.Arena),
			MaxOverhead: r.MaxOverhead, Boundary: r.Boundary, Compat: r.Compat, Lowered: r.Lowered, Measured: len(r.Costs) > 0, Profile: r.pricing(), Elsewhere: r.Elsewhere, States: r.States, StatesStay: r.StatesStay},
		Settings:   map[string]string{},
		Trains:     p.Trains,
		Strategy:   p.Strategy,
		FileFields: p.fileFields(),
		Warnings:   warnings,
		Steps:      p.Steps,
		Offsets:    p.Offsets,
		Moves:      p.Moves,
	}
	if f.Dims == nil {
		f.Dims = map[string]int64{}
	}
	maps.Copy(f.Settings, p.Form.Settings)
	if len(p.Form.Beside) > 0 {
		f.Beside = p.Form.Beside
	}
	f.Request.Config = configText(r.Clusters...)
	stop.Poll(p.m.ctx)
	f.Program = Program(p.Graph)
	f.PlanMS = float64((p.Took + time.Since(begin)).Microseconds()) / 1000
	return f
}

func (p *Plan) fileModel(path, fingerprint string) FileModel {
	kind := "training"
	if len(p.Graph.Grads) == 0 {
		kind = "inference"
	}
	return FileModel{Path: path, Fingerprint: fingerprint, Kind: kind, Nodes: len(p.Graph.Nodes), Forward: p.m.forward,
		Recorded: recorded(p.Graph), Holds: fileHolds(p.Graph)}
}

func recorded(g *graph.Graph) map[string]string {
	all := map[string]string{}
	for _, r := range g.Recorded {
		all[r.Name] = r.Value
	}
	return all
}

func fileHolds(g *graph.Graph) (all []FileHold) {
	for _, h := range g.Holds {
		maker := ""
		if h.Value.Def != nil {
			maker = h.Value.Def.Name
		}
		all = append(all, FileHold{h.Value.Name, maker, h.Until.Name})
	}
	return all
}

// fileFields are the plan's fields in its file, once there is a table.
func (p *Plan) fileFields() FileFields {
	var cost, plain float64
	if p.Request.pricing() != nil {
		cost, plain = p.Cost()
	}
	f := FileFields{
		Baseline: FileBaseline{p.Baseline.Peak, p.Baseline.PeakFormula, p.Baseline.PeakNode, p.Baseline.Arena, p.Baseline.Stashed, p.Baseline.Flops, int64(plain)},
		Result: FileResult{p.Result.Peak, p.Result.PeakFormula, p.Result.PeakNode, p.Arena, p.PackBound, p.Result.Stashed,
			p.Result.ExtraFlops, p.Result.Overhead, p.Result.Again, int64(cost)},
		Floor:    p.Floor,
		Bound:    p.Bound,
		Memory:   p.Memory,
		Moved:    p.Moved,
		Streamed: p.Streamed(),
		Clusters: append([]Cluster{}, p.Clusters...), // a file may be changed
		Layers:   []FileBoundary{},
		Selected: p.Selection,
		Saved:    p.Saved(),
		Dominant: p.Dominant,
	}
	f.Formulas, _ = p.Formulas() // there are none where one is too large
	if p.m.plain != nil {
		f.Form = &FileForm{p.Whole.Peak, p.Whole.Arena, p.Whole.Stashed, p.FormOverhead()}
	}
	for i, node := range p.Boundaries {
		f.Layers = append(f.Layers, FileBoundary{node, p.Kept[i]})
	}
	return f
}

// Program is the graph's nodes as text, so that what was made for another graph can be refused with the first
// difference.
func Program(g *graph.Graph) []string {
	lines := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		lines[i] = n.String()
	}
	return lines
}

// RunAgain names the nodes that the plan runs again, each once, in the order in which it does.
func (f *File) RunAgain() []string {
	names, met := []string{}, map[int32]bool{}
	for _, s := range f.Steps {
		if s.Again && !met[s.Node] && s.Node >= 0 && int(s.Node) < len(f.Program) {
			met[s.Node] = true
			names = append(names, ParseLine(f.Program[s.Node]).Name)
		}
	}
	return names
}

// Save writes the plan file; it appears whole or not at all.
func (f *File) Save(path string) error {
	untimed := *f
	untimed.PlanMS = 0
	data, err := json.MarshalIndent(untimed, "", " ")
	if err != nil {
		return err
	}
	if err := whole.BytesContext(f.ctx, path, visible.Bytes(append(data, '\n'))); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Bind makes a Plan of a file and the graph it is for, and checks it. A plan for another graph is refused with the
// first difference.
func (f *File) Bind(g *graph.Graph) (*Plan, error) { return f.BindAs(g, Request{}) }

// BindAs is Bind with what no file holds of a request: the outline of a graph whose program a file spells otherwise,
// what could be kept in less, the plain step, and measured costs.
func (f *File) BindAs(g *graph.Graph, r Request) (*Plan, error) {
	if err := f.sameProgram(g); err != nil {
		return nil, err
	}
	requests, err := parseConfig(f.Request.Config)
	if err != nil {
		return nil, err
	}
	r.Dims, r.Level, r.Budget, r.ActivationBudget = f.Dims, f.Request.Level, Size{Bytes: f.Request.Budget}, Size{Bytes: f.Request.ActivationBudget}
	r.MaxOverhead, r.Clusters, r.Boundary, r.Compat, r.Lowered = f.Request.MaxOverhead, requests, f.Request.Boundary, f.Request.Compat, f.Request.Lowered
	r.Profile, r.Elsewhere, r.States, r.StatesStay = f.Request.Profile, f.Request.Elsewhere, f.Request.States, f.Request.StatesStay
	if r.Profile != nil {
		if err := r.Profile.Check(); err != nil {
			return nil, fmt.Errorf("the plan's profile: %w", err)
		}
	}
	x, err := Look(g, r)
	if err != nil {
		return nil, err
	}
	p := x.begin().plan
	p.Strategy, p.Steps, p.Offsets, p.Arena, p.Moves = strategyNamed(f.Strategy), slices.Clone(f.Steps), f.Offsets, f.Result.Arena, slices.Clone(f.Moves)
	replayed, err := p.replay()
	if err != nil {
		return nil, err
	}
	c := &candidate{t: x.m.simulate(p.Steps), placed: pack.Solution{Offsets: f.Offsets, Height: p.Arena, Bound: f.Result.PackBound}}
	if err := x.m.movedBy(c, f.Moves, r.Elsewhere); err != nil {
		return nil, invalid("%w", err)
	}
	c.cost, _, _ = x.m.again(p.Steps)
	c.cost += float64(c.wait)
	if f.Moved != nil { // like the bound, what was found when the plan was made
		p.Moved = &Moved{Alone: f.Moved.Alone}
	}
	p.adopt(c)
	if err := x.turnOn(make([]bool, len(g.Nodes))); err != nil {
		return nil, err
	}
	p.Warnings = nil // they were said when the plan was made
	if p.Clusters, err = x.rows(); err != nil {
		return nil, err
	}
	p.Bound = f.Bound
	if err := replayed.agrees(p); err != nil {
		return nil, err
	}
	return p, f.claims(p)
}

// sameProgram compares the file's program with the graph's, line by line: reports and exports take the nodes' names
// from it.
func (f *File) sameProgram(g *graph.Graph) error {
	same := f.Model.Fingerprint == g.Fingerprint()
	lines := Program(g)
	if !same {
		if err := f.sameConditions(g, lines); err != nil {
			return err
		}
	}
	for i, line := range lines {
		switch {
		case i >= len(f.Program):
			return fmt.Errorf("the plan is for another graph: it ends before node %d: %s", i, clip(line))
		case f.Program[i] != line && same:
			return fmt.Errorf("the plan is for this graph, but was changed: the plan spells node %d as %s; the model has %s", i, clip(f.Program[i]), clip(line))
		case f.Program[i] != line:
			return fmt.Errorf("the plan is for another graph; the first difference is node %d: the plan has %s; the model has %s", i, clip(f.Program[i]), clip(line))
		}
	}
	if len(f.Program) > len(lines) {
		return fmt.Errorf("the plan is for another graph: it goes on with %s", clip(f.Program[len(lines)]))
	}
	if holds := fileHolds(g); !same && !slices.Equal(f.Model.Holds, holds) {
		return fmt.Errorf("the plan is for another recording: the nodes are the same, but what the program holds differs: %s", otherHold(f.Model.Holds, holds))
	}
	if !same {
		return fmt.Errorf("the plan is for another graph: the nodes are the same, but inputs, parameters or outputs differ")
	}
	return nil
}

// sameConditions compares what two recordings of the same nodes were made under: where that differs, so does work
// space.
func (f *File) sameConditions(g *graph.Graph, lines []string) error {
	has := recorded(g)
	if !slices.EqualFunc(f.Program, lines, func(a, b string) bool { return a == b || ParseLine(a).Name == ParseLine(b).Name }) {
		return nil
	}
	said := func(of map[string]string, name string) string {
		if value, ok := of[name]; ok {
			return fmt.Sprintf("%s %s", name, clip(value))
		}
		return "no word of " + name
	}
	for _, of := range []map[string]string{f.Model.Recorded, has} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if value, ok := has[name]; !ok || value != f.Model.Recorded[name] {
				return fmt.Errorf("the plan is for a step that was recorded with %s, this one was recorded with %s; its bytes depend on that: record and plan the step as it is to run",
					said(f.Model.Recorded, name), said(has, name))
			}
		}
	}
	return nil
}

// otherHold is the first difference of two lists of holds.
func otherHold(plan, model []FileHold) string {
	i := 0
	for i < min(len(plan), len(model)) && plan[i] == model[i] {
		i++
	}
	said := func(of []FileHold) string {
		if i == len(of) {
			return "nothing more"
		}
		return fmt.Sprintf("%q until %q", clip(of[i].Value), clip(of[i].Until))
	}
	return fmt.Sprintf("the plan has %s, the model %s", said(plan), said(model))
}

// clip keeps a quoted line short enough to read in an error.
func clip(s string) string {
	const most = 120
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

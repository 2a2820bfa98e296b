// Package planfile writes plans as JSON and reads them back.
//
// Of is a plan's file; Read reads one and refuses what no plan has. A file decides nothing by itself: Bind compares its program
// with the graph it is to be for, restores the plan from the decisions in it (planner.Restore), which holds them against the
// graph, and then holds all that the file tells of its plan against that plan (claims.go).
package planfile

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
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/formulas"
	"memopt/planner/profile"
)

// Format is the version that plan files carry. Readers refuse a field that they do not know, so a file that may have
// one more is of the next version.
const Format = "memopt.plan/1"

// File is a plan as JSON. Sizes are bytes. Everything down to Warnings is for readers; Program and Steps are what Bind
// replays.
type File struct {
	Format   string            `json:"format"`
	Model    Model             `json:"model"`
	Dims     map[string]int64  `json:"dims"`
	Request  Request           `json:"request"`
	Settings map[string]string `json:"settings"` // what the graph was made with
	// Beside is the settings that differ in the step that baseline and costs are compared with, where that is another
	// form.
	Beside   map[string]string `json:"beside,omitempty"`
	Strategy string            `json:"strategy"`
	Trains   *planner.Trains   `json:"trains,omitempty"`
	Fields
	PlanMS   float64        `json:"plan_ms"` // 0 in a saved file: those of one request are the same bytes
	Warnings []string       `json:"warnings"`
	Steps    []planner.Step `json:"steps"`
	Offsets  []int64        `json:"offsets"`
	Moves    []planner.Move `json:"moves,omitempty"`
	Program  []string       `json:"program"`

	ctx context.Context // ends writing it
}

// Fields are the fields of a file that describe the plan. All but the bound follows from the steps, the places and the
// graph alone, and is worked out again when a file is read.
type Fields struct {
	Baseline Baseline           `json:"baseline"`
	Form     *Form              `json:"form,omitempty"` // the form that was taken, where that is not the plain step
	Result   Result             `json:"result"`
	Floor    planner.Floor      `json:"floor"`
	Bound    planner.Bound      `json:"bound"`
	Memory   planner.Memory     `json:"memory"`
	Tiles    []planner.Tiled    `json:"tiles,omitempty"` // layers that are computed in tiles of rows
	Moved    *planner.Moved     `json:"offload,omitempty"`
	Streamed *planner.Streamed  `json:"states,omitempty"`
	Clusters []planner.Cluster  `json:"clusters"`
	Selected planner.Selection  `json:"selection"`
	Layers   []Boundary         `json:"boundaries"`
	Dominant []planner.Holding  `json:"dominant"`
	Formulas *formulas.Formulas `json:"formulas,omitempty"`
	Saved    []string           `json:"saved"` // values that pass from forward to backward
}

// Model says which graph the plan is for.
type Model struct {
	Path        string `json:"path"`
	Fingerprint string `json:"fingerprint"`
	Kind        string `json:"kind"`
	Nodes       int    `json:"nodes"`
	Forward     int    `json:"forward_nodes"` // the first of them
	// Recorded is what a recorded step was recorded under, and Holds what its program held.
	Recorded map[string]string `json:"recorded,omitempty"`
	Holds    []Hold            `json:"holds,omitempty"`
}

// Hold is a value that is held until a node has run.
type Hold struct {
	Value string `json:"value"`
	Maker string `json:"maker"` // the node that makes it; "" if none does
	Until string `json:"until"`
}

// Request is what was asked.
type Request struct {
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
	Elsewhere *planner.Elsewhere `json:"offload,omitempty"`
	// States is where states of optimizers lie that stream in and out.
	States string `json:"states,omitempty"`
	// StatesStay is of how many parameters, the smallest, they stay in memory.
	StatesStay int `json:"states_stay,omitempty"`
}

// Baseline is the step without recomputation.
type Baseline struct {
	Peak        int64  `json:"peak"`
	PeakFormula string `json:"peak_formula"`
	PeakNode    string `json:"peak_node"`
	Arena       int64  `json:"arena"`
	Stashed     int64  `json:"stashed"`
	Flops       int64  `json:"flops"`
	// Time is what the step takes by the profile, in nanoseconds; left out without one.
	Time int64 `json:"time_ns,omitempty"`
}

// Form is another form of the step than the plain one, with everything kept.
type Form struct {
	Peak     int64   `json:"peak"`
	Arena    int64   `json:"arena"`
	Stashed  int64   `json:"stashed"`
	Overhead float64 `json:"overhead"` // above the plain step
}

// Result is the step under the plan.
type Result struct {
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

// Boundary is a place where a layer begins.
type Boundary struct {
	Node string `json:"node"`
	Kept string `json:"kept"` // what the layer before left
}

// Of is a plan's file. path is where the model came from. If there can be no plan table, a warning in the file says why.
func Of(p *planner.Plan, path string) *File {
	begin := time.Now()
	err := p.Tabulate()
	warnings := append([]string{}, p.Warnings...)
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("the plan table is missing: %v", err))
	}
	r := p.Request
	budget, activations := p.Limits()
	stop.Poll(r.Context)
	f := &File{
		ctx:    r.Context,
		Format: Format,
		Model:  modelOf(p, path, p.Graph.Fingerprint()),
		Dims:   r.Dims,
		Request: Request{Level: r.Level, Config: cluster.Text(r.Clusters...), Budget: budget, ActivationBudget: activations,
			MaxOverhead: r.MaxOverhead, Boundary: r.Boundary, Compat: r.Compat, Lowered: r.Lowered, Measured: len(r.Costs) > 0,
			Profile: r.Prices(), Elsewhere: r.Elsewhere, States: r.States, StatesStay: r.StatesStay},
		Settings: map[string]string{},
		Trains:   p.Trains,
		Strategy: p.Strategy,
		Fields:   fieldsOf(p),
		Warnings: warnings,
		Steps:    p.Steps,
		Offsets:  p.Offsets,
		Moves:    p.Moves,
	}
	if f.Dims == nil {
		f.Dims = map[string]int64{}
	}
	maps.Copy(f.Settings, p.Form.Settings)
	if len(p.Form.Beside) > 0 {
		f.Beside = p.Form.Beside
	}
	stop.Poll(r.Context)
	f.Program = Program(p.Graph)
	f.PlanMS = float64((p.Took + time.Since(begin)).Microseconds()) / 1000
	return f
}

func modelOf(p *planner.Plan, path, fingerprint string) Model {
	g, kind := p.Graph, "training"
	if len(g.Grads) == 0 {
		kind = "inference"
	}
	forward := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Phase != graph.Forward })
	if forward < 0 {
		forward = len(g.Nodes)
	}
	return Model{Path: path, Fingerprint: fingerprint, Kind: kind, Nodes: len(g.Nodes), Forward: forward, Recorded: recorded(g), Holds: holdsOf(g)}
}

func recorded(g *graph.Graph) map[string]string {
	all := map[string]string{}
	for _, r := range g.Recorded {
		all[r.Name] = r.Value
	}
	return all
}

func holdsOf(g *graph.Graph) (all []Hold) {
	for _, h := range g.Holds {
		maker := ""
		if h.Value.Def != nil {
			maker = h.Value.Def.Name
		}
		all = append(all, Hold{h.Value.Name, maker, h.Until.Name})
	}
	return all
}

// fieldsOf are the plan's fields in its file, once there is a table.
func fieldsOf(p *planner.Plan) Fields {
	var cost, plain float64
	if p.Request.Prices() != nil {
		cost, plain = p.Cost()
	}
	f := Fields{
		Baseline: Baseline{p.Baseline.Peak, p.Baseline.PeakFormula, p.Baseline.PeakNode, p.Baseline.Arena, p.Baseline.Stashed, p.Baseline.Flops, int64(plain)},
		Result: Result{p.Result.Peak, p.Result.PeakFormula, p.Result.PeakNode, p.Arena, p.PackBound, p.Result.Stashed,
			p.Result.ExtraFlops, p.Result.Overhead, p.Result.Again, int64(cost)},
		Floor:    p.Floor,
		Bound:    p.Bound,
		Memory:   p.Memory,
		Tiles:    p.Tiles(),
		Moved:    p.Moved,
		Streamed: p.Streamed(),
		Clusters: append([]planner.Cluster{}, p.Clusters...), // a file may be changed
		Layers:   []Boundary{},
		Selected: p.Selection,
		Saved:    p.Saved(),
		Dominant: p.Dominant,
	}
	f.Formulas, _ = p.Formulas() // there are none where one is too large
	if plain := p.Request.Plain; plain != nil && plain != p.Graph {
		f.Form = &Form{p.Whole.Peak, p.Whole.Arena, p.Whole.Stashed, p.FormOverhead()}
	}
	for i, node := range p.Boundaries {
		f.Layers = append(f.Layers, Boundary{node, p.Kept[i]})
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
			names = append(names, graph.ParseLine(f.Program[s.Node]).Name)
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

// Unit is what extra costs of the plan in the file are.
func (f *File) Unit() string { return planner.Unit(f.Request.Measured || f.Request.Profile != nil) }

// Bind makes a Plan of a file and the graph it is for, and checks it. A plan for another graph is refused with the
// first difference.
func (f *File) Bind(g *graph.Graph) (*planner.Plan, error) { return f.BindAs(g, planner.Request{}) }

// BindAs is Bind with what no file holds of a request: the outline of a graph whose program a file spells otherwise,
// what could be kept in less, the plain step, and measured costs.
func (f *File) BindAs(g *graph.Graph, r planner.Request) (*planner.Plan, error) {
	if err := f.sameProgram(g); err != nil {
		return nil, err
	}
	requests, err := cluster.ParseText(f.Request.Config)
	if err != nil {
		return nil, err
	}
	q := f.Request
	r.Dims, r.Level, r.Budget, r.ActivationBudget = f.Dims, q.Level, planner.Size{Bytes: q.Budget}, planner.Size{Bytes: q.ActivationBudget}
	r.MaxOverhead, r.Clusters, r.Boundary, r.Compat, r.Lowered = q.MaxOverhead, requests, q.Boundary, q.Compat, q.Lowered
	r.Profile, r.Elsewhere, r.States, r.StatesStay = q.Profile, q.Elsewhere, q.States, q.StatesStay
	if r.Profile != nil {
		if err := r.Profile.Check(); err != nil {
			return nil, fmt.Errorf("the plan's profile: %w", err)
		}
	}
	d := planner.Decisions{Strategy: f.Strategy, Steps: f.Steps, Offsets: f.Offsets, Arena: f.Result.Arena, PackBound: f.Result.PackBound,
		Moves: f.Moves, Bound: f.Bound, Alone: -1}
	if f.Moved != nil {
		d.Alone = f.Moved.Alone
	}
	p, err := planner.Restore(g, r, d)
	if err != nil {
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
	if holds := holdsOf(g); !same && !slices.Equal(f.Model.Holds, holds) {
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
	if !slices.EqualFunc(f.Program, lines, func(a, b string) bool { return a == b || graph.ParseLine(a).Name == graph.ParseLine(b).Name }) {
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
func otherHold(plan, model []Hold) string {
	i := 0
	for i < min(len(plan), len(model)) && plan[i] == model[i] {
		i++
	}
	said := func(of []Hold) string {
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

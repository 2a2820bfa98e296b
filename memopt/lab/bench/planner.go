package bench

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/joint"
	"memopt/internal/whole"
	"memopt/kernels"
	"memopt/memopt/lab/corpus"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/report"
	"memopt/planner"
	"memopt/planner/pack"
)

// PlannerDoc describes the planner's bench.
const PlannerDoc = "the planner against plans made without one, and its time on long programs; groups files, models, scale, plan, questions, corpus, elsewhere, packing"

// PlannerOptions select what to plan.
type PlannerOptions struct {
	Only     []string // groups; none: all
	Without  []string // passes to leave out, or "each": measures their contribution on the corpus instead of groups; Only then selects steps
	Quick    bool     // one round each, without the longest programs
	Binary   string   // memopt's executable, for the group plan
	Files    []string // joint graphs and MiniMalloc CSVs
	Progress func(what string)
}

// PlannerReport is the figures of one run, in groups: models is five training steps under each
// method of saving memory; scale is long programs at half their arena; plan is the whole command;
// questions need many plans; corpus is recorded steps at six budgets; elsewhere is these with a host that
// values may be moved to, for which it has to be asked; packing is published
// problems; files are given by path.
type PlannerReport struct {
	Models    []PlannerRow   `json:"models"`
	Scale     []PlannerRow   `json:"scale"`
	Whole     []WholeRow     `json:"plan"`
	Questions []AnswerRow    `json:"questions"`
	Corpus    []CorpusRow    `json:"corpus"`
	Elsewhere []ElsewhereRow `json:"elsewhere,omitempty"`
	Earned    []EarnedRow    `json:"earned"`
	Packing   []PackRow      `json:"packing"`
	Together  Clock          `json:"packing_together"`
	Joint     []PlannerRow   `json:"joint"`
	Pack      []PackRow      `json:"pack"`
}

// PlannerRow is one plan. Note says if there is no bound, or no plan.
type PlannerRow struct {
	Model    string  `json:"model"`
	Way      string  `json:"way"`
	Nodes    int     `json:"nodes"`
	Peak     int64   `json:"peak"`
	Arena    int64   `json:"arena"`
	Share    float64 `json:"share"` // share of the peak with everything kept
	Overhead float64 `json:"overhead"`
	Gap      float64 `json:"gap"` // above the proven bound; −1: unknown
	Note     string  `json:"note"`
	Clock
}

// PackRow is one packing problem.
type PackRow struct {
	Problem  string `json:"problem"`
	Buffers  int    `json:"buffers"`
	Capacity int64  `json:"capacity"` // 0: find the lowest arena
	Height   int64  `json:"height"`
	Bound    int64  `json:"bound"`
	By       string `json:"by"` // the pass that placed the highest part
	Clock
}

// plannerModels are the five models.
var plannerModels = []struct {
	name string
	spec zoo.Spec
	dims map[string]int64
}{
	{"GPT, 12 layers", zoo.Spec{Family: "gpt", Layers: 12}, map[string]int64{"batch": 8, "seq": 256}},
	{"Llama, 8 layers", zoo.Spec{Family: "llama", Layers: 8}, map[string]int64{"batch": 8, "seq": 256}},
	{"BERT, 12 layers", zoo.Spec{Family: "bert", Layers: 12}, map[string]int64{"batch": 8, "seq": 256}},
	{"ResNet, 8 blocks", zoo.Spec{Family: "resnet", Layers: 2}, map[string]int64{"batch": 64}},
	{"MLP, 16 layers", zoo.Spec{Family: "mlp", Layers: 16}, map[string]int64{"batch": 4096}},
}

// plannerScale lists long programs: the approximate number of nodes, and the milliseconds that a
// plan may take.
var plannerScale = []struct {
	name  string
	spec  zoo.Spec
	nodes int
	bar   float64
}{
	{"gpt", zoo.Spec{Family: "gpt", Width: 64, Heads: 2, Vocab: 256}, 1_000, 50},
	{"llama", zoo.Spec{Family: "llama", Width: 64, Heads: 2, Vocab: 256}, 1_000, 50},
	{"gpt", zoo.Spec{Family: "gpt", Width: 64, Heads: 2, Vocab: 256}, 10_000, 200},
	{"llama", zoo.Spec{Family: "llama", Width: 64, Heads: 2, Vocab: 256}, 10_000, 200},
	{"gpt", zoo.Spec{Family: "gpt", Width: 64, Heads: 2, Vocab: 256}, 100_000, 300},
	{"llama", zoo.Spec{Family: "llama", Width: 64, Heads: 2, Vocab: 256}, 100_000, 300},
}

// Shares of the arena to plan for, in percent.
var (
	modelBudgets = []float64{75, 50, 35}
	jointBudgets = []float64{90, 80, 70, 60, 50, 40, 30}
)

// Planner runs the bench.
func Planner(o PlannerOptions) (*PlannerReport, error) {
	b := &plannerBench{o: o, rounds: 3, report: &PlannerReport{Models: []PlannerRow{}, Scale: []PlannerRow{}, Whole: []WholeRow{},
		Questions: []AnswerRow{}, Corpus: []CorpusRow{}, Earned: []EarnedRow{}, Packing: []PackRow{}, Joint: []PlannerRow{}, Pack: []PackRow{}}}
	if o.Quick {
		b.rounds = 1
	}
	if len(o.Without) > 0 {
		return b.report, b.earned()
	}
	type group struct {
		name string
		run  func() error
	}
	// Files first, so that errors in them appear before anything is measured.
	groups := []group{{"files", b.files}, {"models", b.models}, {"scale", b.scale}, {"plan", b.whole}, {"questions", b.questions}, {"corpus", b.corpus}, {"elsewhere", b.elsewhere}, {"packing", b.packing}}
	var all []string
	for _, g := range groups {
		all = append(all, g.name)
	}
	if err := noGroup("planner", all, o.Only); err != nil {
		return nil, err
	}
	for _, g := range groups {
		if len(o.Only) > 0 && !slices.Contains(o.Only, g.name) || len(o.Only) == 0 && g.name == "elsewhere" { // it takes minutes
			continue
		}
		if err := g.run(); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

type plannerBench struct {
	o      PlannerOptions
	rounds int
	report *PlannerReport
}

func (b *plannerBench) says(format string, args ...any) {
	if b.o.Progress != nil {
		b.o.Progress(fmt.Sprintf(format, args...))
	}
}

// trainingStep is a zoo model's whole step.
func trainingStep(s zoo.Spec) (*graph.Graph, error) {
	return zoo.Step(s, kernels.Library, autograd.Options{Optimizer: "adamw"})
}

// upstream is a request for ONNX Runtime 1.19's level, including its layers.
func upstream(level int) planner.Request {
	return planner.Request{Level: level, Boundary: true, Compat: "1.19"}
}

func (b *plannerBench) models() error {
	for _, m := range plannerModels {
		g, err := trainingStep(m.spec)
		if err != nil {
			return err
		}
		type way struct {
			name string
			r    planner.Request
		}
		ways := []way{{"everything kept", planner.Request{Strategy: "keep-all"}}, {"ONNX Runtime level 1", upstream(1)}, {"ONNX Runtime level 2", upstream(2)}}
		b.says("%s: checkpoints", m.name)
		sets, err := planner.Checkpoints(g, planner.Request{Dims: m.dims})
		if err != nil {
			return err
		}
		for _, s := range sets {
			ways = append(ways, way{s.Name, planner.Request{Strategy: "keep-all", Again: s.Again}})
		}
		for _, percent := range modelBudgets {
			ways = append(ways, way{fmt.Sprintf("memopt, %g %%", percent), planner.Request{ActivationBudget: planner.Size{Percent: percent}}})
		}
		for _, w := range ways {
			b.says("%s: %s", m.name, w.name)
			w.r.Dims = m.dims
			row, err := b.plan(m.name, w.name, g, w.r, 0)
			if err != nil {
				return err
			}
			if w.r.ActivationBudget == (planner.Size{}) {
				row.Gap = -1 // no limit, so no bound
			}
			b.report.Models = append(b.report.Models, row)
		}
	}
	return nil
}

// plan measures planning in a few rounds; bar is the milliseconds allowed, 0: any.
func (b *plannerBench) plan(model, way string, g *graph.Graph, r planner.Request, bar float64) (row PlannerRow, err error) {
	row = PlannerRow{Model: model, Way: way, Nodes: len(g.Nodes)}
	row.Clock, err = b.clock(bar, func() error {
		p, err := planner.Make(g, r)
		var budget *planner.BudgetError
		if errors.As(err, &budget) {
			row.Gap, row.Note = -1, fmt.Sprintf("none: the floor is %s, at %s", report.Bytes(budget.Floor.Peak), budget.Floor.Node)
			return nil
		}
		if err != nil {
			return err
		}
		row.Peak, row.Arena, row.Overhead, row.Gap = p.Result.Peak, p.Arena, p.Result.Overhead, p.Bound.Gap
		row.Share = float64(p.Result.Peak) / float64(max(p.Baseline.Peak, 1))
		return nil
	})
	return row, err
}

func (b *plannerBench) scale() error {
	for _, s := range plannerScale {
		if b.o.Quick && s.nodes >= 100_000 {
			continue
		}
		b.says("%s of %d nodes", s.name, s.nodes)
		g, err := ofNodes(s.spec, s.nodes)
		if err != nil {
			return err
		}
		r := planner.Request{Dims: map[string]int64{"batch": 4, "seq": 64}, ActivationBudget: planner.Size{Percent: 50}}
		row, err := b.plan(s.name, "memopt, 50 %", g, r, s.bar)
		if err != nil {
			return err
		}
		b.report.Scale = append(b.report.Scale, row)
	}
	return nil
}

// ofNodes is a model with the number of layers that gives about that many nodes.
func ofNodes(s zoo.Spec, nodes int) (*graph.Graph, error) {
	sizes := [2]int{}
	for i := range sizes {
		s.Layers = i + 1
		g, err := trainingStep(s)
		if err != nil {
			return nil, err
		}
		sizes[i] = len(g.Nodes)
	}
	s.Layers = max(1, (nodes-sizes[0])/(sizes[1]-sizes[0])+1)
	return trainingStep(s)
}

func (b *plannerBench) files() error {
	for _, path := range b.o.Files {
		b.says("%s", filepath.Base(path))
		run := b.packed
		if joint.Is(path) {
			run = b.joint
		}
		if err := run(path); err != nil {
			return err
		}
	}
	return nil
}

func (b *plannerBench) joint(path string) error {
	g, err := joint.Read(path)
	if err != nil {
		return err
	}
	for _, percent := range jointBudgets {
		row, err := b.plan(filepath.Base(path), fmt.Sprintf("memopt, %g %%", percent), g, planner.Request{ActivationBudget: planner.Size{Percent: percent}}, 0)
		if err != nil {
			return err
		}
		b.report.Joint = append(b.report.Joint, row)
	}
	return nil
}

func (b *plannerBench) packed(path string) error {
	data, err := whole.Read(path, "a problem", pack.MostCSV)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	problem, err := pack.ReadCSV(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	row, err := b.pack(pack.Instance{Name: filepath.Base(path), Problem: problem})
	b.report.Pack = append(b.report.Pack, row)
	return err
}

// packingBar is the milliseconds allowed for all problems of a capacity together.
const packingBar = 2000

func (b *plannerBench) packing() error {
	all, err := corpus.Placings()
	if err != nil {
		return err
	}
	sum := &b.report.Together
	for _, p := range all {
		b.says("packing %s", p.Name)
		row, err := b.pack(p)
		if err != nil {
			return err
		}
		b.report.Packing = append(b.report.Packing, row)
		if p.Capacity > 0 {
			sum.MS, sum.CPUMS, sum.Heap = sum.MS+row.MS, sum.CPUMS+row.CPUMS, max(sum.Heap, row.Heap)
		}
	}
	sum.judge(packingBar)
	return nil
}

// pack measures placing in a few rounds.
func (b *plannerBench) pack(p pack.Instance) (row PackRow, err error) {
	row = PackRow{Problem: p.Name, Buffers: len(p.Buffers), Capacity: p.Capacity}
	row.Clock, err = b.clock(0, func() error {
		s, err := pack.Solve(p.Problem, pack.Effort{})
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		row.Height, row.Bound, row.By = s.Height, s.Bound, packing+s.By
		return nil
	})
	return row, err
}

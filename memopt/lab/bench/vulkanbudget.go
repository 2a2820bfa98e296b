package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/report"
	"memopt/planner"
)

// BudgetRow is a plan at a share of the arena with everything kept. Predicted and measured are step
// times relative to the step with everything kept, in the same run; the prediction uses times of
// nodes measured on this device.
type BudgetRow struct {
	Model     string  `json:"model"`
	Percent   float64 `json:"percent"` // 100 keeps everything
	Arena     int64   `json:"arena"`
	Again     int     `json:"again"`
	Fits      bool    `json:"fits"`      // the device's bytes equal the plan's and are within the budget
	SameBits  bool    `json:"same_bits"` // of the losses of lossSteps steps
	Predicted float64 `json:"predicted"` // 1 + extra time
	Measured  float64 `json:"measured"`
	StepMS    float64 `json:"step_ms"`
	Note      string  `json:"note,omitempty"`
}

// vulkanBudgets are the shares, in percent.
var vulkanBudgets = []float64{80, 60, 40}

// lossSteps is the number of steps whose losses are compared.
const lossSteps = 5

var budgetModels = []struct {
	name string
	job  func() (job, error)
}{
	{"GPT, 2 layers of 128, 4 × 64 tokens, AdamW", func() (job, error) {
		return zooStep(zoo.Spec{Family: "gpt", Layers: 2, Width: 128, Heads: 2, Hidden: 512, Vocab: 256, Positions: 64}, "adamw", map[string]int64{"batch": 4, "seq": 64})
	}},
	{"MLP, 8 layers of 256, batch 512, SGD", func() (job, error) {
		return zooStep(zoo.Spec{Family: "mlp", Layers: 8, Width: 256, Inputs: 256}, "sgd", map[string]int64{"batch": 512})
	}},
}

func (b *vulkanBench) budgets() error {
	for _, m := range budgetModels {
		if err := b.budgetsOf(m.name, m.job); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

func (b *vulkanBench) budgetsOf(model string, source func() (job, error)) error {
	b.says("budgets: %s, what nodes take", model)
	j, err := source()
	if err != nil {
		return err
	}
	kept, s, d, err := b.open(j, planner.Request{Strategy: "keep-all"})
	if err != nil {
		return err
	}
	defer d.Close()
	want, err := losses(d, j)
	if err != nil {
		return err
	}
	costs, err := b.profile(kept, s, d, j)
	if err != nil {
		return err
	}
	rows := []BudgetRow{{Model: model, Percent: 100, Arena: kept.Arena, SameBits: true, Predicted: 1}}
	if rows[0].Fits, err = fits(kept, s, d, j, kept.Arena); err != nil {
		return err
	}
	sides := []Side{local{step: func() error { return run(d, j) }}}
	timed := []int{0} // the rows of the sides
	for _, percent := range vulkanBudgets {
		b.says("budgets: %s, %g %%", model, percent)
		row := BudgetRow{Model: model, Percent: percent}
		p, s, d, err := b.open(j, planner.Request{Costs: costs, ActivationBudget: planner.Size{Percent: percent}})
		var short *planner.BudgetError
		if errors.As(err, &short) {
			row.Note = fmt.Sprintf("none: the floor is %s, at %s", report.Bytes(short.Floor.Peak), short.Floor.Node)
			rows = append(rows, row)
			continue
		}
		if err != nil {
			return err
		}
		defer d.Close()
		got, err := losses(d, j)
		if err != nil {
			return err
		}
		row.SameBits = slices.Equal(got, want)
		if row.Fits, err = fits(p, s, d, j, int64(float64(kept.Arena)*percent/100)); err != nil {
			return err
		}
		row.Arena, row.Again, row.Predicted = p.Arena, p.Result.Again, 1+p.Result.Overhead
		rows, sides, timed = append(rows, row), append(sides, local{step: func() error { return run(d, j) }}), append(timed, len(rows))
	}
	figures, err := b.length.measure(sides...)
	if err != nil {
		return err
	}
	for i, row := range timed {
		rows[row].StepMS, rows[row].Measured = figures[i].Wall*1e3, b.of(figures[i])/b.of(figures[0])
	}
	b.report.Budgets = append(b.report.Budgets, rows...)
	return nil
}

// of is the more meaningful time of a figure: on software drivers CPU time, which other processes
// do not affect.
func (b *vulkanBench) of(f Figure) float64 {
	if b.software() && f.CPU > 0 {
		return f.CPU
	}
	return f.Wall
}

// losses is the bits of the loss over some steps.
func losses(d *vulkan.Device, j job) (bits []uint32, err error) {
	for step := range lossSteps {
		if _, err := d.Run(schedule.Run{Inputs: j.inputs, Step: uint64(step)}); err != nil {
			return nil, err
		}
		x, err := d.Output(j.graph.Loss.Name)
		if err != nil {
			return nil, err
		}
		bits = append(bits, math.Float32bits(float32(x.Float(0))))
	}
	return bits, nil
}

// fits runs a step and compares its bytes with the plan.
func fits(p *planner.Plan, s *schedule.Schedule, d *vulkan.Device, j job, budget int64) (bool, error) {
	t, err := d.Run(schedule.Run{Inputs: j.inputs})
	if err != nil {
		return false, err
	}
	planned := t.Arena == p.Arena && p.Arena <= budget && t.State == s.State && t.Staging == s.Staging
	return planned && d.Memory().Requested == s.Arena+s.State+s.Staging, nil
}

// profile is the time per unit of each node's work on the device, from the fastest of some steps.
func (b *vulkanBench) profile(p *planner.Plan, s *schedule.Schedule, d *vulkan.Device, j job) (map[string]float64, error) {
	least := make([]time.Duration, len(s.Launches))
	for i := range 2 * b.length.count {
		t, err := d.Run(schedule.Run{Inputs: j.inputs, Times: true})
		if err != nil {
			return nil, err
		}
		for k, took := range t.Launches {
			if i == 0 || took < least[k] {
				least[k] = took
			}
		}
	}
	units, costs := p.PlainCosts(), map[string]float64{}
	for i, l := range s.Launches {
		if l.Node == nil {
			continue
		}
		if u := units[l.Node.Name]; u > 0 {
			costs[l.Node.Name] = least[i].Seconds() / u
		}
	}
	return costs, nil
}

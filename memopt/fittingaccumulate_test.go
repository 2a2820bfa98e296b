package memopt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/kernels"
	"memopt/memopt/fit"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
)

// TestAccumulateFits: where a budget cannot be met and rows can be shared out among several runs, the error names the fewest of
// them that fit, and that plan holds the budget and trains as all rows at once do; where it names none, none fits.
func TestAccumulateFits(t *testing.T) {
	gpt, data := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 32, Heads: 4, Vocab: 64, Positions: 64})
	mlp, rows := madeGPT(t, zoo.Spec{Family: "mlp", Layers: 4, Width: 16, Inputs: 8, Classes: 4})
	resnet := written(t, zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 16, Channels: 3, Classes: 10})
	named, none := 0, 0
	for _, of := range []struct {
		path, data string
		dims       map[string]int64
		fields     map[string]string
		budgets    []string
	}{
		{gpt, data, map[string]int64{"batch": 8, "seq": 32}, nil, []string{"activation_budget 10%"}},
		{mlp, rows, map[string]int64{"batch": 64}, nil, []string{"activation_budget 12%", "activation_budget 1%", "budget 40%", "budget 20KiB"}},
		{mlp, rows, map[string]int64{"batch": 32}, map[string]string{"optimizer": "adamw", "clip_norm": "1", "accumulate": "2"}, []string{"activation_budget 20%"}},
		{mlp, rows, map[string]int64{"batch": 32}, map[string]string{"max_overhead": "2%"}, []string{"activation_budget 60%"}},
		{resnet, "", map[string]int64{"batch": 8}, nil, []string{"activation_budget 20%"}},
	} {
		for _, budget := range of.budgets {
			setting, size, _ := strings.Cut(budget, " ")
			c := configs.Default()
			c.Dims = of.dims
			for name, value := range of.fields {
				if err := c.Set(name, value, configs.Source{}); err != nil {
					t.Fatal(err)
				}
			}
			all := train(t, of.path, of.data, c, 2)
			if err := c.Set(setting, size, configs.Source{}); err != nil {
				t.Fatal(err)
			}
			m, err := Open(of.path, c)
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.Plan()
			var short *planner.BudgetError
			if !errors.As(err, &short) {
				t.Fatalf("%s: %v", budget, err)
			}
			limit := short.Want
			if setting == "budget" {
				limit += short.Fixed
			}
			i := slices.IndexFunc(short.Changes, func(c planner.Change) bool { return c.Set[0].Name == "accumulate" })
			f := m.Fitting(of.dims)
			before := max(c.Accumulate, 1)
			fits := func(k int64) bool {
				f.Left = fit.MostNodes
				rows := of.dims["batch"]
				_, err := f.Plan(planner.Setting{Name: "accumulate", Value: fmt.Sprint(int64(before) * k)}, planner.Setting{Name: "dims", Value: fmt.Sprintf("batch=%d", rows/k)})
				return err == nil
			}
			if i < 0 {
				none++
				for k := int64(2); k <= of.dims["batch"]; k++ {
					if of.dims["batch"]%k == 0 && fits(k) {
						t.Errorf("%s: %d runs fit, and are not named: %v", budget, k, err)
					}
				}
				m.Close()
				continue
			}
			named++
			change := short.Changes[i]
			if !strings.Contains(err.Error(), "--accumulate "+change.Set[0].Value+" --dims batch=") {
				t.Errorf("%s: %v", budget, err)
			}
			with := changed(t, c, change)
			runs, _ := strconv.Atoi(change.Set[0].Value)
			if int64(runs)*with.Dims["batch"] != int64(before)*of.dims["batch"] {
				t.Errorf("%s: %s is another number of rows", budget, change.Text)
			}
			for k := int64(2); k < int64(runs/before); k++ {
				if of.dims["batch"]%k == 0 && fits(k) {
					t.Errorf("%s: %s, and %d runs fit", budget, change.Text, k)
				}
			}
			m.Close()
			r := train(t, of.path, of.data, with, 2)
			held := r.Plan.Memory.Total
			if setting != "budget" {
				held = r.Plan.Arena
			}
			if held > limit || r.Trace.Arena > r.Plan.Arena {
				t.Errorf("%s: %s takes %d of %d, and %d when it runs", budget, change.Text, held, limit, r.Trace.Arena)
			}
			for k, loss := range r.Losses {
				if of.data != "" && math.Abs(loss-all.Losses[k]) > 1e-5*math.Abs(loss) {
					t.Errorf("%s: %s: the loss of step %d is %v, and %v with all rows at once", budget, change.Text, k+1, loss, all.Losses[k])
				}
			}
			if of.data == "" && !strings.Contains(change.Note, "normalizes by its own rows") {
				t.Errorf("%s: %s says nothing of statistics", budget, change.Text)
			}
		}
	}
	if named < 3 || none < 1 {
		t.Errorf("%d refusals name runs, %d do not", named, none)
	}
}

// train is some steps of a model.
func train(t *testing.T, path, data string, c configs.Config, steps int) *training.Result {
	t.Helper()
	c.Device = "cpu"
	m, err := Open(path, c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(m, p, training.Options{Steps: steps, LR: 1e-2, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBatchDim: rows are those of a dim that every input begins with, and has nowhere else.
func TestBatchDim(t *testing.T) {
	for _, family := range []string{"gpt", "bert", "llama", "resnet", "mlp"} {
		g, err := zoo.New(zoo.Spec{Family: family}, kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		m := &step.Model{Graph: g}
		if got := m.BatchDim(); got != "batch" {
			t.Errorf("%s: rows are counted by %q", family, got)
		}
		seq := g.Inputs[0].Shape
		g.Inputs[0].Shape = append(slices.Clone(seq), seq[0])
		if got := m.BatchDim(); got != "" {
			t.Errorf("%s: %q, which an input has twice", family, got)
		}
		g.Inputs[0].Shape = nil
		if got := m.BatchDim(); got != "" {
			t.Errorf("%s: %q, which an input has not", family, got)
		}
	}
}

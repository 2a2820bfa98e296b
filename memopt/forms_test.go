package memopt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/planfile"
)

// pooled is a model whose pool keeps its places instead of its input for a few percent
// of a step, and saves nearly half of its memory by that.
func pooled(t *testing.T) (path string) {
	t.Helper()
	g, err := graph.Parse(kernels.Library, `x f32[batch,4,17,23] = input
w f32[6,2,3,3] = param
v f32[6,3] = param
c = Conv(x, w) group=2 strides=[2,3] pads=[1,0,1,1]
p = MaxPool(c) kernel_shape=[3,2] strides=[2,2]
s = Softplus(p)
m = GlobalAveragePool(s)
f = Flatten(m)
y = MatMul(f, v)
l = ReduceMean(y) keepdims=0
output l
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, floats := range map[string]int{"w": 6 * 2 * 3 * 3, "v": 6 * 3} {
		var bytes []byte
		for i := range floats {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(float32(i+1)/float32(floats)))
		}
		g.ByName(name).Data = graph.Bytes(bytes)
	}
	path = filepath.Join(t.TempDir(), "pooled.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	return path
}

// followOverhead checks that the limit of extra compute which a refusal advises lets the
// model be planned, and half of it does not.
func followOverhead(t *testing.T, err error, plan func(limit float64) error) {
	t.Helper()
	var none *planner.BudgetError
	if !errors.As(err, &none) {
		t.Fatalf("it is answered %v", err)
	}
	var percent float64
	for _, c := range none.Changes {
		if c.Set[0].Name == "max_overhead" {
			_, err = fmt.Sscanf(c.Set[0].Value, "%f%%", &percent)
		}
	}
	if percent == 0 {
		t.Fatalf("no other limit is advised: %v", err)
	}
	for limit, fits := range map[float64]bool{percent / 100: true, percent / 200: false} {
		if err := plan(limit); (err == nil) != fits {
			t.Errorf("%v%% is advised, and of %v it is answered %v", percent, limit, err)
		}
	}
}

// TestOverheadOfAnotherForm: the limit that is advised is beside the model's own step where
// another form was the last that was tried.
func TestOverheadOfAnotherForm(t *testing.T) {
	c := settingsFor(t, map[string]string{"budget": "80%"})
	c.Dims = map[string]int64{"batch": 4, "seq": 64}
	path, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 64})
	var m *step.Model
	plan := func(limit float64) (err error) {
		c.MaxOverhead = limit
		if m, err = Open(path, c); err == nil {
			_, err = m.Plan()
		}
		return err
	}
	err := plan(0.02)
	others, wrong := m.Steps.Others(m.Ask())
	if wrong != nil {
		t.Fatal(wrong)
	}
	if len(slices.Collect(others)) == 0 {
		t.Fatal("its own step is the only one")
	}
	followOverhead(t, err, plan)
}

// TestOverheadAsMeasured: where times of a device count, they do so in the limit that is
// advised.
func TestOverheadAsMeasured(t *testing.T) {
	c := settingsFor(t, map[string]string{"shrink": "off", "max_overhead": "0.001"})
	c.Dims = map[string]int64{"batch": 4, "seq": 32}
	path, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 16, Heads: 4, Vocab: 50})
	open := func(c configs.Config) *step.Model {
		m, err := Open(path, c)
		if err != nil {
			t.Fatal(err)
		}
		m.Profiled, m.Costs = "a device", map[string]float64{}
		for i, n := range m.Graph.Nodes {
			m.Costs[n.Name] = float64(1 + i%5)
		}
		return m
	}
	lowest := c
	lowest.MaxOverhead = 0
	curve, err := open(lowest).Frontier()
	if err != nil {
		t.Fatal(err)
	}
	low, high := curve.Points[0].Total, curve.Points[0].Total
	for _, p := range curve.Points {
		low, high = min(low, p.Total), max(high, p.Total)
	}
	c.Budget.Bytes = (low + high) / 2
	plan := func(limit float64) error {
		c.MaxOverhead = limit
		_, err := open(c).Plan()
		return err
	}
	followOverhead(t, plan(c.MaxOverhead), plan)
}

// TestFormBeside: what it costs to keep a value in less counts as extra compute, beside
// the step with all values whole, wherever a plan, a limit or a curve tells it; and a
// limit of it binds with a budget and without.
func TestFormBeside(t *testing.T) {
	model := pooled(t)
	settings := func(fields map[string]string) configs.Config {
		c := settingsFor(t, fields)
		c.Dims = map[string]int64{"batch": 11}
		return c
	}
	_, whole := planned(t, model, settings(map[string]string{"shrink": "off"}))
	m, err := Open(model, settings(map[string]string{}))
	if err != nil {
		t.Fatal(err)
	}
	curve, err := m.Frontier()
	if err != nil {
		t.Fatal(err)
	}
	low := curve.Points[0]
	for _, p := range curve.Points {
		if p.Arena < low.Arena {
			low = p
		}
	}
	if low.Form != "extracts" || low.Overhead < 0.01 || low.Arena > whole.Arena*3/4 {
		t.Fatalf("the lowest point is %+v, beside an arena of %d", low, whole.Arena)
	}
	budget := fmt.Sprint((whole.Memory.Total + low.Total) / 2)
	above, below := fmt.Sprint(low.Overhead*1.01), fmt.Sprint(low.Overhead*0.99)
	for name, c := range map[string]struct {
		settings map[string]string
		fits     bool
		extracts bool
	}{
		"a budget":                        {map[string]string{"budget": budget}, true, true},
		"a budget and a limit that is so": {map[string]string{"budget": budget, "max_overhead": above}, true, true},
		"a budget and a limit that isn't": {map[string]string{"budget": budget, "max_overhead": below}, false, false},
		"a budget and nothing extra":      {map[string]string{"budget": budget, "max_overhead": "0"}, false, false},
		"a limit":                         {map[string]string{"max_overhead": above}, true, true},
		"a limit that is too low":         {map[string]string{"max_overhead": below}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Open(model, settings(c.settings))
			if err != nil {
				t.Fatal(err)
			}
			p, err := m.Plan()
			if !c.fits {
				followOverhead(t, err, func(limit float64) error {
					m.Config.MaxOverhead = limit
					_, err := m.Plan()
					return err
				})
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Baseline.Peak != whole.Baseline.Peak {
				t.Errorf("the peak with everything kept is %d, not %d", p.Baseline.Peak, whole.Baseline.Peak)
			}
			if extracts := p.Result.Overhead == low.Overhead && p.Arena == low.Arena; extracts != c.extracts {
				t.Errorf("%+v", p.Result)
			}
			if !c.extracts && (p.Result.Overhead != 0 || p.Arena > whole.Arena) {
				t.Errorf("%+v", p.Result)
			}
			path := filepath.Join(t.TempDir(), "plan.json")
			f := planfile.Of(p, m.Path)
			if err := f.Save(path); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadPlan(t.Context(), path, model, settings(map[string]string{})); err != nil {
				t.Error(err)
			}
			f.Baseline.Peak--
			if err := f.Save(path); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadPlan(t.Context(), path, model, settings(map[string]string{})); err == nil || !strings.Contains(err.Error(), "baseline.peak") {
				t.Errorf("a false baseline is answered %v", err)
			}
		})
	}
}

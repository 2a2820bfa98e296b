package memopt

import (
	"slices"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
	"memopt/planner"
)

// TestFrontierForms: the frontier draws from the forms that a budget may take, so
// it lies nowhere above that of values kept whole.
func TestFrontierForms(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 16})
	open := func(fields map[string]string) *step.Model {
		fields["chunk_loss"], fields["cost"] = "off", "flops" // a launch that makes an extract takes longer than one of so small operators
		c := settingsFor(t, fields)
		c.Dims = map[string]int64{"batch": 4}
		m, err := Open(model, c)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	curve := func(fields map[string]string) []planner.Point {
		c, err := open(fields).Frontier()
		if err != nil {
			t.Fatal(err)
		}
		return c.Points
	}
	all, whole := curve(map[string]string{}), curve(map[string]string{"shrink": "off"})
	extracts := 0
	for _, p := range all {
		if p.Form == "extracts" {
			extracts++
		}
	}
	if extracts == 0 {
		t.Error("no point keeps extracts")
	}
	for _, w := range whole {
		if w.Form != "" {
			t.Errorf("%+v keeps values whole", w)
		}
		if !slices.ContainsFunc(all, func(p planner.Point) bool { return p.Arena <= w.Arena && p.Overhead <= w.Overhead }) {
			t.Errorf("%+v is below the curve", w)
		}
	}
}

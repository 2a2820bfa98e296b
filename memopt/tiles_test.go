package memopt

import (
	"errors"
	"math"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestTilesByTheBudget: no form that settings can ask for has a cheaper plan within a budget than the one that the planner chooses, which
// says which layers it has in how many tiles, and takes them where nothing else fits.
func TestTilesByTheBudget(t *testing.T) {
	path, _ := madeGPT(t, zoo.Spec{Family: "llama", Layers: 2, Width: 128, Heads: 1, Vocab: 20})
	planned := func(tiles string, budget int64) (p *planner.Plan, err error) {
		c := settingsFor(t, map[string]string{"sequence_tiles": tiles, "flash_attention": "on", "optimizer": "sgd"})
		c.Dims, c.ActivationBudget.Bytes = map[string]int64{"batch": 1, "seq": 600}, budget
		m, err := Open(path, c)
		if err != nil {
			t.Fatal(err)
		}
		return m.Plan()
	}
	cost := func(tiles string, budget int64) float64 {
		p, err := planned(tiles, budget)
		if err != nil {
			return math.Inf(1)
		}
		cost, _ := p.Cost()
		return cost
	}
	if p, err := planned("off,2", 1<<30); err != nil || len(p.Tiles()) != 1 || p.Tiles()[0].Tiles != 2 {
		t.Errorf("off,2 is not one layer in two tiles: %v", err)
	}
	lowest := func(tiles string) int64 {
		var none *planner.BudgetError
		if _, err := planned(tiles, 1); !errors.As(err, &none) {
			t.Fatal(err)
		}
		return none.Best
	}
	whole, tiled := lowest("off"), lowest("on")
	if tiled >= whole {
		t.Fatalf("the lowest plan has %d bytes with tiles, and %d without", tiled, whole)
	}
	if p, err := planned("auto", (whole+tiled)/2); err != nil || len(p.Tiles()) == 0 {
		t.Errorf("no layer is in tiles where nothing else fits: %v", err)
	}
	for _, budget := range []int64{whole * 9 / 8, whole * 3 / 2} {
		auto := cost("auto", budget)
		for _, tiles := range []string{"off", "on", "off,on"} {
			if other := cost(tiles, budget); other < auto*(1-1e-9) {
				t.Errorf("within %d bytes a plan costs %g with %s, and %g with auto", budget, other, tiles, auto)
			}
		}
	}
}

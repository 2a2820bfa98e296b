package memopt

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"memopt/internal/tensorfile"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/training"
	"memopt/planner"
)

// TestTilesKeepBits: a step whose feed-forward layers are computed in tiles, of whatever number, gives the losses and the weights of
// the step that has them whole, bit for bit, in the bytes that its plan promises, which are fewer.
func TestTilesKeepBits(t *testing.T) { tilesKeepBits(t, "cpu") }

func TestVulkanTilesKeepBits(t *testing.T) { tilesKeepBits(t, vulkanDevice(t)) }

func tilesKeepBits(t *testing.T, device string) {
	for _, family := range []string{"gpt", "llama"} {
		t.Run(family, func(t *testing.T) {
			path, data := madeGPT(t, zoo.Spec{Family: family, Layers: 2, Width: 32, Heads: 2, Vocab: 20})
			train := func(tiles, saved string) (*training.Result, *tensorfile.Set) {
				c := settingsFor(t, map[string]string{"device": device, "sequence_tiles": tiles, "optimizer": "adamw", "clip_norm": "1"})
				c.Dims = map[string]int64{"batch": 20, "seq": 32} // 640 rows: 3 tiles at most, the last one shorter
				r := trainAs(t, path, c, training.Options{Steps: 2, LR: 1e-2, Seed: 3, Data: data, Save: saved})
				return r, checkpoint(t, saved)
			}
			folder := t.TempDir()
			whole, want := train("off", filepath.Join(folder, "whole.st"))
			if len(whole.Plan.Tiles()) > 0 {
				t.Errorf("off: %v", whole.Plan.Tiles())
			}
			for _, c := range []struct {
				tiles string
				has   []int64
			}{{"on", []int64{3, 3}}, {"off,2", []int64{2}}} {
				tiled, got := train(c.tiles, filepath.Join(folder, "tiled.st"))
				var has []int64
				for _, l := range tiled.Plan.Tiles() {
					has = append(has, l.Tiles)
				}
				if !slices.Equal(has, c.has) {
					t.Errorf("%s: layers are in %v tiles, not %v", c.tiles, has, c.has)
				}
				if !sameBits(tiled.Losses, whole.Losses) {
					t.Errorf("%s: losses %v, %v with whole layers", c.tiles, tiled.Losses, whole.Losses)
				}
				if len(got.Tensors) != len(want.Tensors) {
					t.Errorf("%s: %d tensors are saved, %d with whole layers", c.tiles, len(got.Tensors), len(want.Tensors))
				}
				for name, x := range want.Tensors {
					if y := got.Tensors[name]; y == nil || !bytes.Equal(x.Bytes, y.Bytes) {
						t.Errorf("%s: %q is saved with other bits", c.tiles, name)
					}
				}
				if c.tiles == "on" && tiled.Plan.Arena >= whole.Plan.Arena {
					t.Errorf("%s: an arena of %d, %d with whole layers", c.tiles, tiled.Plan.Arena, whole.Plan.Arena)
				}
			}
		})
	}
}

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

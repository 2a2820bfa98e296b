package memopt

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner/planfile"
)

// TestPlanFileAgain: all that a plan file tells is known again on loading,
// whatever form of the step the plan is of, and a false word in it is found.
func TestPlanFileAgain(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 4000})
	for name, settings := range map[string]map[string]string{
		"everything kept":      {},
		"a level":              {"level": "2"},
		"ONNX Runtime's level": {"level": "1", "compat": "1.19"},
		"a budget":             {"activation_budget": "60%"},
		"a tight budget":       {"activation_budget": "50%"},
		"chunks asked for":     {"activation_budget": "80%", "chunk_loss": "on"},
		"a limit of cost":      {"max_overhead": "0.05"},
		"rounded":              {"lossy": "bf16"},
		"nothing is rounded":   {"lossy": "fp16", "activation_budget": "50%"},
		"rounded as needed":    {"lossy": "fp16", "activation_budget": "80%", "chunk_loss": "off", "flash_attention": "off"},
		"clusters":             {"config": "Gelu+:1:{1},Gemm+:1:1"},
		"on kernels":           {"device": "vulkan", "activation_budget": "70%"},
	} {
		t.Run(name, func(t *testing.T) {
			c := settingsFor(t, settings)
			c.Dims = map[string]int64{"batch": 8, "seq": 64}
			m, p := planned(t, model, c)
			given := map[string]string{}
			load := func(spoil func(f *planfile.File)) error {
				f := planfile.Of(p, m.Path)
				spoil(f)
				path := filepath.Join(t.TempDir(), "plan.json")
				if err := f.Save(path); err != nil {
					t.Fatal(err)
				}
				again := settingsFor(t, given)
				again.Dims = c.Dims
				_, err := LoadPlan(t.Context(), path, model, again)
				return err
			}
			if err := load(func(*planfile.File) {}); err != nil {
				t.Error(err)
			}
			maps.Copy(given, map[string]string{"shrink": "auto", "chunk_loss": "auto", "flash_attention": "auto"})
			if err := load(func(*planfile.File) {}); err != nil {
				t.Errorf("where forms are left to the planner: %v", err)
			}
			for where, spoil := range map[string]func(f *planfile.File){
				"baseline.arena":     func(f *planfile.File) { f.Baseline.Arena++ },
				"result.extra_flops": func(f *planfile.File) { f.Result.ExtraFlops++ },
				"result.overhead":    func(f *planfile.File) { f.Result.Overhead += 0.001; f.Bound.Gap += 0.001; f.Request.MaxOverhead = 0 },
				"formulas.":          func(f *planfile.File) { f.Formulas.Flops += " + 1" },
				"clusters[":          func(f *planfile.File) { f.Clusters[len(f.Clusters)-1].Saving += " + 1" },
			} {
				if err := load(spoil); err == nil || !strings.Contains(err.Error(), "says that "+where) {
					t.Errorf("%s is false, and is answered %v", where, err)
				}
			}
		})
	}
}

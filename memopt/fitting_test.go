package memopt

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/loader"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/exit"
	"memopt/memopt/forward"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/load"
	"memopt/memopt/machine"
	"memopt/memopt/session"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
)

func written(t *testing.T, spec zoo.Spec) string {
	t.Helper()
	g, err := zoo.New(spec, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), spec.Family+".onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	return path
}

// changed is settings under a change that an error names.
func changed(t *testing.T, c configs.Config, change planner.Change) configs.Config {
	t.Helper()
	c, ok := (&step.Fitting{Config: c}).With(change.Set)
	if !ok {
		t.Fatalf("%s is no setting", change.Text)
	}
	return c
}

// TestForwardFits: whatever limit refuses a run or a session, what the error names fits, and a limit is named that the
// program needs.
func TestForwardFits(t *testing.T) {
	kinds := map[string]bool{}
	for spec, dims := range map[zoo.Spec]map[string]int64{
		{Family: "gpt", Layers: 1, Width: 64, Vocab: 600, Positions: 32}: {"batch": 16, "seq": 32},
		{Family: "mlp", Layers: 2, Width: 256, Inputs: 64, Classes: 10}:  {"batch": 4},
	} {
		c := configs.Default()
		c.Dims, c.Device = dims, "cpu"
		forwardFits(t, written(t, spec), c, kinds)
	}
	for _, kind := range []string{"mem_limit", "dims", "enable_mem_pattern", "quantize"} {
		if !kinds[kind] {
			t.Errorf("%s is never named, only %v", kind, kinds)
		}
	}
}

func forwardFits(t *testing.T, path string, c configs.Config, kinds map[string]bool) {
	need := int64(0)
	run := func(path string, c configs.Config) error {
		s, err := forward.Open(context.Background(), session.Model{Path: path}, c, "")
		if err != nil {
			return err
		}
		defer s.Close()
		r, err := forward.Run(context.Background(), s, c, forward.Running{})
		if err == nil && c.MemoryLimit == 0 {
			need = r.Promised.Total
		}
		return err
	}
	if err := run(path, c); err != nil {
		t.Fatal(err)
	}
	for _, strategy := range []string{"planned", "kNextPowerOfTwo"} {
		for _, pattern := range []bool{true, false} {
			for _, limit := range []int64{1, need / 6, need / 2, need - 1, need} {
				c := c
				c.ArenaStrategy, c.MemoryPattern, c.MemoryLimit = strategy, pattern, limit
				err := run(path, c)
				if err == nil {
					continue
				}
				var short *machine.MemoryError
				if !errors.As(err, &short) || exit.Code(err) != exit.CodeCannot {
					t.Fatalf("limit %d: %v", limit, err)
				}
				if short.Short.Limit != limit || short.Short.Requested == 0 || short.Note != "" {
					t.Errorf("limit %d: %+v", limit, short)
				}
				raised := false
				for _, change := range short.Changes {
					if !strings.Contains(err.Error(), change.Text) {
						t.Errorf("%q is not in %v", change.Text, err)
					}
					if change.Set == nil {
						kinds["quantize"] = true
						to := filepath.Join(t.TempDir(), "q.onnx")
						if _, err := forward.Quantize(context.Background(), path, to, configs.Default()); err != nil {
							t.Fatal(err)
						}
						if err := run(to, c); err != nil {
							t.Errorf("limit %d: %s: %v", limit, change.Text, err)
						}
						continue
					}
					kinds[change.Set[0].Name] = true
					raised = raised || change.Set[0].Name == "mem_limit"
					if err := run(path, changed(t, c, change)); err != nil {
						t.Errorf("limit %d, %s, pattern %v: %s: %v", limit, strategy, pattern, change.Text, err)
					}
				}
				if !raised {
					t.Errorf("limit %d: no limit that would do: %v", limit, err)
				}
			}
		}
	}
}

// TestStepFits: where the process may not have what a step takes, what the error names can be had.
func TestStepFits(t *testing.T) {
	if machine.AnonymousMemory() == 0 {
		t.Skip("the system does not tell what the process has")
	}
	path := written(t, zoo.Spec{Family: "gpt", Layers: 3, Width: 64, Vocab: 512, Positions: 64})
	c := configs.Default()
	c.Dims, c.Device = map[string]int64{"batch": 32, "seq": 64}, "cpu"
	train := func(c configs.Config, room int64) (*planner.Plan, error) {
		m, err := Open(path, c)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		p, err := m.Plan()
		if err != nil {
			return nil, err
		}
		if room > 0 {
			defer machine.Limit(configs.Budget{Bytes: machine.AnonymousMemory() + room})()
		}
		_, err = Run(m, p, training.Options{Steps: 1, LR: 1e-3})
		return p, err
	}
	p, err := train(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	const slack = 4 << 20 // the process's memory does not hold still
	all := map[string]bool{}
	for _, share := range []int64{30, 60, 90} {
		room := p.Memory.Total * share / 100
		_, err := train(c, room)
		var short *machine.MemoryError
		if !errors.As(err, &short) || exit.Code(err) != exit.CodeCannot {
			t.Fatalf("room %d: %v", room, err)
		}
		for _, want := range []string{"arena", "inputs", "parameters and states"} {
			if !slices.ContainsFunc(short.Short.Largest, func(o arena.Owned) bool { return o.Owner == want }) {
				t.Errorf("owners are %v", short.Short.Largest)
			}
		}
		if len(short.Changes) == 0 {
			t.Errorf("room %d: nothing would fit: %v", room, err)
		}
		for _, change := range short.Changes {
			for _, s := range change.Set {
				all[s.Name] = true
			}
			if _, err := train(changed(t, c, change), room+slack); err != nil {
				t.Errorf("room %d: %s: %v", room, change.Text, err)
			}
		}
	}
	for _, name := range []string{"budget", "dims", "level", "accumulate"} {
		if !all[name] {
			t.Errorf("%s is never named, only %v", name, all)
		}
	}
	// Room for the step, but not for copies of its weights while they are loaded.
	wide := written(t, zoo.Spec{Family: "mlp", Layers: 2, Width: 2048, Inputs: 64, Classes: 10})
	path, c.Dims, c.LoadMode = wide, map[string]int64{"batch": 4}, string(loader.Eager)
	if p, err = train(c, 0); err != nil {
		t.Fatal(err)
	}
	_, err = train(c, p.Memory.Total+slack)
	var short *machine.MemoryError
	if !errors.As(err, &short) || !slices.ContainsFunc(short.Short.Largest, func(o arena.Owned) bool { return o.Owner == "copies of weights for load_mode eager" }) {
		t.Fatalf("eager: %v", err)
	}
	if len(short.Changes) == 0 || short.Changes[0].Set[0].Name != "load_mode" {
		t.Fatalf("eager: %+v", short.Changes)
	}
	for _, change := range short.Changes {
		if _, err := train(changed(t, c, change), p.Memory.Total+2*slack); err != nil {
			t.Errorf("eager: %s: %v", change.Text, err)
		}
	}
}

// TestRuledOut: a budget that settings keep from being met names the settings.
func TestRuledOut(t *testing.T) {
	path := written(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Vocab: 2048, Positions: 64})
	for _, of := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"chunk_loss": "off", "flash_attention": "off"}, "--chunk-loss auto"},
		{map[string]string{"strategy": "keep-all"}, "--strategy auto"},
		{map[string]string{"strategy": "keep-all", "lossy": "off", "chunk_loss": "off"}, "--strategy auto"},
		{map[string]string{"max_overhead": "1%"}, "--max-overhead "},
	} {
		c := configs.Default()
		c.Dims = map[string]int64{"batch": 8, "seq": 64}
		for name, value := range of.set {
			if err := c.Set(name, value, configs.Source{}); err != nil {
				t.Fatal(err)
			}
		}
		refused := 0
		for _, share := range []float64{10, 20, 35, 50, 70} {
			c := c
			c.ActivationBudget = configs.Budget{Percent: share}
			m, err := Open(path, c)
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.Plan()
			m.Close()
			var wrong *planner.BudgetError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), of.want) {
				continue
			}
			refused++
			for _, change := range wrong.Changes {
				c := changed(t, c, change)
				m, err := Open(path, c)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := m.Plan(); err != nil {
					t.Errorf("%v, %g %%: %s: %v", of.set, share, change.Text, err)
				}
				m.Close()
			}
		}
		if refused == 0 {
			t.Errorf("%v: %s is never named", of.set, of.want)
		}
	}
}

// TestNotComputed: what takes too long is said.
func TestNotComputed(t *testing.T) {
	path := written(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Vocab: 2048, Positions: 64})
	c := configs.Default()
	c.Dims, c.ActivationBudget, c.ChunkLoss = map[string]int64{"batch": 8, "seq": 64}, configs.Budget{Percent: 30}, "off"
	m, err := Open(path, c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f := m.Fitting(c.Dims)
	f.Left = 1
	f.Settings()
	if note := f.Note(); !strings.Contains(note, "not computed") || !strings.Contains(note, "--chunk-loss") || len(f.Found) > 0 {
		t.Errorf("%s, %v", note, f.Found)
	}
}

// TestLoadFits: whatever limit refuses a load, what the error names fits, and the limit that it names is what is needed.
func TestLoadFits(t *testing.T) {
	kinds := map[string]bool{}
	for path, dims := range loadable(t, true) {
		for _, mode := range loader.Modes() {
			if strings.Contains(path, "wide") && mode != "lazy" {
				continue // there the activations decide, in every mode
			}
			c := configs.Default()
			c.Dims, c.Device, c.Chunk = dims, "cpu", 2<<20
			free, err := load.Run(context.Background(), path, c, loader.Mode(mode), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, limit := range []int64{free.W/2 + free.A, free.W + 400<<10, free.Promised - 1} {
				c := c
				c.MemoryLimit = limit
				l, err := load.Run(context.Background(), path, c, loader.Mode(mode), 0)
				if err == nil {
					if l.Measured > limit {
						t.Errorf("%s: %d held with a limit of %d", mode, l.Measured, limit)
					}
					continue
				}
				var short *machine.MemoryError
				if !errors.As(err, &short) || exit.Code(err) != exit.CodeCannot || short.Short.Limit != limit || limit >= free.Promised {
					t.Fatalf("%s, limit %d of %d: %v", mode, limit, free.Promised, err)
				}
				for _, change := range short.Changes {
					m, c, path := mode, c, path
					if change.Set == nil {
						kinds["quantize"] = true
						to := filepath.Join(t.TempDir(), "q.onnx")
						if _, err := forward.Quantize(context.Background(), path, to, configs.Default()); err != nil {
							t.Fatal(err)
						}
						path = to
					} else {
						kinds[change.Set[0].Name] = true
						if c = changed(t, c, change); change.Set[0].Name == "load_mode" {
							m = change.Set[0].Value
						}
					}
					if _, err := load.Run(context.Background(), path, c, loader.Mode(m), 0); err != nil {
						t.Errorf("%s, limit %d: %s: %v", mode, limit, change.Text, err)
					}
				}
			}
		}
	}
	for _, kind := range []string{"mem_limit", "load_mode", "chunk", "dims", "quantize"} {
		if !kinds[kind] {
			t.Errorf("%s is never named, only %v", kind, kinds)
		}
	}
}

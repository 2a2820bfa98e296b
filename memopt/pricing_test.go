package memopt

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"memopt/memopt/step"
	"memopt/planner/profile"
)

// TestFlops: by flops, plans of the corpus cost what memopt/lab/corpus/plans.txt says, which was written before plans were
// priced in time; in time they name a profile.
func TestFlops(t *testing.T) {
	text, err := os.ReadFile("lab/corpus/plans.txt")
	if err != nil {
		t.Fatal(err)
	}
	step, met := "", 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 0 && line[0] != ' ' {
			step, fields = fields[0], fields[1:]
		}
		if step != "resnet18" && step != "gpt-2L" && step != "unet" || len(fields) < 5 || fields[1] != "%" {
			continue
		}
		met++
		path := filepath.Join("lab", "corpus", "steps", step+".json.gz")
		settings := map[string]string{"cost": "flops"}
		kept, err := opened(t, path, settings).Plan()
		if err != nil {
			t.Fatal(err)
		}
		share, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		floor := kept.Floor.Peak
		settings["activation_budget"] = fmt.Sprint(floor + int64(share/100*float64(kept.Baseline.Peak-floor)))
		p, err := opened(t, path, settings).Plan()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%.3f", 100*p.Result.Overhead); got != fields[2] || p.Unit() != "compute" {
			t.Errorf("%s at %s %%: %s %% of %s, not %s", step, fields[0], got, p.Unit(), fields[2])
		}
		if step != "resnet18" {
			continue
		}
		delete(settings, "cost")
		timed, err := opened(t, path, settings).Plan()
		if err != nil {
			t.Fatal(err)
		}
		if pr := timed.Request.Profile; pr == nil || pr.Name != profile.OfTorch || pr.Replay != profile.Native || timed.Unit() != "time" {
			t.Errorf("%s is priced by %v", step, pr)
		}
	}
	if met < 6 {
		t.Fatalf("%d rows", met)
	}
}

// TestTrainers: a recording is priced by what the trainer's device is called, and by who replays its plan.
func TestTrainers(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	text, err := os.ReadFile("../internal/joint/testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fields, replay, want string }{
		{``, "", "torch-core, native replay"},
		{`"device": "cpu", "threads": 8,`, "python", "torch-core × 8, python replay"},
		{`"device": "NVIDIA H100 80GB HBM3",`, "", "h100, native replay"},
		{`"device": "NVIDIA H100 80GB HBM3",`, "graph", "h100, graph replay"},
		{`"device": "NVIDIA Quadro P400",`, "compiled", "gpu, compiled replay"},
		{`"flops_per_byte": 16,`, "", "gpu, native replay"},
		{`"device": "cpu", "driver": "PyTorch 2.15.0",`, "", "mine"},
	} {
		mine := *profile.Class(profile.OfTorch)
		mine.Name, mine.Source = "mine", "measured"
		path, err := step.TrainerFile("cpu", "PyTorch 2.15.0")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, mine.JSON(), 0o600); err != nil {
			t.Fatal(err)
		}
		step := filepath.Join(t.TempDir(), "step.json")
		if err := os.WriteFile(step, []byte(strings.Replace(string(text), "{", "{"+c.fields, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		if c.replay != "" {
			settings["replay"] = c.replay
		}
		m := opened(t, step, settings)
		if name, _, _ := strings.Cut(m.Priced.String(), " ("); !strings.HasPrefix(name, c.want) {
			t.Errorf("%s is priced by %q, not %q", c.fields, name, c.want)
		}
	}
}

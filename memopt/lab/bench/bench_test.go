package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// counting is a side whose steps take a given time.
type counting struct {
	step  Time
	steps int
}

func (c *counting) Run(n int) (Time, error) {
	c.steps += n
	return Time{c.step.Wall * float64(n), c.step.CPU * float64(n)}, nil
}

func (c *counting) Close() {}

// TestRounds: figures are per step whatever the number of steps in a turn, and turns of both sides
// have the same length.
func TestRounds(t *testing.T) {
	quick, slow := &counting{step: Time{1e-5, 2e-5}}, &counting{step: Time{0.5, 0.25}}
	figures, err := rounds{count: 3, least: 10 * time.Millisecond}.measure(quick, slow)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Figure{{1e-5, 2e-5, 1e-5}, {0.5, 0.25, 0.5}} {
		got := figures[i]
		if abs(got.Wall-want.Wall) > 1e-9 || abs(got.CPU-want.CPU) > 1e-9 || abs(got.Median-want.Median) > 1e-9 {
			t.Errorf("side %d: %+v, not %+v", i, got, want)
		}
	}
	if quick.steps < 3*1000 || slow.steps != 2+3 {
		t.Errorf("%d quick steps and %d slow ones", quick.steps, slow.steps)
	}
}

func abs(x float64) float64 { return max(x, -x) }

func TestBar(t *testing.T) {
	for _, c := range []struct {
		bar         Bar
		ours, rival float64
		met         bool
	}{
		{Bar{Speed: 0.9}, 1, 0.9, true}, {Bar{Speed: 0.9}, 1, 0.8, false},
		{Bar{Time: 1.5}, 1.4, 1, true}, {Bar{Time: 1.5}, 1.6, 1, false},
	} {
		if got := c.bar.met(c.bar.ratio(c.ours, c.rival)); got != c.met {
			t.Errorf("%s with %v s beside %v s: met is %v", c.bar, c.ours, c.rival, got)
		}
	}
}

// TestCases runs one step of every case of ours.
func TestCases(t *testing.T) {
	for _, b := range Benches {
		names := map[string]bool{}
		for _, c := range b.Cases {
			name := c.Group + " " + c.Name
			if names[name] || c.Work <= 0 || c.Bar.Speed > 0 == (c.Bar.Time > 0) {
				t.Errorf("%s: the row is wrong", name)
			}
			names[name] = true
			if c.Group == "rows" && c.Name != "Add" {
				continue // similar to others, and large
			}
			side, err := c.Ours(2)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := side.Run(1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			side.Close()
		}
	}
}

// TestMissingPeers: our figures are measured, and the report says how to install the peers.
func TestMissingPeers(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\necho '{\"absent\": \"numpy\"}'\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for python, want := range map[string]string{
		fake:             "no NumPy: package numpy is not installed; " + fake + " -m pip install numpy",
		fake + ".absent": "no NumPy: ",
		"/bin/false":     "no NumPy: it ended: EOF",
	} {
		r, err := Bench{Name: "test", Cases: products[:1]}.Run(Options{Python: python, Threads: []int{1}, Quick: true})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		r.Text(&out)
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "0 of 0 bars") || r.Rows[0].Here.Wall <= 0 {
			t.Errorf("%s:\n%s", python, out.String())
		}
		if _, err := json.Marshal(r.File(NewHead("test", "memopt bench test", "0"))); err != nil {
			t.Error(err)
		}
	}
}

// TestPeer runs the scripts with the available Python.
func TestPeer(t *testing.T) {
	python := os.Getenv("MEMOPT_PYTHON")
	if python == "" {
		python = "python3"
	}
	for _, c := range []Case{products[1], steps[0]} {
		all := newPeers(python)
		side, err := all.open(c.Rival, 1)
		if err != nil {
			t.Fatal(err)
		}
		if side == nil {
			t.Logf("%+v", all.missing)
			continue
		}
		if took, err := side.Run(3); err != nil || took.Wall <= 0 {
			t.Errorf("%s: %+v, %v", c.Rival.Name, took, err)
		}
		wrong := c.Rival
		wrong.Open = map[string]any{"open": "nonsense"}
		if _, err := all.open(wrong, 1); err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("a case that it lacks: %v", err)
		}
		if found := all.found[0]; found.Kernels == "" || found.Kernels == "unknown" || !slices.Equal(found.Threads, []int{1}) {
			t.Errorf("%s does not say what it runs: %+v", c.Rival.Name, found)
		}
		all.close()
	}
}

// TestPeersChoose: variables that would make a peer's library choose other kernels are withheld
// from it, and the report says so.
func TestPeersChoose(t *testing.T) {
	t.Setenv("OPENBLAS_CORETYPE", "Haswell")
	t.Setenv("OPENBLAS_L2_SIZE", "64")
	fake := filepath.Join(t.TempDir(), "python")
	script := `#!/bin/sh
echo "{\"version\": \"1\", \"kernels\": \"${OPENBLAS_CORETYPE:-own}, ${OPENBLAS_L2_SIZE:-own}\", \"threads\": $OPENBLAS_NUM_THREADS}"
while read line; do echo '{"wall": 1e-3, "cpu": 1e-3}'; done
`
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := Bench{Name: "test", Cases: products[:1]}.Run(Options{Python: fake, Threads: []int{1, 2}, Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Found{{"NumPy", "1", "own, own", []int{1, 2}}}; !reflect.DeepEqual(r.Peers, want) {
		t.Errorf("%+v, not %+v", r.Peers, want)
	}
	var out bytes.Buffer
	r.Text(&out)
	for _, want := range []string{"NumPy is 1; kernels: own, own; threads: 1 2\n", "OPENBLAS_CORETYPE, OPENBLAS_L2_SIZE: not passed on to peers"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestIdentify(t *testing.T) {
	for cpuinfo, want := range map[string]Machine{
		"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R) Platinum 8481C\nstepping\t: 8\n\nprocessor\t: 1\nmodel name\t: another\n": {
			Processor: "Intel(R) Xeon(R) Platinum 8481C", Model: "family 6, model 143, stepping 8"},
		"processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n": {Processor: "arm64", Model: "implementer 0x41, part 0xd0c"},
		"": {Processor: "arm64"},
	} {
		m := Machine{Processor: "arm64"}
		if m.identify(cpuinfo); m != want {
			t.Errorf("%+v, not %+v", m, want)
		}
	}
}

func TestFind(t *testing.T) {
	if _, err := Find("gpu"); err == nil || !strings.Contains(err.Error(), "there are cpu") {
		t.Error(err)
	}
	if _, err := cpuBench.pick([]string{"matmul", "nonsense"}); err == nil || !strings.Contains(err.Error(), "rows") {
		t.Error(err)
	}
	cases, err := cpuBench.pick([]string{"mlp", "half"})
	if err != nil || len(cases) != 3 {
		t.Error(len(cases), err)
	}
}

package bench

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFittedModels: the command and the script have the same models, in the same order.
func TestFittedModels(t *testing.T) {
	text, err := torchFiles.ReadFile("torch/fitted.py")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?ms)^MODELS: [^\n]* = \{.*?^\}`).FindString(string(text))
	var have []string
	for _, m := range regexp.MustCompile(`(?m)^    "([^"]+)": \{`).FindAllStringSubmatch(table, -1) {
		have = append(have, m[1])
	}
	if !slices.Equal(have, fittedModels) {
		t.Errorf("the script has %q, the command knows %q", have, fittedModels)
	}
}

const fittedLines = `{"version": "2.15.0"}
{"says": "llama: first"}
{"result": {"model": "llama", "rows": [
 {"trainer": "TrainingArguments: optim=adamw_torch", "promised": 130850000, "measured": 130853000, "promised_ms": 125.2, "cpu_ms": 145.8},
 {"trainer": "axolotl: optimizer=sgd", "promised": 62000000, "measured": 60000000, "promised_ms": 30, "cpu_ms": 25},
 {"trainer": "torchtitan: mode=full", "error": "RuntimeError: no"}]}}`

// TestFitted: rows of the script are read and shown with how far each promise is off; a row that failed says why, and others are there all the same.
func TestFitted(t *testing.T) {
	var said []string
	r, err := Fit(TorchOptions{Quick: true, Only: []string{"llama"}, Python: fakeTorch(t, strings.ReplaceAll(fittedLines, "\n ", " ")), Progress: func(s string) { said = append(said, s) }})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(said, "llama: first") {
		t.Errorf("progress was %q", said)
	}
	r.Models = append(r.Models, FittedModel{Model: "bert", Error: "the process ended", Rows: []FittedRow{}})
	var out strings.Builder
	r.Text(&out)
	want := `model  trainer's file                                bytes  on paper  CPU time  on paper
llama  TrainingArguments: optim=adamw_torch     124.79 MiB    0.00 %  145.8 ms   -14.1 %
llama  axolotl: optimizer=sgd                    57.22 MiB   +3.33 %   25.0 ms   +20.0 %
llama  torchtitan: mode=full: RuntimeError: no
bert   the process ended
PyTorch 2.15.0 on one thread;`
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("the table is\n%s\nand was to begin with\n%s", out.String(), want)
	}
}

// TestFittedModel: a model that there is not is refused before anything is measured.
func TestFittedModel(t *testing.T) {
	_, err := Fit(TorchOptions{Only: []string{"lama"}, Python: "/nowhere"})
	if err == nil || !strings.Contains(err.Error(), `fit has no model "lama"; there are llama, qwen3`) {
		t.Errorf("the error is %v", err)
	}
}

package bench

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"memopt/memopt/report"
)

// FittedDoc describes the bench of steps on paper.
const FittedDoc = "what memopt fit promises of small models under trainers' files, bytes and time by this machine's own profile, beside steps that run; groups are models"

// fittedModels are the models of torch/fitted.py.
var fittedModels = []string{"llama", "qwen3", "gemma2", "mistral", "phi3", "gpt2", "gpt-neox", "opt", "bert", "t5", "vit", "whisper"}

// Fitted are the figures of one run.
type Fitted struct {
	PyTorch string        `json:"pytorch"` // its version
	Models  []FittedModel `json:"models"`
}

// FittedModel is one model under the files of trainers.
type FittedModel struct {
	Model string      `json:"model"`
	Error string      `json:"error,omitempty"`
	Rows  []FittedRow `json:"rows"`
}

// FittedRow is a step on paper, and as it ran: the bytes of a later step with its weights, states and update, and its time.
type FittedRow struct {
	Trainer    string  `json:"trainer"`
	Promised   int64   `json:"promised,omitempty"`
	Measured   int64   `json:"measured,omitempty"`
	PromisedMS float64 `json:"promised_ms,omitempty"`
	CPUMS      float64 `json:"cpu_ms,omitempty"`
	Error      string  `json:"error,omitempty"`
}

// Fit runs the bench: first the machine's profile of one thread, then each model in its own process.
func Fit(o TorchOptions) (*Fitted, error) {
	for _, name := range o.Only {
		if !slices.Contains(fittedModels, name) {
			return nil, fmt.Errorf("fit has no model %q; there are %s", name, strings.Join(fittedModels, ", "))
		}
	}
	script, err := newTorchScript(o.Python)
	if err != nil {
		return nil, err
	}
	defer script.close()
	profile := filepath.Join(script.folder, "profile.json")
	var made struct{ Model string }
	if err := script.answer(&made, o.Progress, o.Quick, "fitted.py", profile); err != nil {
		return nil, err
	}
	r := &Fitted{PyTorch: script.version, Models: []FittedModel{}}
	for _, name := range fittedModels {
		if len(o.Only) > 0 && !slices.Contains(o.Only, name) {
			continue
		}
		var found FittedModel
		var none *NoTorchError
		if err := script.answer(&found, o.Progress, o.Quick, "fitted.py", name, profile); errors.As(err, &none) {
			return nil, err
		} else if err != nil {
			found = FittedModel{Model: name, Error: err.Error(), Rows: []FittedRow{}}
		}
		r.Models = append(r.Models, found)
	}
	return r, nil
}

// Text writes the report as a table for people.
func (r *Fitted) Text(w io.Writer) {
	rows := [][]string{{"model", "trainer's file", "bytes", "on paper", "CPU time", "on paper"}}
	for _, m := range r.Models {
		if m.Error != "" {
			rows = append(rows, []string{m.Model, m.Error, "", "", "", ""})
		}
		for _, row := range m.Rows {
			if row.Error != "" {
				rows = append(rows, []string{m.Model, row.Trainer + ": " + row.Error, "", "", "", ""})
				continue
			}
			rows = append(rows, []string{m.Model, row.Trainer, fmt.Sprintf("%.2f MiB", float64(row.Measured)/(1<<20)), off(float64(row.Promised), float64(row.Measured), 2),
				fmt.Sprintf("%.1f ms", row.CPUMS), off(row.PromisedMS, row.CPUMS, 1)})
		}
	}
	report.Table(w, "=llrrrr", rows)
	fmt.Fprintf(w, "PyTorch %s on one thread; bytes are those of a later step, with weights, states and update. The time of a step is the least that was seen, divided by the least\n", r.PyTorch)
	fmt.Fprintln(w, "of a product beside it, times what the profile says of that product: what others of the machine do only adds to both.")
}

// off is by how much a promise is off, in percent; what rounds to nothing has no sign.
func off(promised, taken float64, digits int) string {
	shown := fmt.Sprintf("%+.*f", digits, 100*(promised/max(taken, 1e-9)-1))
	if strings.Trim(shown, "+-0.") == "" {
		shown = shown[1:]
	}
	return shown + " %"
}

// FittedFile is what --format json prints.
type FittedFile struct {
	Head
	Fitted
}

// File converts the report.
func (r *Fitted) File(h Head) FittedFile { return FittedFile{h, *r} }

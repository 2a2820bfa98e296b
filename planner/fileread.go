package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"memopt/memopt/whole"
)

// maxFile bounds a plan file: a million launches fit.
const maxFile = 1 << 30

// ReadFile reads a plan file without a graph. A file that lacks what every plan
// has is refused, and so is one with a field that no plan has: a *FieldError.
func ReadFile(path string) (*File, error) {
	data, err := whole.Read(path, "a plan file", maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &File{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(f) // as far as it goes, also where a field is unknown
	switch {
	case err != nil && !json.Valid(data):
		return nil, fmt.Errorf("%s is not a plan file: %w", path, err)
	case f.Format != Format:
		return nil, fmt.Errorf("%s has format %q; this version reads %q", path, f.Format, Format)
	case err != nil:
		return nil, unlike(path, data, err)
	}
	if err := f.complete(data); err != nil {
		return nil, fmt.Errorf("%s is not a whole plan file: %w", path, err)
	}
	return f, nil
}

// everyPlan lists the fields that plan files have had from the first on: what shows
// a plan reads them.
var everyPlan = []string{"model.fingerprint", "model.nodes", "dims", "request.budget", "strategy", "baseline.peak", "baseline.flops",
	"result.peak", "result.arena", "result.overhead", "floor.peak", "memory.total", "clusters", "steps", "offsets", "program"}

// complete refuses a file, read from data, that lacks what every plan has.
func (f *File) complete(data []byte) error {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	var missing []string
	for _, field := range everyPlan {
		part, inner, nested := strings.Cut(field, ".")
		value, has := parts[part]
		if nested && has {
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(value, &fields); err != nil {
				return err
			}
			_, has = fields[inner]
		}
		if !has {
			missing = append(missing, field)
		}
	}
	switch {
	case len(missing) > 0:
		return fmt.Errorf("it has no %s", strings.Join(missing, ", "))
	case f.Model.Fingerprint == "":
		return fmt.Errorf("its model.fingerprint is empty")
	case len(f.Program) != f.Model.Nodes:
		return fmt.Errorf("its program has %d lines, its model %d nodes", len(f.Program), f.Model.Nodes)
	}
	return nil
}

package forms

import (
	"maps"

	"memopt/planner"
)

// Read is the plan of a file, checked against the step that settings ask for. Costs are
// told beside the step that the file names.
func (s *Steps) Read(file *planner.File, ask Ask, beside map[string]string) (*planner.Plan, error) {
	f, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	if len(beside) > 0 && s.kind != recorded {
		settings := maps.Clone(ask.Settings)
		maps.Copy(settings, beside)
		plain, err := s.of(asked(settings)).get()
		if err != nil {
			return nil, err
		}
		f.plain = plain.Graph
	}
	g, r, err := f.at(f.on)
	if err != nil {
		return nil, err
	}
	p, err := file.BindAs(g, r)
	if err == nil {
		f.describe(p)
	}
	return p, err
}

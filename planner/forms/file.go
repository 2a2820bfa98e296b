package forms

import (
	"maps"

	"memopt/planner"
	"memopt/planner/planfile"
)

// Read checks a saved plan against the step that settings ask for. Costs are relative to the step
// with the settings beside, which the file names.
func (s *Steps) Read(file *planfile.File, ask Ask, beside map[string]string) (*planner.Plan, error) {
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

package memopt

import (
	"fmt"

	"memopt/memopt/tensorfile"
)

// Lossy is how far one step that keeps rounded values is from the exact one.
type Lossy struct {
	Type       string
	Values     int // how many are rounded
	LossRelErr float64
	Worst      ParamErr // the gradient that differs the most
}

// String is the line that a report has.
func (l *Lossy) String() string {
	return fmt.Sprintf("lossy: %d activations are kept as %s; in one step the gradient of %q differs the most from the exact one, by %.2e (relative), the loss by %.2e",
		l.Values, l.Type, l.Worst.Param, l.Worst.RelErr, l.LossRelErr)
}

// lossyStep measures the first step of a training, with the model's own
// parameters.
func (m *Model) lossyStep(data *tensorfile.Set) (*Lossy, error) {
	only, err := gradientModel(m)
	if err != nil {
		return nil, err
	}
	if err := only.takeForm(m); err != nil {
		return nil, err
	}
	got, _, err := only.gradients(data)
	if err != nil {
		return nil, err
	}
	defer got.Close()
	return only.lossyError(got, data)
}

// lossyError runs the exact step, with everything kept, and says how far what
// was got from this model of gradientModel is from it.
func (m *Model) lossyError(got, data *tensorfile.Set) (*Lossy, error) {
	c := m.Config
	exact, err := gradientModel(&Model{Path: m.Path, Config: c.Exact()})
	if err != nil {
		return nil, err
	}
	want, _, err := exact.gradients(data)
	if err != nil {
		return nil, err
	}
	defer want.Close()
	var check Check
	if err := check.compare(got, want, "the exact step"); err != nil {
		return nil, err
	}
	return &Lossy{c.Lossy, m.forms.rounds(), check.LossRelErr, check.Worst}, nil
}

package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/autograd"
	"memopt/configs"
	"memopt/kernels"
	"memopt/memopt/exit"
)

// addLoss determines the loss: the value that the settings name or, if there is no value of that name, a loss to
// add, such as cross-entropy or cross-entropy:OUTPUT.
func (m *Model) addLoss() error {
	m.Loss = m.Config.Loss
	name, output, _ := strings.Cut(m.Config.Loss, ":")
	l, known := kernels.FindLoss(name)
	if m.Loss == "" || m.Graph.ByName(m.Loss) != nil {
		return nil
	}
	if !known {
		names := lossNames()
		var outputs []string
		for _, v := range m.Graph.Outputs {
			names, outputs = append(names, v.Name), append(outputs, v.String())
		}
		hint := "; its outputs are " + strings.Join(outputs, ", ")
		if near, ok := configs.Nearest(m.Loss, names); ok {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return exit.Input(fmt.Errorf("the loss %q is no value of the model, nor one that can be added (%s)%s", m.Loss, strings.Join(lossNames(), ", "), hint))
	}
	had := slices.Clone(m.Graph.Inputs)
	if err := kernels.AddLoss(m.Graph, l, output); err != nil {
		return exit.Input(err)
	}
	for _, v := range m.Graph.Inputs {
		if !slices.Contains(had, v) {
			m.LossInput = v.String()
		}
	}
	m.Loss = "" // it is the only output now, which autograd finds by itself
	return nil
}

// hintLoss adds advice to the error that a model has no loss, or several.
func (m *Model) hintLoss(err error) error {
	switch loss := m.Config.Name("loss"); {
	case errors.Is(err, autograd.ErrNoLoss):
		return fmt.Errorf("%w; name one with %s, or a loss to add: %s", err, loss, strings.Join(lossNames(), ", "))
	case errors.Is(err, autograd.ErrManyLosses):
		return fmt.Errorf("%w; name the loss with %s", err, loss)
	}
	return err
}

func lossNames() (names []string) {
	for _, l := range kernels.Losses {
		names = append(names, l.Name)
	}
	return names
}

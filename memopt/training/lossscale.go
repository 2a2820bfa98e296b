package training

import (
	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/memopt/devices"
	"memopt/memopt/step"
)

// scaledLoss detects skipped updates by the count of updates, which a step that overflows leaves unchanged.
type scaledLoss struct {
	on, finds bool
	fixed     float64
	updates   int64
}

// NewScaledLoss reads the scale that a device starts with.
func NewScaledLoss(m *step.Model, d devices.Device) (*scaledLoss, error) {
	s := &scaledLoss{on: m.Config.LossScale.Auto || m.Config.LossScale.Factor > 0, fixed: m.Config.LossScale.Factor}
	if s.on = s.on && m.Graph.ByName(autograd.Step) != nil; !s.on {
		return s, nil
	}
	s.finds = m.Graph.ByName(autograd.Scale) != nil
	x, err := d.State(autograd.Step)
	if err == nil {
		s.updates = x.Int(0)
	}
	return s, err
}

// Look is called after each step.
func (s *scaledLoss) Look(d devices.Device, step int, r *Result) error {
	if !s.on {
		return nil
	}
	var scale *graph.Tensor
	count, err := d.State(autograd.Step)
	if err != nil {
		return err
	}
	if s.updates == count.Int(0) {
		r.Skipped = append(r.Skipped, step+1)
	}
	s.updates, r.LossScale = count.Int(0), s.fixed
	if s.finds {
		if scale, err = d.State(autograd.Scale); err != nil {
			return err
		}
		r.LossScale = scale.Float(0)
	}
	return nil
}

// Package memopt is the front door: it opens a model, plans its training step and trains it. It connects the stages
// and decides nothing itself.
//
//	model.onnx, step.json.gz
//	   │  step.Model.Read       onnx.From.Read or joint.ReadContext, then Graph.Clean
//	   ▼
//	graph.Graph                 the forward pass; weights stay in the mapped files
//	   │  step.Model.Derive     autograd.TrainStep, for each form once
//	   ▼
//	forms.Steps                 the training step in every form that it may take
//	   │  step.Model.Plan       planner.Look and Search.Plan, the form that promises most first
//	   ▼
//	planner.Plan                self-contained: nothing of the model is changed by it
//	   │  training.Load         Plan.Schedule, then a device that holds the weights
//	   ▼
//	schedule.Schedule
//	   │  training.Steps        Device.Run, step after step
//	   ▼
//	training.Result             promised beside measured, which package report prints
package memopt

import (
	"context"

	"memopt/configs"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/memopt/devices"
	"memopt/memopt/phases"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
	"memopt/planner/forms"
)

// Open reads a model and derives its training step, unless the file contains one. The weights stay in the model's
// files, which are mapped until the model is closed.
func Open(path string, c configs.Config) (*step.Model, error) {
	return OpenContext(context.Background(), path, c)
}

// OpenContext is Open with a context. Once that is done, opening and all later work on the model return its error
// and write no file.
func OpenContext(ctx context.Context, path string, c configs.Config) (*step.Model, error) {
	return OpenRecorded(ctx, nil, path, c)
}

// OpenRecorded is OpenContext with the memory of its phases recorded, if p is not nil: of P2 and P3; it begins P4.
func OpenRecorded(ctx context.Context, p *phases.Record, path string, c configs.Config) (*step.Model, error) {
	p.Next("P2", "model opened", 0)
	m := &step.Model{Path: path, Config: c, Ctx: ctx, Phases: p}
	opened, err := stop.When(ctx, func() (*step.Model, error) { return open(m) })
	if err != nil {
		m.Close()
		return nil, err
	}
	p.Next("P4", "planned", 0)
	return opened, nil
}

func open(m *step.Model) (opened *step.Model, err error) {
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.Read(); err != nil {
		return nil, m.Unparted(err)
	}
	if err := m.Price(); err != nil {
		return nil, err
	}
	m.Phases.Next("P3", "graph built", 0)
	if !m.Graph.HasBackward() {
		return m, m.Derive(m.StepOptions())
	}
	if err := m.ReadOutline(); err != nil {
		return nil, err
	}
	if step.Runnable(m.Graph) != nil {
		return m, m.Take(forms.Recorded(m.Ctx, m.Graph))
	}
	return m, m.Take(forms.Brought(m.Ctx, m.Graph))
}

// Run trains under a plan, and reports promised and measured memory.
func Run(m *step.Model, p *planner.Plan, t training.Options) (*training.Result, error) {
	return stop.When(m.Ctx, func() (r *training.Result, err error) {
		defer weights.Guard(&err)()
		if err := training.Allowed(m, p, t); err != nil {
			return nil, err
		}
		l, err := training.Load(m, p, func(s *schedule.Schedule) (devices.Device, error) { return t.Open(m.Config, s) })
		if err != nil {
			return nil, err
		}
		defer l.End()
		if r, err = training.Steps(m, l, t); err != nil {
			return nil, m.WouldFit(p, l.Schedule, err)
		}
		return r, l.Measured(r, t)
	})
}

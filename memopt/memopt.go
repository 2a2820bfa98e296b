// Package memopt is the front door: it opens a model, plans its training step and trains it. It connects the stages
// and decides nothing itself.
//
//	model.onnx, step.json.gz
//	   │  read            onnx.From.Read or joint.ReadContext, then Graph.Clean
//	   ▼
//	graph.Graph           the forward pass; weights stay in the mapped files
//	   │  derive          autograd.TrainStep, for each form once
//	   ▼
//	forms.Steps           the training step in every form that it may take
//	   │  forms.Plan      planner.Look and Search.Plan, the form that promises most first
//	   ▼
//	planner.Plan          self-contained: nothing of the model is changed by it
//	   │  load            Plan.Schedule, then a device that holds the weights
//	   ▼
//	schedule.Schedule
//	   │  train           Device.Run, step after step
//	   ▼
//	Result                promised beside measured, which package report prints
package memopt

import (
	"context"

	"memopt/configs"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/memopt/devices"
	"memopt/memopt/phases"
	"memopt/planner"
	"memopt/planner/forms"
)

// Open reads a model and derives its training step, unless the file contains one. The weights stay in the model's
// files, which are mapped until the model is closed.
func Open(path string, c configs.Config) (*Model, error) {
	return OpenContext(context.Background(), path, c)
}

// OpenContext is Open with a context. Once that is done, opening and all later work on the model return its error
// and write no file.
func OpenContext(ctx context.Context, path string, c configs.Config) (*Model, error) {
	return OpenRecorded(ctx, nil, path, c)
}

// OpenRecorded is OpenContext with the memory of its phases recorded, if p is not nil: of P2 and P3; it begins P4.
func OpenRecorded(ctx context.Context, p *phases.Record, path string, c configs.Config) (*Model, error) {
	p.Next("P2", "model opened", 0)
	m := &Model{Path: path, Config: c, ctx: ctx, phases: p}
	opened, err := stop.When(ctx, func() (*Model, error) { return open(m) })
	if err != nil {
		m.Close()
		return nil, err
	}
	p.Next("P4", "planned", 0)
	return opened, nil
}

func open(m *Model) (opened *Model, err error) {
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.read(); err != nil {
		return nil, m.unparted(err)
	}
	if err := m.price(); err != nil {
		return nil, err
	}
	m.phases.Next("P3", "graph built", 0)
	if !m.Graph.HasBackward() {
		return m, m.derive(m.stepOptions())
	}
	if err := m.readOutline(); err != nil {
		return nil, err
	}
	if runnable(m.Graph) != nil {
		return m, m.take(forms.Recorded(m.ctx, m.Graph))
	}
	return m, m.take(forms.Brought(m.ctx, m.Graph))
}

// Run trains under a plan, and reports promised and measured memory.
func Run(m *Model, p *planner.Plan, t Training) (*Result, error) {
	return runThrough(m, p, t, func(d devices.Device) devices.Device { return d })
}

// run is Run with the device wrapped by through.
func runThrough(m *Model, p *planner.Plan, t Training, through func(devices.Device) devices.Device) (*Result, error) {
	return stop.When(m.ctx, func() (r *Result, err error) {
		defer weights.Guard(&err)()
		if err := canTrain(m, p, t); err != nil {
			return nil, err
		}
		l, err := loadPlanned(m, p, func(s *schedule.Schedule) (devices.Device, error) { return t.open(m.Config, s) })
		if err != nil {
			return nil, err
		}
		defer l.close()
		if r, err = trainLoaded(m, l, through(l.Device), t); err != nil {
			return nil, m.wouldFit(p, l.schedule, err)
		}
		return r, l.measured(r, t)
	})
}

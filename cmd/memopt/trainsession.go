package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/visible"
	"memopt/memopt/devices"
	"memopt/memopt/held"
	"memopt/memopt/step"
	"memopt/plugin"
)

// heldStep is a training session of a host.
type heldStep struct {
	*held.Session
	job   job
	texts map[*held.Binding]plugin.Bound // of the bindings that the session keeps
}

// openTraining opens a model as `memopt train` does, with the same settings.
func openTraining(ctx context.Context, r plugin.OpenRequest) (plugin.Opened, error) {
	j, warnings, err := hosted(ctx, "train", r.Model, r.Settings, r.Caller, nil)
	if err != nil {
		return plugin.Opened{}, err
	}
	o := held.Options{Bridge: r.Mode == "bridge", Results: r.Outputs, Inputs: r.Grads}
	switch {
	case r.Model != "" && r.Bytes != nil:
		return plugin.Opened{}, asInput(fmt.Errorf("the model is given as the file %s and as bytes; give one", j.model))
	case r.Model == "":
		j.model = configs.Folder(r.Folder).Path("model.onnx")
		o.Bytes = r.Bytes
	}
	if o.Given, err = tensorsIn(r.Given); err != nil {
		return plugin.Opened{}, asInput(err)
	}
	j.busy("reading the model")
	h, err := held.Open(ctx, j.model, j.cfg, o)
	if err != nil {
		return plugin.Opened{}, refusedRequest(err)
	}
	if r.Mode == "bridge" {
		warnings = append(warnings, idleInBridge(h.Model())...)
	}
	j.busy = func(string) func() { return func() {} }
	t := &heldStep{Session: h, job: j, texts: map[*held.Binding]plugin.Bound{}}
	out := plugin.Opened{Session: t, Device: j.cfg.Device, Warnings: warnings,
		Inputs: valuesOf(h.Inputs()), Outputs: valuesOf(h.Outputs()), Params: valuesOf(h.Params()), Buffers: valuesOf(h.Buffers())}
	if out.Device == "" || out.Device == "auto" {
		out.Device, _ = devices.Choice()
	}
	trains, err := json.Marshal(h.Trains())
	out.JSON = visible.Text(fmt.Sprintf(`{"format":"memopt.session/1","trains":%s}`, trains))
	return out, err
}

// idleInBridge warns of settings of updates, which a bridge leaves to its host.
func idleInBridge(m *step.Model) (out []string) {
	for _, s := range m.Config.NonDefaults() {
		if r, _ := configs.Find(s.Name); r.Group == configs.OptimizerGroup {
			out = append(out, fmt.Sprintf("%s: %s is ignored: the host of a bridge updates the weights", s.Source, s.Name))
		}
	}
	return out
}

func valuesOf(vs []*graph.Value) (out []plugin.Value) {
	for _, v := range vs {
		x := plugin.Value{Name: v.Name, Type: v.Type.String()}
		for _, d := range v.Shape {
			x.Shape = append(x.Shape, d.String())
		}
		out = append(out, x)
	}
	return out
}

// portsOf converts tensors of a host.
func portsOf(tensors []plugin.Tensor) (ports []held.Port, err error) {
	for _, t := range tensors {
		p := held.Port{Name: t.Name, Place: t.Bytes}
		var known bool
		if p.Type, known = graph.ParseDType(t.Type); !known {
			return nil, asInput(fmt.Errorf("tensor %q has the unknown type %q", t.Name, t.Type))
		}
		elems := int64(1)
		for _, n := range t.Shape {
			if n < 0 || n > mostElems/elems {
				return nil, asInput(fmt.Errorf("tensor %q cannot have the shape %v", t.Name, t.Shape))
			}
			elems *= max(n, 1)
			p.Shape = append(p.Shape, int(n))
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// mostElems bounds a tensor's elements.
const mostElems = 1 << 40

// Bind implements plugin.Session.
func (t *heldStep) Bind(ctx context.Context, inputs []plugin.Tensor, progress plugin.Progress) (plugin.Bound, error) {
	batch, err := portsOf(inputs)
	if err != nil {
		return plugin.Bound{}, err
	}
	if progress != nil {
		progress("planning", 0)
	}
	b, known, err := t.Session.Bind(ctx, batch)
	if err != nil {
		return plugin.Bound{}, refusedRequest(err)
	}
	if text, has := t.texts[b]; has {
		text.Known = known
		return text, nil
	}
	p := &planned{job: t.job, model: b.Model, plan: b.Plan}
	p.ctx = ctx
	p.tell(b.Plan.Warnings)
	file, err := p.json()
	if err != nil {
		return plugin.Bound{}, err
	}
	data, err := json.Marshal(file)
	if err != nil {
		return plugin.Bound{}, err
	}
	var text strings.Builder
	if err := p.text(&text, nil); err != nil {
		return plugin.Bound{}, err
	}
	out := plugin.Bound{ID: b.ID, PlanJSON: visible.Text(string(data)), Text: visible.Text(text.String()), Warnings: p.warnings}
	for _, port := range b.Ports {
		x := plugin.Tensor{Name: port.Name, Type: port.Type.String(), Role: string(port.Role)}
		for _, n := range port.Shape {
			x.Shape = append(x.Shape, int64(n))
		}
		out.Tensors = append(out.Tensors, x)
	}
	t.texts[b] = out
	for old := range t.texts {
		if !t.Session.Has(old) {
			delete(t.texts, old)
		}
	}
	return out, nil
}

// Show implements plugin.Shower.
func (t *heldStep) Show(ctx context.Context, id uint64, r plugin.ShowRequest) (text string, warnings []string, err error) {
	show, err := stagesOf(strings.Join(r.Stages, ","))
	if err != nil {
		return "", nil, err
	}
	var shown strings.Builder
	err = t.Session.With(ctx, id, func(b *held.Binding) error {
		for _, s := range show {
			if err := s.print(&shown, b.Model, b.Plan); err != nil {
				return err
			}
		}
		if r.SaveBefore == "" && r.SaveAfter == "" {
			return nil
		}
		warnings, err = t.save(b, r)
		return err
	})
	return visible.Text(shown.String()), warnings, err
}

// save writes the graphs of a binding, without weights: a bridge's host owns these.
func (t *heldStep) save(b *held.Binding, r plugin.ShowRequest) ([]string, error) {
	files := []destination{{"save_before", r.SaveBefore}, {"save_after", r.SaveAfter}}
	for i, to := range files {
		if to.path == "" {
			return nil, usage("%s: no file; name both", to.name)
		}
		files[i].path = configs.Folder(r.Folder).Path(to.path)
	}
	if err := writable(files, append(t.job.cfg.Files(), t.job.model)); err != nil {
		return nil, err
	}
	if err := spareModel(files, b.Model); err != nil {
		return nil, err
	}
	warnings, err := b.Model.SaveGraphs(b.Plan, files[0].path, files[1].path, onnx.Brought)
	return warnings, asInput(err)
}

// Sync implements plugin.Session.
func (t *heldStep) Sync(_ context.Context, _ uint64, tensors []plugin.Tensor, toService bool) error {
	ports, err := portsOf(tensors)
	if err != nil {
		return err
	}
	return t.Session.Sync(ports, toService)
}

// Stats implements plugin.Session.
func (t *heldStep) Stats(bool) (plugin.Answer, error) {
	data, err := json.Marshal(t.Session.Stats())
	return plugin.Answer{JSON: visible.Text(string(data))}, err
}

// Forward implements plugin.Trainer.
func (t *heldStep) Forward(ctx context.Context, r plugin.StepRequest) (plugin.StepReply, error) {
	return replyTo(t.Session.Forward(ctx, held.StepOf(r)))
}

// Backward implements plugin.Trainer.
func (t *heldStep) Backward(ctx context.Context, r plugin.StepRequest) (plugin.StepReply, error) {
	return replyTo(t.Session.Backward(ctx, held.StepOf(r)))
}

// Step implements plugin.Trainer.
func (t *heldStep) Step(ctx context.Context, r plugin.StepRequest) (plugin.StepReply, error) {
	return replyTo(t.Session.Step(ctx, held.StepOf(r)))
}

func replyTo(s held.Stepped, err error) (plugin.StepReply, error) {
	return plugin.StepReply{Run: s.Run, Seconds: s.Trace.Took.Seconds(), Peak: s.Trace.Arena, Loss: s.Loss, Skipped: s.Skipped}, refusedRequest(err)
}

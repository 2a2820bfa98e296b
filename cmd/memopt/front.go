package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"memopt/configs"
	"memopt/memopt"
	"memopt/memopt/stop"
	"memopt/memopt/visible"
	"memopt/plugin"
)

// front is what the service serves: the same settings, plan and texts as the
// command line's.
type front struct{}

func (front) Info(context.Context) (plugin.Info, error) {
	info := plugin.Info{Version: memopt.Version, Features: []string{"plan"}, Devices: []plugin.Device{{Name: "cpu", Kind: "cpu"}}}
	all, _ := memopt.ListDevices(nil) // why there are none is for memopt devices to say
	for _, d := range all {
		memory := int64(0)
		for _, h := range d.Heaps {
			if h.Local {
				memory += h.Size
			}
		}
		if d.Unfit == "" {
			info.Devices = append(info.Devices, plugin.Device{Name: d.Device, Kind: "vulkan", Memory: memory})
		}
	}
	return info, nil
}

func (front) Plan(ctx context.Context, r plugin.PlanRequest) (plugin.PlanReply, error) {
	return stop.When(ctx, func() (plugin.PlanReply, error) { return answer(ctx, r) })
}

// answer does what a host asks for. Files appear at the very end, and not if the host has
// given up by then.
func answer(ctx context.Context, r plugin.PlanRequest) (reply plugin.PlanReply, err error) {
	environ := os.Environ()
	if r.Environment != nil {
		environ = nil
		for name, value := range r.Environment {
			environ = append(environ, name+"="+value)
		}
	}
	folder := configs.Folder(r.Folder)
	cfg, warnings, err := configs.Asked{Command: "plan", Settings: r.Settings, Face: configs.Python, Folder: folder, Environ: environ}.Config()
	if err != nil {
		return reply, asInput(err)
	}
	show, err := stagesOf(strings.Join(r.Show, ","))
	if err != nil {
		return reply, err
	}
	j := job{ctx: ctx, model: folder.Path(r.Model), cfg: cfg, busy: func(string) func() { return func() {} }, warn: func(...string) {}}
	for _, to := range []destination{{"save_to", r.SaveTo}, {"emit", r.Emit}, {"html", r.HTML}} {
		if to.path = folder.Path(to.path); to.path != "" {
			j.to = append(j.to, to)
		}
	}
	if err := writable(j.to, append(cfg.Files(), j.model)); err != nil {
		return reply, err
	}
	j, close := j.together()
	defer close()
	p, err := j.make()
	if err != nil {
		return reply, refusedRequest(err)
	}
	defer p.model.Close() // the service stays; what it maps it would keep
	p.tell(warnings)
	if err := p.write(); err != nil {
		return reply, err
	}
	data, err := json.Marshal(p.json())
	if err != nil {
		return reply, err
	}
	var text strings.Builder
	if err := p.text(&text, show); err != nil {
		return reply, err
	}
	reply = plugin.PlanReply{JSON: visible.Text(string(data)), Text: visible.Text(text.String()), Warnings: p.warnings}
	return reply, asInput(j.commit())
}

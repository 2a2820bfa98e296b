package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"memopt/configs"
	"memopt/internal/stop"
	"memopt/internal/visible"
	"memopt/memopt/devices"
	"memopt/memopt/step"
	"memopt/plugin"
)

// front implements the service: the same settings, plans and texts as the command line.
type front struct{}

func (front) Info(context.Context) (plugin.Info, error) {
	info := plugin.Info{Version: step.Version, Features: append([]string{"plan", "frontier", "maxbatch", "explain", "check", "quantize", "load"}, modes()...), Devices: []plugin.Device{{Name: "cpu", Kind: "cpu"}}}
	all, _ := devices.List(nil) // memopt devices explains missing ones
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

func (front) Plan(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	return stop.When(ctx, func() (plugin.Answer, error) { return makePlan(ctx, r) })
}

// makePlan answers a request for a plan. Files appear at the very end, and only if the host has not
// given up by then.
func makePlan(ctx context.Context, r plugin.Question) (reply plugin.Answer, err error) {
	show, err := stagesOf(strings.Join(r.Show, ","))
	if err != nil {
		return reply, err
	}
	j, warnings, err := hosted(ctx, "plan", r.Model, r.Settings, r.Caller, []destination{{"save_to", r.SaveTo}, {"emit", r.Emit}, {"html", r.HTML}, {"svg", r.SVG}})
	if err != nil {
		return reply, err
	}
	j, close := j.together()
	defer close()
	p, err := j.make()
	if err != nil {
		return reply, refusedRequest(err)
	}
	defer p.model.Close() // unmap now, as the service keeps running
	p.tell(warnings)
	if err := p.write(); err != nil {
		return reply, err
	}
	file, err := p.json()
	if err != nil {
		return reply, err
	}
	data, err := json.Marshal(file)
	if err != nil {
		return reply, err
	}
	var text strings.Builder
	if err := p.text(&text, show); err != nil {
		return reply, err
	}
	reply = plugin.Answer{JSON: visible.Text(string(data)), Text: visible.Text(text.String()), Warnings: p.warnings}
	return reply, asInput(j.commit())
}

// hosted is the job of a host's request: the settings of a command, in the host's environment and
// folder.
func hosted(ctx context.Context, command, model string, settings map[string]string, host plugin.Caller, files []destination) (job, []string, error) {
	environ := os.Environ()
	if host.Environment != nil {
		environ = nil
		for name, value := range host.Environment {
			environ = append(environ, name+"="+value)
		}
	}
	folder := configs.Folder(host.Folder)
	cfg, warnings, err := configs.Asked{Command: command, Settings: settings, Face: configs.Python, Folder: folder, Environ: environ}.Config()
	if err != nil {
		return job{}, nil, asInput(err)
	}
	busy := func(doing string) func() {
		if host.Progress != nil {
			host.Progress(doing, 0)
		}
		return func() {}
	}
	j := job{ctx: ctx, model: folder.Path(model), cfg: cfg, busy: busy, warn: func(...string) {}}
	for _, to := range files {
		if to.path = folder.Path(to.path); to.path == "" {
			continue
		}
		j.to = append(j.to, to)
	}
	return j, warnings, writable(j.to, append(cfg.Files(), j.model))
}

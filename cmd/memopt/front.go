package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"memopt/configs"
	"memopt/memopt"
	"memopt/memopt/report"
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

func (front) Plan(ctx context.Context, r plugin.PlanRequest) (reply plugin.PlanReply, err error) {
	folder := configs.Folder(r.Folder)
	for _, path := range []*string{&r.Model, &r.SaveTo, &r.Emit, &r.HTML} {
		*path = folder.Path(*path)
	}
	cfg, warnings, err := requestSettings(r)
	if err != nil {
		return reply, asInput(err)
	}
	show, err := stagesOf(strings.Join(r.Show, ","))
	if err != nil {
		return reply, err
	}
	to := requestDestinations(r)
	if err := writable(to, append(cfg.Files(), r.Model)); err != nil {
		return reply, err
	}
	model, err := memopt.Open(r.Model, cfg)
	if err != nil {
		return reply, err
	}
	defer model.Close() // the service stays; what it maps it would keep
	if err := spareModel(to, model); err != nil {
		return reply, err
	}
	if err := ctx.Err(); err != nil {
		return reply, err
	}
	plan, err := model.Plan()
	if err != nil {
		return reply, refusedRequest(err)
	}
	file := model.PlanFile(plan)
	file.Warnings = append(file.Warnings, warnings...)
	if warnings, err = saveGraphs(model, plan, cfg.SaveONNXPath); err != nil {
		return reply, err
	}
	file.Warnings = append(file.Warnings, warnings...)
	if r.SaveTo != "" {
		if err := file.Save(r.SaveTo); err != nil {
			return reply, asInput(err)
		}
	}
	if r.Emit != "" {
		warnings, err := model.Emit(plan, r.Emit)
		if err != nil {
			return reply, asInput(err)
		}
		file.Warnings = append(file.Warnings, warnings...)
	}
	if r.HTML != "" {
		page := report.Page{Title: filepath.Base(model.Path), File: file, Settings: nonDefaults(cfg), Picture: plan.Picture()}
		if err := writePage(r.HTML, page); err != nil {
			return reply, err
		}
	}
	data, err := json.Marshal(file)
	if err != nil {
		return reply, err
	}
	var text strings.Builder
	for _, s := range show {
		if err := s.print(&text, model, plan); err != nil {
			return reply, err
		}
		fmt.Fprintln(&text)
	}
	report.Plan(&text, plan, filepath.Base(model.Path), nonDefaults(cfg))
	return plugin.PlanReply{JSON: visible.Text(string(data)), Text: visible.Text(text.String()), Warnings: file.Warnings}, nil
}

// requestDestinations are the files that a request has written.
func requestDestinations(r plugin.PlanRequest) (all []destination) {
	for _, to := range []destination{{"save_to", r.SaveTo}, {"emit", r.Emit}, {"html", r.HTML}} {
		if to.path != "" {
			all = append(all, to)
		}
	}
	return all
}

// requestSettings merges a request's fields, which rank as flags, with the
// trainer's environment.
func requestSettings(r plugin.PlanRequest) (configs.Config, []string, error) {
	var flags, file configs.Config
	folder := configs.Folder(r.Folder)
	for name := range r.Dims {
		if !configs.IsDimName(name) {
			return flags, nil, fmt.Errorf("dims: %q has characters that no dim has", name)
		}
	}
	level := ""
	if r.Level != nil {
		level = strconv.Itoa(*r.Level)
	}
	for _, f := range []struct{ name, value string }{
		{"budget", r.Budget}, {"activation_budget", r.ActivationBudget}, {"max_overhead", r.MaxOverhead},
		{"strategy", r.Strategy}, {"level", level}, {"boundary", r.Boundary}, {"compat", r.Compat},
		{"loss", r.Loss}, {"optimizer", r.Optimizer}, {"dims", configs.FormatDims(r.Dims)},
	} {
		if f.value == "" {
			continue
		}
		if err := flags.Set(f.name, f.value, configs.Source{Origin: configs.OriginFlag, Name: f.name}); err != nil {
			return flags, nil, err
		}
	}
	if c := strings.TrimSpace(r.Config); c != "" {
		var err error
		if file, _, err = folder.ParseConfig(c, "config"); err != nil {
			return flags, nil, err
		}
	}
	lookup, environ := os.LookupEnv, os.Environ()
	if r.Environment != nil {
		lookup = func(name string) (string, bool) { v, ok := r.Environment[name]; return v, ok }
		environ = nil
		for name, value := range r.Environment {
			environ = append(environ, name+"="+value)
		}
	}
	env, warnings, err := folder.FromEnv(lookup)
	if err != nil {
		return flags, nil, err
	}
	cfg := configs.Merge(flags, file, env)
	cfg.SaveONNXPath = folder.Path(cfg.SaveONNXPath)
	return cfg, append(warnings, configs.StrayEnv(environ)...), nil
}

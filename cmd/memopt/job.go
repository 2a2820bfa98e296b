package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/whole"
	"memopt/memopt"
	"memopt/memopt/phases"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/planfile"
)

// job is a request to plan a model, from the command line or a host of the service.
type job struct {
	ctx     context.Context
	commit  func() error // renames the written files to their names; nil without together
	model   string
	cfg     configs.Config
	profile string        // file of measured times to plan by
	to      []destination // files to write, checked by writable
	command string        // as typed, for a page
	busy    func(doing string) (done func())
	warn    func(...string)
	phases  *phases.Record // recorder of phases, or nil
}

// together makes the files that the job writes appear together, at a commit; close removes them if
// there is none.
func (j job) together() (_ job, close func()) {
	j.ctx, j.commit, close = whole.Together(j.ctx)
	return j, close
}

// planned is the result of a job: its model, which the caller closes, and its plan.
type planned struct {
	job
	model    *step.Model
	plan     *planner.Plan
	made     *planfile.File // cache of file
	warnings []string
}

// open reads the model, after checking that no file to be written is one of its own.
func (j job) open() (*step.Model, error) {
	if j.model == "" {
		return nil, usage("MODEL is empty; give a path")
	}
	begin := time.Now()
	done := j.busy("reading " + filepath.Base(j.model))
	model, err := memopt.OpenRecorded(j.ctx, j.phases, j.model, j.cfg)
	done()
	if err != nil {
		return nil, err
	}
	slog.Info("read", "model", j.model, "nodes", len(model.Graph.Nodes), "took", time.Since(begin))
	err = spareModel(j.to, model)
	if j.profile != "" && err == nil {
		err = model.UseProfile(j.profile)
	}
	if err != nil {
		model.Close()
		return nil, err
	}
	return model, nil
}

// make opens the model and plans it.
func (j job) make() (made *planned, err error) {
	model, err := j.open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if made == nil {
			model.Close()
		}
	}()
	p := &planned{job: j, model: model}
	done := j.busy("planning")
	p.plan, err = model.Plan()
	done()
	if err != nil {
		return nil, err
	}
	slog.Info("planned", "strategy", p.plan.Strategy, "arena", p.plan.Arena, "took", p.plan.Took)
	p.tell(p.plan.Warnings)
	if folder := j.cfg.SaveONNXPath; folder != "" {
		name := filepath.Join(folder, strings.TrimSuffix(filepath.Base(model.Path), ".onnx"))
		warnings, err := model.SaveGraphs(p.plan, name+".before.onnx", name+".after.onnx")
		if err != nil {
			return nil, asInput(err)
		}
		p.tell(warnings)
	}
	return p, nil
}

// file is the plan's file, made at the first call, as this may take as long as planning.
func (p *planned) file() (_ *planfile.File, err error) {
	if p.made == nil {
		p.made, err = fileOf(p.model, p.plan)
	}
	return p.made, err
}

// fileOf is a plan's file; it contains the fingerprint of the model's graph.
func fileOf(m *step.Model, p *planner.Plan) (f *planfile.File, err error) {
	err = m.Guarded(func() error {
		f = planfile.Of(p, m.Path)
		return nil
	})
	return f, err
}

// tell prints warnings, and keeps them for the JSON.
func (p *planned) tell(warnings []string) {
	p.warn(warnings...)
	p.warnings = append(p.warnings, warnings...)
}

// write writes the job's files: the plan, the training graph, a page, a picture.
func (p *planned) write() (err error) {
	for _, to := range p.to {
		switch strings.TrimPrefix(to.name, "--") {
		case "output", "save_to":
			var file *planfile.File
			if file, err = p.file(); err == nil {
				err = asInput(file.Save(to.path))
			}
		case "emit":
			var warnings []string
			warnings, err = p.model.Emit(p.plan, to.path)
			p.tell(warnings)
			err = asInput(err)
		case "html":
			err = p.draw(writePage, to.path)
		case "svg":
			err = p.draw(writeStepSVG, to.path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// draw writes a page of the plan, or a part of one.
func (p *planned) draw(write func(context.Context, string, report.Page) error, path string) error {
	page, err := p.page()
	if err != nil {
		return err
	}
	return write(p.ctx, path, page)
}

// page is the content of the plan's page.
func (p *planned) page() (report.Page, error) {
	file, err := p.file()
	if err != nil {
		return report.Page{}, err
	}
	return report.Page{Title: filepath.Base(p.model.Path), File: file, Settings: shownSettings(p.model, p.profile), Command: p.command, Picture: p.plan.Picture()}, nil
}

// text prints the requested stages and the plan.
func (p *planned) text(w io.Writer, show []stage) error {
	for _, s := range show {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := s.print(w, p.model, p.plan); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if p.plan.Request.Outline != nil && talkative[p.cfg.Log] {
		if err := p.model.Summary(w, p.plan, p.cfg.Log); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	report.Plan(w, p.plan, filepath.Base(p.model.Path), shownSettings(p.model, p.profile))
	if p.model.Recorded() {
		report.Text(w, 2, "\n%s\n", ownBytes(allocatorOf(p.plan.Graph)))
	}
	return nil
}

// allocatorOf is the allocator that places the values of a recorded step; "" is memopt's own runtime.
func allocatorOf(g *graph.Graph) string {
	for _, r := range g.Recorded {
		if r.Name == graph.Allocator {
			return r.Value
		}
	}
	return ""
}

// ownBytes says which allocator a plan's bytes are of, if another program executes it.
func ownBytes(allocator string) string {
	if allocator != "" {
		return fmt.Sprintf("These bytes are the tensors alive at once and the recorded work space. The allocator of %s places them; it rounds sizes up and caches blocks.", allocator)
	}
	return "These bytes are of memopt's own runtime. In PyTorch and ONNX Runtime the allocator rounds sizes up and caches blocks, and kernels have other work space."
}

// json is the plan as JSON, with all warnings.
func (p *planned) json() (*planfile.File, error) {
	file, err := p.file()
	if err != nil {
		return nil, err
	}
	told := *file
	told.Warnings = append([]string{}, p.warnings...)
	return &told, nil
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/stop"
	"memopt/internal/visible"
	"memopt/plugin"
)

// answer is the result of a command: its JSON, and its text.
type answer struct {
	json any
	text func(io.Writer)
}

// print prints the JSON or the text.
func (a answer) print(c *cli.Context, asJSON bool) error {
	if asJSON {
		return printJSON(c.App.Writer, a.json)
	}
	a.text(c.App.Writer)
	return nil
}

func (front) Frontier(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	return ask(ctx, r, func(j job) (answer, error) { return j.frontier() }, "frontier", destination{"svg", r.SVG})
}

func (front) MaxBatch(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	return ask(ctx, r, func(j job) (answer, error) {
		found, err := j.maxbatch(cmp.Or(r.Dim, "batch"), false)
		return found.answer, err
	}, "maxbatch", destination{"save_to", r.SaveTo})
}

func (front) Explain(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	return ask(ctx, r, func(j job) (answer, error) {
		html := ""
		for _, to := range j.to {
			html = to.path
		}
		return explanation(j.ctx, j.model, r.Node, html, "")
	}, "explain", destination{"html", r.HTML})
}

func (front) Check(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	return ask(ctx, r, func(j job) (answer, error) {
		if r.Plan == "" {
			return answer{}, asInput(errors.New("no plan given to check the model with"))
		}
		return checked(j.ctx, configs.Folder(r.Folder).Path(r.Plan), j.model, j.cfg)
	}, "check")
}

// ask answers a host's request with the result of the command of the same name. Files appear at the
// very end, and only if the host has not given up by then.
func ask(ctx context.Context, r plugin.Question, do func(job) (answer, error), command string, files ...destination) (plugin.Answer, error) {
	return stop.When(ctx, func() (reply plugin.Answer, err error) {
		j, warnings, err := hosted(ctx, command, r.Model, r.Settings, r.Caller, files)
		if err != nil {
			return reply, err
		}
		j.warn = func(more ...string) { warnings = append(warnings, more...) }
		j, close := j.together()
		defer close()
		found, err := do(j)
		if err != nil {
			return reply, refusedRequest(err)
		}
		data, err := json.Marshal(found.json)
		if err != nil {
			return reply, err
		}
		var text strings.Builder
		found.text(&text)
		reply = plugin.Answer{JSON: visible.Text(string(data)), Text: visible.Text(text.String()), Warnings: warnings}
		return reply, asInput(j.commit())
	})
}

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/internal/visible"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/planner"
)

// policyFile is the JSON of plan --policy. Extra time is a share of the step's.
type policyFile struct {
	Format    string      `json:"format"`
	Model     string      `json:"model"`
	File      string      `json:"file"`
	From      string      `json:"from"`
	Says      string      `json:"says"`
	Regions   int         `json:"regions"`
	NotPriced []string    `json:"not_priced"`
	Once      int         `json:"once_nodes"` // that the policy runs again and no plan does
	Moved     int64       `json:"moved"`      // bytes that it has elsewhere
	CopyNS    int64       `json:"copy_ns"`    // of an offload without checkpoints: what its copies take,
	WaitNS    int64       `json:"wait_ns"`    // what the step waits for them, which is in its overhead,
	Idle      int64       `json:"idle"`       // and bytes that it copies and that stay all the same
	Policy    pointFile   `json:"policy"`
	SameBytes *planResult `json:"same_bytes"`
	SameTime  *planResult `json:"same_time"`
	Kept      pointFile   `json:"everything_kept"`
}

// planResult is a plan as a point.
type planResult struct {
	Peak     int64   `json:"peak"`
	Arena    int64   `json:"arena"`
	Total    int64   `json:"total"`
	Overhead float64 `json:"overhead"`
	Again    int     `json:"recomputed_nodes"`
}

func resultOf(p *planner.Plan) *planResult {
	if p == nil {
		return nil
	}
	return &planResult{p.Result.Peak, p.Arena, p.Memory.Total, p.Result.Overhead, p.Result.Again}
}

// priced prices the policy in a file.
func (j job) priced(c *cli.Context, path string, alone bool) (answer, error) {
	for _, name := range []string{"budget", "activation-budget", "max-overhead", "html", "svg", "emit", "show"} {
		if c.IsSet(name) {
			return answer{}, usage("--policy asks for plans of the policy's own bytes and time: leave out --%s", name)
		}
	}
	model, err := j.open()
	if err != nil {
		return answer{}, err
	}
	defer model.Close()
	done := j.busy("planning")
	found, err := model.Against(path, alone)
	done()
	if err != nil {
		return answer{}, err
	}
	for _, to := range j.to {
		if alone {
			return answer{}, usage("-o writes a plan of the policy's bytes: leave out --alone")
		}
		if found.SameBytes == nil {
			return answer{}, fmt.Errorf("no plan was found within the policy's %s, so there is none to write", report.Bytes(found.Policy.Peak))
		}
		file, err := fileOf(model, found.SameBytes)
		if err != nil {
			return answer{}, err
		}
		if err := file.Save(to.path); err != nil {
			return answer{}, asInput(err)
		}
	}
	if err := j.commit(); err != nil {
		return answer{}, asInput(err)
	}
	lost := append([]string{}, found.Lost...)
	fixed := found.Policy.Total - found.Policy.Arena
	offload := planner.Offloaded{}
	if found.Offload != nil {
		offload = *found.Offload
	}
	return answer{policyFile{"memopt.policy/1", model.Path, path, found.From, found.Says, found.Regions, lost, found.Policy.Once, found.Policy.Moved, offload.CopyNS, offload.WaitNS, offload.Idle, pointJSON(found.Policy.Point, fixed),
		resultOf(found.SameBytes), resultOf(found.SameTime), pointJSON(found.Kept.Point, fixed)}, func(w io.Writer) { printPolicy(w, model, path, found) }}, nil
}

func printPolicy(w io.Writer, m *step.Model, path string, c *step.Compared) {
	in := ""
	if m.Priced != nil {
		in = ", in the time of " + m.Priced.Name
	}
	again := fmt.Sprintf("; %d stretches run again", c.Regions)
	if c.Offload != nil {
		again = ""
	}
	visible.Fprintf(w, "%s under %s (%s: %s%s)%s\n\n", filepath.Base(m.Path), filepath.Base(path), c.From, c.Says, again, in)
	rows := [][]string{{"", "peak", "total", "extra " + c.Unit, "runs again", ""},
		{"your policy", report.Bytes(c.Policy.Peak), report.Bytes(c.Policy.Total), report.Extra(c.Policy.Overhead, 1), fmt.Sprint(c.Policy.Again), ""}}
	for _, p := range []struct {
		name, none string
		plan       *planner.Plan
	}{{"the same bytes cost", "no plan found within these bytes", c.SameBytes}, {"the same " + c.Unit + " needs", "no plan found", c.SameTime}} {
		if c.Alone {
			continue
		}
		if p.plan == nil {
			rows = append(rows, []string{p.name, "–", "–", "–", "–", p.none})
			continue
		}
		r := p.plan.Result
		rows = append(rows, []string{p.name, report.Bytes(r.Peak), report.Bytes(p.plan.Memory.Total), report.Extra(r.Overhead, 1), fmt.Sprint(r.Again), ""})
	}
	rows = append(rows, []string{"everything kept", report.Bytes(c.Kept.Peak), report.Bytes(c.Kept.Total), report.Extra(0, 1), "0", ""})
	report.Table(w, "=lrrrr1t", rows)
	report.Text(w, 2, "\n%s\n", verdict(c))
	if c.Policy.Once > 0 {
		report.Text(w, 2, "%d of the nodes that your policy runs again draw random numbers or change something; it puts the generator back before, and memopt keeps what they made.\n", c.Policy.Once)
	}
	if o := c.Offload; o != nil {
		report.Text(w, 2, "Its copies, %s there and back, take %.3g ms, of which the step waits for %.3g.\n", strings.TrimSpace(report.Bytes(o.Moved+o.Idle)), float64(o.CopyNS)/1e6, float64(o.WaitNS)/1e6)
		if o.Idle > 0 {
			report.Text(w, 2, "%s of that stay in memory all the same, so that their copies buy nothing.\n", strings.TrimSpace(report.Bytes(o.Idle)))
		}
	} else if c.Policy.Moved > 0 {
		report.Text(w, 2, "Your policy has %s elsewhere, there and back; the time of copies is not in it.\n", strings.TrimSpace(report.Bytes(c.Policy.Moved)))
	}
	for _, l := range c.Lost {
		report.Text(w, 2, "not priced: %s\n", l)
	}
}

// verdict is what the policy buys, in a sentence.
func verdict(c *step.Compared) string {
	buys := c.Kept.Peak - c.Policy.Peak
	said := fmt.Sprintf("Your policy lowers the peak by %s", strings.TrimSpace(report.Bytes(buys)))
	switch {
	case buys < 0:
		said = fmt.Sprintf("Your policy raises the peak by %s", strings.TrimSpace(report.Bytes(-buys)))
	case buys == 0:
		said = "Your policy buys nothing here: the peak is the same"
	}
	if c.SameBytes != nil {
		saved := 100 * (c.Policy.Overhead - c.SameBytes.Result.Overhead)
		if saved >= 0.05 {
			said += fmt.Sprintf("; a plan of the same bytes is %.1f points cheaper", saved)
		}
	}
	if c.SameTime != nil {
		if less := c.Policy.Peak - c.SameTime.Result.Peak; less > 0 {
			said += fmt.Sprintf("; one of the same %s needs %s less", c.Unit, strings.TrimSpace(report.Bytes(less)))
		}
	}
	return said + "."
}

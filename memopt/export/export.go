// Package export says a plan in the format of another tool: ONNX Runtime's configuration, names for policies of PyTorch and JAX,
// and the settings of other trainers.
package export

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/bytesize"
	"memopt/internal/graph"
	"memopt/memopt/exit"
	"memopt/memopt/policy"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/planfile"
)

// Plan is a plan in the format of another tool.
type Plan struct {
	Format string `json:"format"`
	To     string `json:"to"`
	// Env and Config are for ONNX Runtime: its environment variables, and the contents of the file that one of them
	// names.
	Env    map[string]string `json:"env,omitempty"`
	Config []string          `json:"config,omitempty"`
	// Save and Recompute are names of values and nodes; Ops and Modules summarize them by operator and by module.
	// They are for PyTorch and JAX. Policy is the settings of another trainer.
	Save      []string       `json:"save,omitempty"`
	Recompute []string       `json:"recompute,omitempty"`
	Ops       []OpPolicy     `json:"ops,omitempty"`
	Modules   []ModulePolicy `json:"modules,omitempty"`
	Policy    string         `json:"policy,omitempty"`
	Takes     *Takes         `json:"takes,omitempty"` // what the step takes under Policy
	Result    Takes          `json:"plan"`            // and under the plan
	Baseline  Takes          `json:"everything_kept"`
	Allocator string         `json:"-"` // of a recorded step
	Warnings  []string       `json:"warnings"`
}

// Takes is what a step takes: bytes at the peak, and extra cost as a share of the plain step's.
type Takes struct {
	Peak     int64   `json:"peak"`
	Overhead float64 `json:"overhead"`
}

// OpPolicy is the policy of selective checkpointing for an operator.
type OpPolicy struct {
	Op     string `json:"op"`
	Policy string `json:"policy"` // MUST_SAVE, PREFER_RECOMPUTE or MUST_RECOMPUTE
	Again  int    `json:"again"`
	Of     int    `json:"of"`
}

// ModulePolicy says how much of a module is recomputed; Wrap, that a checkpoint can enclose the whole module.
type ModulePolicy struct {
	Module string `json:"module"`
	Wrap   bool   `json:"wrap"`
	Again  int    `json:"again"`
	Of     int    `json:"of"`
}

// exports lists the tools that plans are exported to.
var exports = []struct {
	name string
	of   func(*planfile.File, *Plan)
}{
	{"ort", toORT},
	{"pytorch", toPyTorch},
	{"jax", toJAX},
}

// Tools lists the names that --to takes.
func Tools() (names []string) {
	for _, e := range exports {
		names = append(names, e.name)
	}
	return append(names, policy.Writes()...)
}

// Of converts the plan of a file for a tool. Policies of other trainers are chosen on the plan's model, which replay opens.
func Of(f *planfile.File, to string, replay func() (*planner.Plan, error)) (Plan, error) {
	out := Plan{Format: "memopt.export/1", To: to, Warnings: []string{}, Allocator: f.Model.Recorded[graph.Allocator],
		Result: Takes{f.Result.Peak, f.Result.Overhead}, Baseline: Takes{f.Baseline.Peak, 0}}
	for _, e := range exports {
		if e.name == to {
			e.of(f, &out)
			return out, nil
		}
	}
	if slices.Contains(policy.Writes(), to) {
		return out, toPolicy(replay, &out)
	}
	hint := "there are " + strings.Join(Tools(), ", ")
	if near, ok := configs.Nearest(to, Tools()); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return out, exit.Input(fmt.Errorf("plans are not exported to %q; %s", to, hint))
}

// toORT writes ONNX Runtime's configuration. That can only request the first n occurrences of each cluster.
func toORT(f *planfile.File, out *Plan) {
	out.Config = []string{}
	again := map[string]bool{}
	for _, name := range f.RunAgain() {
		again[name] = true
	}
	covered := 0
	takes := map[string]string{} // by ID
	rows := slices.Clone(f.Clusters)
	slices.SortStableFunc(rows, func(a, b planner.Cluster) int { return cmp.Compare(b.Applied, a.Applied) })
	for _, c := range rows {
		if c.Applied == 0 {
			continue
		}
		covered += c.Applied
		first := 0
		for first < len(c.Nodes) && again[c.Nodes[first]] {
			first++
		}
		count := fmt.Sprint(c.Applied)
		switch {
		case c.Applied >= c.Freq:
			count = "-1"
		case first < c.Applied:
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: the plan takes %d of %d places, but not the first %d, which is all that ONNX Runtime can be told", c.Key, c.Applied, c.Freq, c.Applied))
		}
		for part := range strings.SplitSeq(c.Key, ",") {
			id, _, _ := strings.Cut(part, ":")
			entry := strings.TrimSuffix(part, ":-1") + ":" + count
			if other, ok := takes[id]; ok && other != entry {
				out.Warnings = append(out.Warnings, fmt.Sprintf("%s is left out beside %s: ONNX Runtime heeds one entry of a cluster", entry, other))
				continue
			}
			takes[id] = entry
			out.Config = append(out.Config, entry)
		}
		if c.Beyond {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: ONNX Runtime has no such plan", c.Key))
		}
	}
	if n := len(again); n > 0 && covered == 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the plan runs %d nodes again, but no cluster as a whole; this configuration turns nothing on", n))
	}
	slices.Sort(out.Config)
	out.Config = slices.Compact(out.Config)
	out.Env = map[string]string{"ORTMODULE_MEMORY_OPT_LEVEL": "0", "ORTMODULE_MEMORY_OPT_CONFIG": ortConfigName}
}

// ortConfigName stands for the configuration file's path until it is written.
const ortConfigName = "mem_opt.json"

// toPyTorch lists names for a policy by node, and summaries for policies by operator and for checkpoints around
// modules.
func toPyTorch(f *planfile.File, out *Plan) {
	out.Save, out.Recompute = f.Saved, f.RunAgain()
	again := map[string]bool{}
	for _, name := range out.Recompute {
		again[name] = true
	}
	launched := map[int]bool{} // views are not launched, and need no policy
	for _, s := range f.Steps {
		launched[int(s.Node)] = true
	}
	ops, modules := map[string]*OpPolicy{}, map[string]*ModulePolicy{}
	for i, line := range f.Program {
		if i >= f.Model.Forward {
			break
		}
		if !launched[i] {
			continue
		}
		n := graph.ParseLine(line)
		op, module := ops[n.Op], modules[n.Module]
		if op == nil {
			op = &OpPolicy{Op: n.Op}
			ops[n.Op] = op
		}
		op.Of++
		if module == nil && n.Module != "" {
			module = &ModulePolicy{Module: n.Module}
			modules[n.Module] = module
		}
		if module != nil {
			module.Of++
		}
		if again[n.Name] {
			op.Again++
			if module != nil {
				module.Again++
			}
		}
	}
	named, known := len(modules) > 0, false
	for _, op := range ops {
		known = known || strings.HasPrefix(op.Op, "aten.")
		switch {
		case op.Again == 0:
			op.Policy = "MUST_SAVE"
		case op.Again == op.Of:
			op.Policy = "MUST_RECOMPUTE"
		default:
			op.Policy = "PREFER_RECOMPUTE"
		}
		out.Ops = append(out.Ops, *op)
	}
	for _, m := range modules {
		if m.Again > 0 {
			m.Wrap = m.Again == m.Of
			out.Modules = append(out.Modules, *m)
		}
	}
	if !known {
		out.Warnings = append(out.Warnings, "operators are named as in ONNX, which is nothing to a policy of selective checkpointing; a plan of a recorded joint graph has PyTorch's own names")
	}
	if !named {
		out.Warnings = append(out.Warnings, "no node says which module it is of, so none can be checkpointed by name: PyTorch writes that into node names with torch.onnx.export(…, dynamo=False)")
	}
	slices.SortFunc(out.Ops, func(a, b OpPolicy) int { return strings.Compare(a.Op, b.Op) })
	slices.SortFunc(out.Modules, func(a, b ModulePolicy) int { return strings.Compare(a.Module, b.Module) })
}

// toJAX lists the arguments of save_only_these_names.
func toJAX(f *planfile.File, out *Plan) {
	out.Save = f.Saved
	if len(out.Save) == 0 {
		out.Warnings = append(out.Warnings, "the plan keeps nothing from the forward pass, so the list is empty")
	}
}

// toPolicy writes the settings of another trainer that come nearest to a plan: within its peak at the least cost, as the
// plan's own step has it.
func toPolicy(replay func() (*planner.Plan, error), out *Plan) error {
	p, err := replay()
	if err != nil {
		return fmt.Errorf("settings of %s are priced on the plan's step: %w", out.To, err)
	}
	r := p.Request
	r.Budget, r.ActivationBudget, r.MaxOverhead, r.Level, r.Clusters, r.Again = planner.Size{}, planner.Size{}, 0, 0, nil, nil
	w, err := policy.Write(out.To, step.PolicyNodes(p.Graph), p.Result.Peak, func(regions []planner.Region) (planner.Point, error) {
		c, err := planner.UnderRegions(p.Graph, r, regions)
		return c.Point, err
	})
	if err != nil {
		return exit.Input(err)
	}
	out.Policy, out.Takes = w.Text, &Takes{w.Peak, w.Overhead}
	if w.Peak > p.Result.Peak {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s cannot say so low a peak: these settings need %s more than the plan", out.To, bytesize.Exact(w.Peak-p.Result.Peak)))
	}
	if more := w.Overhead - p.Result.Overhead; more > 0.0005 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s cannot say what the plan does: these settings cost %.1f %% of the step, the plan %.1f %%", out.To, 100*w.Overhead, 100*p.Result.Overhead))
	}
	return nil
}

package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Torchtitan checkpoints each block whole, every few blocks, or all but the results of costly operators; its graph trainer has
// selectors of a module's pattern and an operator that are kept.
func ofTorchtitan(s *settings) bool {
	return s.has("activation_checkpoint.mode", "compile.memory_policy", "memory_policy", "selective_ac_option", "compile.full_recompute_save_ops", "full_recompute_save_ops")
}

func readTorchtitan(s *settings, p *Policy) error {
	for _, prefix := range []string{"compile.", ""} {
		if s.has(prefix+"memory_policy", prefix+"full_recompute_save_ops") {
			return readMemoryPolicy(s, p, prefix)
		}
	}
	key := "activation_checkpoint."
	mode, err := s.choice(key+"mode", "selective", "selective", "full", "none", "memory_budget")
	if err != nil {
		return err
	}
	forced := []string{"moe.router.gate"}
	for _, k := range []string{"per_op_sac_force_recompute_mm_shapes_by_fqns", "force_recompute_mm_shapes_by_fqns"} {
		if s.has(key + k) {
			forced = s.list(key + k)
			p.call(k, forced, func(name string, n *Node) bool { return strings.Contains(n.Module, name) })
		}
	}
	early, err := s.on(key + "early_stop")
	if err != nil {
		return err
	}
	p.Whole = !early
	switch option := fmt.Sprint(s.values[key+"selective_ac_option"]); {
	case mode == "memory_budget":
		return s.wrong(key+"mode", "the compiler chooses what is dropped by a share of its own: give memopt plan that share as --budget instead")
	case mode == "none":
		p.Says = "checkpointing is off"
	case mode == "full":
		p.Layers, p.Says = everyLayer, "full: each block"
	case s.has(key+"selective_ac_option") && option != "op":
		n, err := s.number(key+"selective_ac_option", 0, 1)
		if err != nil {
			return err
		}
		everyTitan(p, n)
	default:
		selectiveTitan(p, forced)
	}
	return nil
}

// everyTitan is every few blocks, the last of the few.
func everyTitan(p *Policy, n int) {
	p.Layers, p.Says = func(i int, _ string) bool { return n == 0 || (i+1)%n == 0 }, fmt.Sprintf("selective: every block of %d", n)
}

// torchtitan's list of operators whose results are kept, beside products, convolutions and attention.
var titanKeeps = []string{"aten.topk.default", "aten.max.default", "aten.upsample_bilinear2d.default", "_c10d_functional.reduce_scatter_tensor.default",
	"_c10d_functional.all_to_all_single.default"}

// plainProducts are the operators of which it recomputes every second one.
var plainProducts = []string{"aten.mm.default", "aten.linear.default"}

func selectiveTitan(p *Policy, forced []string) {
	p.Layers, p.Says = everyLayer, "selective: costly operators kept, but every second product"
	p.Keep = func() keeps {
		count, again := 0, map[string]bool{}
		return func(n *Node) bool {
			if slices.Contains(plainProducts, n.Op) {
				for _, f := range forced {
					if strings.Contains(n.Module, f) && n.Weight != "" {
						again[n.Weight] = true
					}
				}
				if again[n.Weight] {
					return false
				}
				count++
				return count%2 == 1
			}
			return n.Heavy || slices.Contains(titanKeeps, n.Op)
		}
	}
}

func readMemoryPolicy(s *settings, p *Policy, prefix string) error {
	mode, err := s.choice(prefix+"memory_policy", "full", "default", "full", "eager", "sac_and_offload", "none")
	if err != nil {
		return err
	}
	p.Layers, p.Whole = everyLayer, false
	switch mode {
	case "none":
		p.Layers, p.Says = nil, "checkpointing is off"
	case "eager":
		selectiveTitan(p, nil)
	case "sac_and_offload":
		p.Lost = append(p.Lost, "what is kept is moved to the host: it is priced as kept on the device")
		fallthrough
	case "default":
		p.Says = "costly operators kept"
		p.Keep = func() keeps { return func(n *Node) bool { return n.Heavy || slices.Contains(titanKeeps, n.Op) } }
	case "full":
		picks, err := selectors(s, prefix+"full_recompute_save_ops")
		if err != nil {
			return err
		}
		p.Says = fmt.Sprintf("full, %d selectors kept", len(picks))
		p.Keep = keepSelected(picks)
		for _, x := range picks {
			p.call("full_recompute_save_ops", []string{x.module + "::" + x.op}, func(_ string, n *Node) bool { return x.takes(n) })
		}
	}
	return nil
}

// selector is a pattern of modules and an operator.
type selector struct{ module, op string }

// selectors reads FQN::OP | FQN::OP.
func selectors(s *settings, key string) (all []selector, err error) {
	text := ""
	switch v := s.values[key].(type) {
	case nil:
	case []any:
		for i, x := range v {
			if i > 0 && !strings.HasSuffix(text, "|") && fmt.Sprint(x) != "|" {
				text += "|"
			}
			text += fmt.Sprint(x)
		}
	default:
		text = fmt.Sprint(v)
	}
	for one := range strings.SplitSeq(text, "|") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		module, op, ok := strings.Cut(one, "::")
		if !ok || module == "" || op == "" {
			return nil, s.wrong(key, "%q is no selector; one is MODULE::OP, as in layers.*.attention.wq::aten.mm.default", one)
		}
		all = append(all, selector{strings.TrimSpace(module), strings.TrimPrefix(strings.TrimSpace(op), "torch.ops.")})
	}
	return all, nil
}

// takes reports whether a node is the selector's: a star is one name, and the model around the blocks may be left out.
func (x selector) takes(n *Node) bool {
	if x.op != n.Op {
		return false
	}
	names, want := strings.Split(n.Module, "."), strings.Split(x.module, ".")
	if len(names) < len(want) {
		return false
	}
	for i, part := range names[len(names)-len(want):] {
		if ok, err := path.Match(want[i], part); err != nil || !ok {
			return false
		}
	}
	return true
}

func sayTorchtitan(w *wanted) ([]said, error) {
	full := &Policy{Layers: everyLayer, Whole: true}
	selective := &Policy{Whole: true}
	selectiveTitan(selective, nil)
	all := []said{{&Policy{}, "[activation_checkpoint]\nmode = \"none\"\n"},
		{full, "[activation_checkpoint]\nmode = \"full\"\n"},
		{selective, "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n"}}
	picks := w.selectors()
	keeping := func(on []bool) *Policy { return &Policy{Layers: everyLayer, Keep: keepSelected(chosen(picks, on))} }
	on, err := w.fill(len(picks), keeping)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, x := range chosen(picks, on) {
		texts = append(texts, x.module+"::"+x.op)
	}
	return append(all, said{keeping(on), "[compile]\nmemory_policy = \"full\"\nfull_recompute_save_ops = \"" + strings.Join(texts, " | ") + "\"\n"}), nil
}

// keepSelected keeps what selectors take.
func keepSelected(picks []selector) func() keeps {
	return func() keeps {
		return func(n *Node) bool { return slices.ContainsFunc(picks, func(x selector) bool { return x.takes(n) }) }
	}
}

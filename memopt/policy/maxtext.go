package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxText names tensors of a layer, and a policy is those that are kept. The modules that make them are spelled as in
// Transformers and in Meta's code.
var maxtextTensors = map[string][]string{
	"query_proj": {"q_proj", "wq", "query", "to_q", "q"},
	"key_proj":   {"k_proj", "wk", "key", "to_k", "k"},
	"value_proj": {"v_proj", "wv", "value", "to_v", "v"},
	"qkv_proj":   {"qkv_proj", "wqkv", "c_attn", "query_key_value", "qkv"},
	"out_proj":   {"o_proj", "wo", "out_proj", "to_out", "dense", "o"},
	"mlpwi_0":    {"gate_proj", "w1", "wi_0"},
	"mlpwi_1":    {"up_proj", "w3", "wi_1"},
	"mlpwi":      {"fc1", "c_fc", "wi", "gate_up_proj", "dense_h_to_4h", "intermediate"},
	"mlpwo":      {"down_proj", "w2", "fc2", "wo_mlp", "dense_4h_to_h"},
	"mla_q":      {"q_b_proj"},
	"mla_kv":     {"kv_b_proj"},
	"context":    nil, // what attention makes
}

var (
	maxtextQKV = []string{"query_proj", "key_proj", "value_proj", "qkv_proj"}
	maxtextDot = append(slices.Clone(maxtextQKV), "out_proj")
	maxtextAll = append(slices.Clone(maxtextDot), "mlpwi_0", "mlpwi_1", "mlpwi", "mlpwo")
)

// maxtextPolicies are what each policy keeps; those with offload in their name move it.
var maxtextPolicies = map[string][]string{
	"full":                             {},
	"minimal":                          maxtextAll,
	"minimal_offloaded":                maxtextAll,
	"minimal_flash":                    append(slices.Clone(maxtextAll), "context"),
	"minimal_with_context":             append(slices.Clone(maxtextAll), "context"),
	"save_dot_with_context_except_mlp": append(slices.Clone(maxtextDot), "context"),
	"save_dot_except_mlpwi":            append(slices.Clone(maxtextDot), "mlpwo"),
	"save_dot_except_mlp":              maxtextDot,
	"save_qkv_proj":                    maxtextQKV,
	"qkv_proj_offloaded":               {"query_proj", "key_proj", "value_proj"},
	"save_out_proj":                    {"out_proj"},
	"custom":                           {},
}

func ofMaxText(s *settings) bool { return s.has("remat_policy") }

func readMaxText(s *settings, p *Policy) error {
	names := slices.Sorted(maps.Keys(maxtextPolicies))
	name, err := s.choice("remat_policy", "full", append(names, "none")...)
	if err != nil {
		return err
	}
	if name == "none" {
		p.Says = "rematerialization is off"
		return nil
	}
	kept := slices.Clone(maxtextPolicies[name])
	if strings.Contains(name, "offload") {
		p.Lost = append(p.Lost, "what is kept is moved to the host: it is priced as kept on the device")
	}
	if name == "custom" {
		moved, named := []string{}, len(kept)
		for _, t := range slices.Sorted(maps.Keys(maxtextTensors)) {
			where, err := s.choice(t, "remat", "remat", "device", "offload")
			if err != nil {
				return err
			}
			if where != "remat" {
				kept = append(kept, t)
			}
			if where == "offload" {
				moved = append(moved, t)
			}
		}
		p.call("remat_policy custom:", kept[named:], isTensor)
		if len(moved) > 0 {
			p.Lost = append(p.Lost, strings.Join(moved, ", ")+" is moved to the host: it is priced as kept on the device")
		}
	}
	p.Layers, p.Whole, p.Keep = everyLayer, false, keepTensors(kept)
	p.Says = name
	if name == "custom" {
		p.Says = fmt.Sprintf("custom: %s kept", strings.Join(kept, ", "))
	}
	return nil
}

// keepTensors keeps the tensors of a list.
func keepTensors(kept []string) func() keeps {
	return func() keeps {
		return func(n *Node) bool {
			return slices.ContainsFunc(kept, func(t string) bool { return isTensor(t, n) })
		}
	}
}

// isTensor reports whether a node makes what MaxText calls so.
func isTensor(name string, n *Node) bool {
	if name == "context" {
		return n.Attention
	}
	last := n.Module[strings.LastIndexByte(n.Module, '.')+1:]
	return n.Product && slices.Contains(maxtextTensors[name], last)
}

func sayMaxText(w *wanted) (all []said, err error) {
	for _, name := range slices.Sorted(maps.Keys(maxtextPolicies)) {
		if !strings.Contains(name, "offload") && name != "custom" && name != "minimal_flash" {
			all = append(all, said{&Policy{Layers: everyLayer, Keep: keepTensors(maxtextPolicies[name])}, fmt.Sprintf("remat_policy: '%s'\n", name)})
		}
	}
	tensors := slices.Sorted(maps.Keys(maxtextTensors))
	keeping := func(on []bool) *Policy { return &Policy{Layers: everyLayer, Keep: keepTensors(chosen(tensors, on))} }
	on, err := w.fill(len(tensors), keeping)
	if err != nil {
		return nil, err
	}
	lines := "remat_policy: 'custom'\ndecoder_layer_input: 'device'\n"
	for i, t := range tensors {
		where := "remat"
		if on[i] {
			where = "device"
		}
		lines += fmt.Sprintf("%s: '%s'\n", t, where)
	}
	return append(all, said{keeping(on), lines}), nil
}

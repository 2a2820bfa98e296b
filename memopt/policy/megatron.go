package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Megatron checkpoints layers whole, some in a row, or parts of each layer.
var megatronKeys = []string{"recompute_granularity", "recompute_modules", "recompute_activations", "recompute_method"}

// megatronPrefix is where the keys stand in a file: at the top, or under the model.
func megatronPrefix(s *settings) (prefix string, ok bool) {
	for _, prefix := range []string{"", "model.", "model_parallel."} {
		for _, k := range megatronKeys {
			if s.has(prefix + k) {
				return prefix, true
			}
		}
	}
	return "", false
}

func ofMegatron(s *settings) bool {
	_, ok := megatronPrefix(s)
	return ok
}

func readMegatron(s *settings, p *Policy) error {
	at, _ := megatronPrefix(s)
	short, err := s.on(at + "recompute_activations")
	if err != nil {
		return err
	}
	otherwise := "none"
	if short || s.has(at+"recompute_modules") {
		otherwise = "selective"
	}
	how, err := s.choice(at+"recompute_granularity", otherwise, "full", "selective", "none")
	if err != nil {
		return err
	}
	switch how {
	case "none":
		p.Says = "recomputation is off"
	case "full":
		method, err := s.choice(at+"recompute_method", "uniform", "uniform", "block")
		if err != nil {
			return err
		}
		n, err := s.number(at+"recompute_num_layers", 1, 1)
		if err != nil {
			return err
		}
		p.Reentrant = true
		p.Says = fmt.Sprintf("full, %s, %d layers", method, n)
		if method == "block" {
			p.Layers = func(i int, _ string) bool { return i < n }
		} else {
			p.Layers, p.Group = everyLayer, n
		}
	case "selective":
		names := s.list(at + "recompute_modules")
		if len(names) == 0 {
			names = []string{"core_attn"}
		}
		for _, name := range names {
			part, ok := megatronPart(name)
			if !ok {
				return s.wrong(at+"recompute_modules", "there is no %q; there are %s", name, strings.Join(megatronNames(), ", "))
			}
			p.Parts = append(p.Parts, part)
		}
		p.Reentrant = true
		p.Says = "selective: " + strings.Join(names, ", ")
	}
	return nil
}

// megatronParts are the parts that --recompute-modules names, as models of Megatron and of Transformers spell their modules.
var megatronParts = []part{
	{"core_attn", false, func(l *layer, n *Node, within string) bool {
		return component(within, "core_attention", "core_attn") || n.Attention || isScores(l, n)
	}},
	{"mlp", false, func(_ *layer, _ *Node, within string) bool {
		return component(within, "mlp", "feed_forward", "ffn", "ff", "feedforward")
	}},
	{"layernorm", true, func(_ *layer, _ *Node, within string) bool {
		return component(within, "input_layernorm", "pre_mlp_layernorm", "post_attention_layernorm", "attention_norm", "ffn_norm", "ln_1", "ln_2", "layernorm_before", "layernorm_after")
	}},
	{"moe_act", true, func(_ *layer, _ *Node, within string) bool {
		return component(within, "experts") && component(within, "act_fn", "activation_func", "act")
	}},
	{"mla_up_proj", true, func(_ *layer, _ *Node, within string) bool {
		return component(within, "q_b_proj", "kv_b_proj", "linear_q_up_proj", "linear_kv_up_proj")
	}},
	{"moe", false, func(_ *layer, _ *Node, within string) bool {
		return component(within, "moe", "block_sparse_moe") || component(within, "mlp") && component(within, "experts", "gate", "router")
	}},
	{"shared_experts", false, func(_ *layer, _ *Node, within string) bool {
		return component(within, "shared_experts", "shared_expert")
	}},
}

// component reports whether one of the names is a part of a module's.
func component(module string, names ...string) bool {
	for part := range strings.SplitSeq(module, ".") {
		if slices.Contains(names, part) {
			return true
		}
	}
	return false
}

// isScores reports whether a node is of attention that is no single kernel: it stands between the first and the last product
// that an attention module does itself.
func isScores(l *layer, n *Node) bool {
	if i := strings.LastIndexByte(n.Module, '.'); !strings.Contains(strings.ToLower(n.Module[i+1:]), "att") {
		return false
	}
	first, last, at := -1, -1, -1
	for i, x := range l.nodes {
		if x == n {
			at = i
		}
		if x.Module == n.Module && x.Product {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first >= 0 && first < last && first <= at && at <= last
}

func megatronPart(name string) (part, bool) {
	i := slices.IndexFunc(megatronParts, func(p part) bool { return p.name == name })
	if i < 0 {
		return part{}, false
	}
	return megatronParts[i], true
}

func megatronNames() (names []string) {
	for _, p := range megatronParts {
		names = append(names, p.name)
	}
	return names
}

func sayMegatron(w *wanted) ([]said, error) {
	all := []said{{&Policy{}, "# no --recompute flags\n"}}
	for n := 1; n <= w.layers; n++ {
		all = append(all, said{&Policy{Layers: func(i int, _ string) bool { return i < n }, Reentrant: true},
			fmt.Sprintf("--recompute-granularity full --recompute-method block --recompute-num-layers %d\n", n)})
	}
	for set := 1; set < 1<<len(megatronParts); set++ {
		p, names := &Policy{Reentrant: true}, []string{}
		for i, part := range megatronParts {
			if set&(1<<i) != 0 {
				p.Parts, names = append(p.Parts, part), append(names, part.name)
			}
		}
		if component(strings.Join(names, "."), "moe") && component(strings.Join(names, "."), "mlp", "moe_act", "shared_experts") {
			continue // one is within the other
		}
		all = append(all, said{p, "--recompute-granularity selective --recompute-modules " + strings.Join(names, " ") + "\n"})
	}
	return all, nil
}

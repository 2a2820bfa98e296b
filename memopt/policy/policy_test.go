package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/internal/golden"
)

// TestRead reads files: testdata/read.txt has the name of each, its text, and what it says of a step of three layers: what runs
// again, with what is kept in brackets; or the error.
func TestRead(t *testing.T) {
	golden.Cases(t, "testdata/read.txt", func(input string) string {
		name, text, _ := strings.Cut(input, "\n")
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		said := func(err error) string { return strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "") + "\n" }
		p, err := Read(path)
		if err != nil {
			return said(err)
		}
		out := p.From + ": " + p.Says + "\n"
		for _, l := range p.Lost {
			out += "not priced: " + l + "\n"
		}
		nodes := threeLayers()
		regions, err := p.Regions(nodes)
		if err != nil {
			return out + said(err)
		}
		for _, r := range regions {
			var names []string
			for i, id := range r.Nodes {
				name := nodes[id].Name
				if r.Keep != nil && r.Keep[i] {
					name = "[" + name + "]"
				}
				names = append(names, name)
			}
			for _, how := range []struct {
				is   bool
				text string
			}{{r.Whole, "to its end"}, {r.Holds, "held"}, {r.Drops, "drops its results"}, {r.Away, "inputs elsewhere"}} {
				if how.is {
					names = append(names, "("+how.text+")")
				}
			}
			out += strings.Join(names, " ") + "\n"
		}
		if o := p.Offload; o != nil {
			out += fmt.Sprintf("moves %v to the %s, from %d B on, waits %v, %d B beside\n", o.Values, o.Place, o.Least, o.Waits, o.Beside)
		}
		return out
	})
}

// threeLayers are the forward nodes of a model of three layers.
func threeLayers() (all []*Node) {
	add := func(name, op, module, weight string) {
		n := &Node{ID: int32(len(all)), Name: name, Op: op, Module: module, Outputs: []string{name}, Weight: weight}
		n.Product, n.Attention = strings.HasPrefix(op, "aten.mm"), strings.Contains(op, "attention")
		n.Heavy = n.Product || n.Attention
		all = append(all, n)
	}
	add("embed", "aten.embedding.default", "model.embed", "[8]")
	for _, l := range []string{"0", "1", "2"} {
		in := "model.layers." + l
		add("norm"+l, "aten.mul.Tensor", in+".input_layernorm", "")
		add("q"+l, "aten.mm.default", in+".self_attn.q_proj", "[4, 4]")
		add("k"+l, "aten.mm.default", in+".self_attn.k_proj", "[4, 2]")
		add("att"+l, "aten._flash_attention.default", in+".self_attn", "")
		add("o"+l, "aten.mm.default", in+".self_attn.o_proj", "[4, 4]")
		add("up"+l, "aten.mm.default", in+".mlp.up_proj", "[4, 8]")
		add("act"+l, "aten.silu.default", in+".mlp.act_fn", "")
		add("add"+l, "aten.add.Tensor", in, "")
	}
	add("head", "aten.mm.default", "lm_head", "[4, 8]")
	return all
}

// TestSelectors: a star is one name, and the model around the blocks may be left out.
func TestSelectors(t *testing.T) {
	n := &Node{Op: "aten.mm.default", Module: "model.layers.3.self_attn.q_proj"}
	for pattern, want := range map[string]bool{
		"model.layers.*.self_attn.q_proj": true, "layers.*.self_attn.q_proj": true, "layers.3.*.q_proj": true, "q_proj": true,
		"layers.*.q_proj": false, "layers.4.self_attn.q_proj": false, "a.model.layers.3.self_attn.q_proj": false,
	} {
		if got := (selector{pattern, n.Op}).takes(n); got != want {
			t.Errorf("%s takes it: %v", pattern, got)
		}
	}
	if (selector{"q_proj", "aten.add.Tensor"}).takes(n) {
		t.Error("it is of another operator")
	}
}

// TestUnmet: names that are of no node are told, of each kind of settings that has names.
func TestUnmet(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"marks.py", "CHECKPOINT = [\"model.layers.*\", \"model.leyers.*\"]\nSAVE = [\"model.layers.*.mlp\", \"model.layers.*.mpl\"]\n", "CHECKPOINT model.leyers.* names nothing in this step; SAVE model.layers.*.mpl names nothing in this step"},
		{"titan.toml", "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\nper_op_sac_force_recompute_mm_shapes_by_fqns = [\"k_proj\", \"wk\"]\n", "per_op_sac_force_recompute_mm_shapes_by_fqns wk names nothing in this step"},
		{"graph.toml", "[compile]\nmemory_policy = \"full\"\nfull_recompute_save_ops = \"q_proj::aten.mm.default | q_proj::aten.bmm.default\"\n", "full_recompute_save_ops q_proj::aten.bmm.default names nothing in this step"},
		{"maxtext.yaml", "remat_policy: custom\nquery_proj: device\nmla_kv: device\n", "remat_policy custom: mla_kv names nothing in this step"},
		{"jax.py", "policy = jax.checkpoint_policies.save_only_these_names(\n    \"q0\",\n    \"q9\",\n)\n", "save_only_these_names q9 names nothing in this step"},
		{"titan.toml", "[activation_checkpoint]\nmode = \"selective\"\n", ""},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.Unmet(threeLayers()), "; "); got != c.want {
			t.Errorf("%s tells %q, not %q", c.file, got, c.want)
		}
	}
}

// TestWrites: what is written is read as itself.
func TestWrites(t *testing.T) {
	if got := Writes(); !slices.Contains(got, "megatron") || slices.Contains(got, "jax") {
		t.Errorf("written are %q", got)
	}
	w := &wanted{nodes: threeLayers(), layers: 3, layerNames: []string{"model.layers.0", "model.layers.1", "model.layers.2"}, inLayers: layers(threeLayers())}
	for _, f := range formats {
		if f.name == "axolotl" || f.name == "torchtitan" || f.name == "maxtext" || f.name == "torch_remat" || f.says == nil {
			continue // the first is read as Transformers' without a base_model; the others search, and cmd/memopt tests them on a step
		}
		all, err := f.says(w)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range all {
			path := filepath.Join(t.TempDir(), "said")
			if err := os.WriteFile(path, []byte(s.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := Read(path)
			if f.name == "megatron" && i == 0 {
				continue // no flags at all
			}
			if err != nil || p.From != f.name {
				t.Fatalf("%s: %v, %v", s.text, p, err)
			}
			got, err := p.Regions(w.nodes)
			want, wrong := s.policy.Regions(w.nodes)
			if (err == nil) != (wrong == nil) || len(got) != len(want) {
				t.Errorf("%s: %d regions, %v, written for %d, %v", s.text, len(got), err, len(want), wrong)
				continue
			}
			for k := range got {
				if !slices.Equal(got[k].Nodes, want[k].Nodes) || got[k].Whole != want[k].Whole || got[k].Drops != want[k].Drops {
					t.Errorf("%s: region %d is %v, written for %v", s.text, k, got[k], want[k])
				}
			}
		}
	}
}

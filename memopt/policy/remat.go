package policy

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// torch_remat's marks stand in the code of a model, so they are told as two lists of modules: those with a checkpoint around
// them, and those within that are save regions.
var rematLists = regexp.MustCompile(`(?ms)^(CHECKPOINT|SAVE) = \[(.*?)\]`)

func rematMarks(s *settings) (checkpoint, save []string, ok bool) {
	for _, m := range rematLists.FindAllStringSubmatch(s.text, -1) {
		ok = true
		names := strings.FieldsFunc(m[2], func(c rune) bool { return strings.ContainsRune(", \n\t\"'", c) })
		if m[1] == "SAVE" {
			save = names
		} else {
			checkpoint = names
		}
	}
	return checkpoint, save, ok
}

func ofRemat(s *settings) bool {
	_, _, ok := rematMarks(s)
	return ok
}

func readRemat(s *settings, p *Policy) error {
	checkpoint, save, _ := rematMarks(s)
	if len(checkpoint) == 0 {
		return fmt.Errorf("%s: CHECKPOINT is empty, so nothing is checkpointed", s.path)
	}
	*p = *rematPolicy(save)
	p.Layers = func(_ int, module string) bool {
		return slices.ContainsFunc(checkpoint, func(m string) bool { return isWithin(module, m) })
	}
	within := func(pattern string, n *Node) bool { return isWithin(n.Module, pattern) }
	p.call("CHECKPOINT", checkpoint, within)
	p.call("SAVE", save, within)
	p.From, p.Says = "torch_remat", fmt.Sprintf("CHECKPOINT %s; SAVE %s", strings.Join(checkpoint, ", "), cmp.Or(strings.Join(save, ", "), "nothing"))
	return nil
}

// rematPolicy has a checkpoint around each layer, without its save regions.
func rematPolicy(save []string) *Policy {
	return &Policy{Layers: everyLayer, Whole: true, Apart: func(n *Node) bool {
		return slices.ContainsFunc(save, func(m string) bool { return isWithin(n.Module, m) })
	}}
}

// isWithin reports whether a module is another, or a part of it; a star in that one's name is one name.
func isWithin(module, pattern string) bool {
	names, want := strings.Split(module, "."), strings.Split(pattern, ".")
	if len(names) < len(want) {
		return false
	}
	for i, part := range want {
		if part != "*" && part != names[i] {
			return false
		}
	}
	return true
}

func sayRemat(w *wanted) ([]said, error) {
	modules := w.modules()
	saving := func(on []bool) *Policy { return rematPolicy(chosen(modules, on)) }
	on, err := w.fill(len(modules), saving)
	if err != nil {
		return nil, err
	}
	return []said{{saving(on), "# Put remat.checkpoint(region_name=NAME)(block) around the first, and remat.region(module, NAME, recompute=False) around the second.\n" +
		"CHECKPOINT = [" + quotedList(starred(w.layerNames)) + "]\nSAVE = [" + quotedList(chosen(modules, on)) + "]\n"}}, nil
}

// starred are the names of layers with a star for the number.
func starred(layers []string) (all []string) {
	for _, l := range layers {
		prefix, _, _ := numbered(l)
		if name := prefix + ".*"; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
}

// A list of names for JAX keeps those, of the whole forward pass.
var jaxNames = regexp.MustCompile(`(?s)save_only_these_names\((.*?)\)`)

func ofJAX(s *settings) bool { return jaxNames.MatchString(uncommented(s.text)) }

func uncommented(text string) string {
	return regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(text, "")
}

func readJAX(s *settings, p *Policy) error {
	list := jaxNames.FindStringSubmatch(uncommented(s.text))[1]
	names := strings.FieldsFunc(list, func(c rune) bool { return strings.ContainsRune(", \n\t\"'", c) })
	p.All, p.Says = true, fmt.Sprintf("%d names kept", len(names))
	p.call("save_only_these_names", names, func(name string, n *Node) bool { return slices.Contains(n.Outputs, name) })
	p.Keep = func() keeps {
		return func(n *Node) bool {
			return slices.ContainsFunc(n.Outputs, func(o string) bool { return slices.Contains(names, o) })
		}
	}
	return nil
}

// What memopt exports names each node that runs again.
func ofMemopt(s *settings) bool { return s.values["format"] == "memopt.export/1" }

func readMemopt(s *settings, p *Policy) error {
	if !s.has("recompute", "save") {
		return fmt.Errorf("%s: it is exported to %v, which names no nodes: export the plan with --to pytorch", s.path, s.values["to"])
	}
	if all, ok := s.values["recompute"].([]any); ok {
		for _, name := range all {
			p.Again = append(p.Again, fmt.Sprint(name))
		}
	}
	p.Says = fmt.Sprintf("%d nodes run again", len(p.Again))
	return nil
}

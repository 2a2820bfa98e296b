package step

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/autograd"
	"memopt/configs"
	"memopt/internal/graph"
	"memopt/memopt/exit"
	"memopt/planner"
)

// initial is a float initializer of the model.
type initial struct {
	name  string
	kind  graph.Kind
	bytes int64
}

// selectTrained makes the selected initializers the graph's only parameters, and notes all initializers.
func (m *Model) selectTrained() (err error) {
	for _, list := range []*[]string{&m.Config.Trainable, &m.Config.Frozen} {
		if *list, err = configs.ReadNames(*list); err != nil {
			return exit.Input(err)
		}
	}
	m.selected, err = autograd.Select(m.Graph, m.Config.Trainable, m.Config.Frozen)
	var none *autograd.NoMatchError
	if errors.As(err, &none) && none.Hint == "" {
		if near, ok := configs.Nearest(strings.Trim(none.Pattern, "!*?"), none.Names); ok {
			none.Hint = fmt.Sprintf("; did you mean %q?", near)
		} else if len(none.Names) > 0 {
			none.Hint = "; there are " + planner.Some(none.Names)
		}
	}
	if err != nil {
		return exit.Input(err)
	}
	m.noteInitials()
	return nil
}

// noteInitials notes the parameters and buffers.
func (m *Model) noteInitials() {
	m.initials = nil
	for _, v := range m.Graph.Values {
		if v.Kind.Stored() && v.Kind != graph.Const && v.Type.IsFloat() {
			n, _ := v.Bytes().Const()
			m.initials = append(m.initials, initial{v.Name, v.Kind, n})
		}
	}
}

// Trains lists what the step trains. If the file contains the step, that is what it has gradients for.
func (m *Model) Trains() *planner.Trains {
	t := &planner.Trains{Names: []string{}, Folded: []string{}, Added: []string{}, Buffers: []string{}, Statistics: []string{}, Frozen: []string{}, Others: []string{}, Unused: []string{}}
	known := map[string]bool{}
	train := func(v *graph.Value) {
		if known[v.Name] || v.Kind == graph.Input && m.Held { // a bridge's input whose gradient is wanted
			return
		}
		known[v.Name] = true
		n, _ := v.Bytes().Const()
		t.Names, t.Bytes = append(t.Names, v.Name), t.Bytes+n
		if m.Source != nil && m.Source.Origins[v.Name].Folded {
			t.Folded = append(t.Folded, v.Name)
		}
	}
	for _, d := range m.Graph.Grads {
		train(d.Param)
	}
	changes := map[string]bool{}
	for _, u := range m.Graph.Updates {
		changes[u.State.Name] = true
		if u.State.Kind == graph.Param && len(m.Graph.Grads) == 0 {
			train(u.State)
		}
	}
	// Use the model's order: that of gradients depends on the form of the step.
	place := map[string]int{}
	for i, x := range m.initials {
		place[x.name] = i
	}
	slices.SortStableFunc(t.Names, func(a, b string) int { return place[a] - place[b] })
	slices.SortStableFunc(t.Folded, func(a, b string) int { return place[a] - place[b] })
	t.Parameters = len(t.Names)
	for _, name := range m.selected.Added {
		if known[name] {
			t.Added = append(t.Added, name)
		}
	}
	for _, x := range m.initials {
		list := &t.Buffers
		switch {
		case known[x.name]:
			continue
		case slices.Contains(m.selected.Frozen, x.name):
			list = &t.Frozen
		case slices.Contains(m.selected.Others, x.name):
			list = &t.Others
		case changes[x.name]:
			list = &t.Statistics
		case x.kind == graph.Param:
			list = &t.Unused
		}
		*list = append(*list, x.name)
	}
	return t
}

// UnclearRoles warns of initializers whose role the file does not state, and of parameters that the exporter folded into
// several, merged or left out.
func (m *Model) UnclearRoles() (out []string) {
	if m.Source == nil || m.Steps.Brought() {
		return nil
	}
	var on, off, apart []string
	kinds := map[string]graph.Kind{}
	for _, x := range m.initials {
		kinds[x.name] = x.kind
	}
	sources := map[string]string{} // by original parameter: the initializer folded from it
	for _, x := range m.initials {
		o := m.Source.Origins[x.name]
		named := slices.Contains(m.Config.Trainable, x.name) || slices.Contains(m.Config.Frozen, x.name)
		switch {
		case o.Unsure && !named && x.kind == graph.Param:
			on = append(on, x.name)
		case o.Unsure && !named:
			off = append(off, x.name)
		}
		for _, from := range o.From {
			if x.kind != graph.Param {
				continue
			}
			if other := sources[from]; other != "" || kinds[from] == graph.Param {
				apart = append(apart, fmt.Sprintf("%s and %s", cmp.Or(other, from), x.name))
			}
			sources[from] = x.name
		}
	}
	if n := len(on); n > 0 {
		out = append(out, fmt.Sprintf("the file does not say what %s folded from; trained as parameters, unless --frozen names them", wereSome(on)))
	}
	if n := len(off); n > 0 {
		out = append(out, fmt.Sprintf("the file does not say what %s folded from; not trained, unless --trainable names them", wereSome(off)))
	}
	if len(apart) > 0 {
		out = append(out, fmt.Sprintf("one parameter is two initializers in the file, which are trained apart: %s; an export with optimize=False or do_constant_folding=False keeps it one", planner.Some(apart)))
	}
	if n := len(m.Source.Fused); n > 0 {
		out = append(out, fmt.Sprintf("the exporter made one of %s, which are trained as that: an export with optimize=False keeps them apart", planner.Some(m.Source.Fused)))
	}
	if n := len(m.Source.Shared); n > 0 {
		out = append(out, fmt.Sprintf("several modules read %s, which the exporter may have merged from equal parameters; each is trained as one", planner.Some(m.Source.Shared)))
	}
	if n := len(m.Source.Rows); n > 0 {
		out = append(out, fmt.Sprintf("the file has only those rows of %s that were read while it was exported; an export with optimize=False has all", planner.Some(m.Source.Rows)))
	}
	if lost := m.Lost(); lost != "" {
		out = append(out, lost)
	}
	return out
}

func wereSome(names []string) string {
	if len(names) == 1 {
		return names[0] + " was"
	}
	return planner.Some(names) + " were"
}

// Lost says which parameters of the exporter's list cannot be told apart in the file; "" if all can.
func (m *Model) Lost() string {
	if m.Source == nil || m.Steps.Brought() || len(m.Source.Lost) == 0 {
		return ""
	}
	return fmt.Sprintf("the exporter merged, folded or left out parameters, and the file does not say where: %s; torch.onnx.export(…, optimize=False) keeps every parameter", strings.Join(m.Source.Lost, ", "))
}

package autograd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// Selection is how settings changed what is trained, by name in the order of
// the graph.
type Selection struct {
	Added  []string // buffers and constants that are trained because they were named
	Frozen []string // parameters that a pattern excludes
	Others []string // parameters that a list of what to train does not have
}

// NoMatchError is a name or pattern of a setting that no initializer has.
type NoMatchError struct {
	Setting, Pattern string
	Names            []string // what it could have been
	Hint             string   // why what it matches does not count
}

func (e *NoMatchError) Error() string {
	return fmt.Sprintf("%s %q matches no parameter%s", e.Setting, e.Pattern, e.Hint)
}

// Select makes the float initializers that are to be trained the graph's only
// parameters. Others become buffers.
//
// Without trainable, those are the graph's parameters. Otherwise they are what
// its entries match, the last match counting: a name, or a pattern (* and ? as
// in path.Match, where * also matches slashes); ! in front excludes. If the first
// entry excludes, it does so from all parameters. frozen excludes from what
// is left, and ! in front takes that back. A pattern is for parameters; a buffer
// or constant is trained if trainable has its full name.
func Select(g *graph.Graph, trainable, frozen []string) (s Selection, err error) {
	if len(trainable) == 0 && len(frozen) == 0 {
		return s, nil
	}
	named := slices.ContainsFunc(trainable, func(p string) bool { return !strings.HasPrefix(p, "!") }) && !strings.HasPrefix(trainable[0], "!")
	train, freeze := newPatterns("trainable", trainable), newPatterns("frozen", frozen)
	var floats []*graph.Value
	for _, v := range g.Values {
		if v.Kind.Stored() && v.Type.IsFloat() {
			floats = append(floats, v)
		}
	}
	on := make([]bool, len(floats))
	for i, v := range floats {
		wanted, said, err := train.last(v)
		if err != nil {
			return s, err
		}
		out, _, err := freeze.last(v)
		if err != nil {
			return s, err
		}
		is := v.Kind == graph.Param
		on[i] = (wanted || !said && is && !named) && !out
		switch {
		case on[i] && !is:
			s.Added = append(s.Added, v.Name)
		case is && (out || said && !wanted):
			s.Frozen = append(s.Frozen, v.Name)
		case is && !on[i]:
			s.Others = append(s.Others, v.Name)
		}
	}
	for _, p := range []*patterns{train, freeze} {
		if err := p.unused(floats); err != nil {
			return s, err
		}
	}
	for i, v := range floats {
		switch {
		case on[i]:
			v.Kind = graph.Param
		case v.Kind == graph.Param:
			v.Kind = graph.ModelBuffer
		}
	}
	return s, nil
}

// patterns is the entries of one setting.
type patterns struct {
	setting string
	entries []string
	hit     []bool
}

func newPatterns(setting string, entries []string) *patterns {
	return &patterns{setting, entries, make([]bool, len(entries))}
}

// last is what the last entry that matches a value says of it.
func (p *patterns) last(v *graph.Value) (in, said bool, err error) {
	for i, entry := range p.entries {
		pattern, not := strings.CutPrefix(entry, "!")
		ok, err := match(pattern, v.Name)
		if err != nil {
			return false, false, fmt.Errorf("%s pattern %q: %w", p.setting, pattern, err)
		}
		if ok && (v.Kind == graph.Param || pattern == v.Name) {
			in, said, p.hit[i] = !not, true, true
		}
	}
	return in, said, nil
}

// unused reports the first entry that matches nothing.
func (p *patterns) unused(floats []*graph.Value) error {
	i := slices.Index(p.hit, false)
	if i < 0 {
		return nil
	}
	pattern := strings.TrimPrefix(p.entries[i], "!")
	e := &NoMatchError{Setting: p.setting, Pattern: p.entries[i]}
	for _, v := range floats {
		ok, _ := match(pattern, v.Name) // a bad pattern was reported before
		if ok && e.Hint == "" {
			e.Hint = fmt.Sprintf("; it matches the %s %q, which is trained only under its full name", v.Kind, v.Name)
		}
		if v.Kind == graph.Param {
			e.Names = append(e.Names, v.Name)
		}
	}
	return e
}

// match is path.Match without its special treatment of slashes.
func match(pattern, name string) (bool, error) {
	if pattern == name {
		return true, nil
	}
	flat := strings.NewReplacer("/", "\x00")
	return path.Match(flat.Replace(pattern), flat.Replace(name))
}

package autograd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Selection lists how settings changed which initializers are trained, in the order of the graph.
type Selection struct {
	Added  []string // buffers and constants that are trained because they are named
	Frozen []string // parameters excluded by a pattern
	Others []string // parameters that are not among those to train
}

// NoMatchError means that a name or pattern in a setting matches no initializer.
type NoMatchError struct {
	Setting, Pattern string
	Names            []string // the names it could match
	Hint             string   // why a match does not count
}

func (e *NoMatchError) Error() string {
	return fmt.Sprintf("%s %q matches no parameter%s", e.Setting, e.Pattern, e.Hint)
}

// Select makes the selected float initializers the graph's only parameters; the others become
// buffers.
//
// An entry of trainable is a name or a pattern (* and ? as in path.Match, where * also matches
// slashes); a leading ! excludes, and the last entry that matches decides. If the first entry
// excludes, or trainable is empty, the selection starts from all parameters, else from none.
// frozen then excludes from that selection; a leading ! takes that back. Patterns only match
// parameters; a buffer or constant is trained if trainable has its full name.
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

// patterns has the entries of one setting.
type patterns struct {
	setting string
	entries []string
	hit     []bool
}

func newPatterns(setting string, entries []string) *patterns {
	return &patterns{setting, entries, make([]bool, len(entries))}
}

// last returns what the last matching entry says about a value; said is false if none matches.
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
		ok, _ := match(pattern, v.Name) // bad patterns were reported before
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

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"memopt/memopt/graph"
	"memopt/memopt/stop"
)

// Part is a plan that a key names.
type Part struct {
	ID   string
	Type int
}

// String is the part as a setting for all its places.
func (p Part) String() string { return fmt.Sprintf("%s:%d:-1", p.ID, p.Type) }

// Member is one place of a key: the options that are on together, the entry's
// own first.
type Member struct {
	Plan    int // in Analysis.Plans
	Option  int // in its Options
	Reusing []Member
}

// Key is a line of the plan table: every place of one plan, or of several that
// must be on together.
type Key struct {
	Parts   []Part   // sorted by text
	Members []Member // in execution order; their number is the frequency
	// Saving is of all places and all outputs; ORTSaving counts one output a node,
	// as ONNX Runtime does. Keeps is what has to be kept instead and is not in them.
	Saving, ORTSaving, Keeps graph.Dim
	// Batch reports whether the saving depends on what a step is fed; Beyond
	// whether ONNX Runtime's table lacks an operator of it.
	Batch, Beyond bool
	// Canonical names the structures behind the key: one structure has the same
	// name whatever order its nodes run in.
	Canonical []string
}

// String is the key as ONNX Runtime's table shows it.
func (k *Key) String() string {
	parts := make([]string, len(k.Parts))
	for i, p := range k.Parts {
		parts[i] = p.String()
	}
	return strings.Join(parts, ",")
}

// most bounds the combinations of one plan with others whose buffers it shows.
const most = 1024

// Keys lists the lines of the plan table by text. A plan whose output lies in a
// buffer that another node makes comes together with each plan of that node;
// if there is none, it is not offered.
func (a *Analysis) Keys() []Key {
	byText := map[string]*Key{}
	var texts []string
	for i := range a.Plans {
		for k := range a.Plans[i].Options {
			for _, m := range a.combine(i, k, nil) {
				key := Key{Parts: a.parts(m)}
				slices.SortFunc(key.Parts, func(x, y Part) int { return strings.Compare(x.String(), y.String()) })
				text := key.String()
				if byText[text] == nil {
					byText[text] = &key
					texts = append(texts, text)
				}
				byText[text].Members = append(byText[text].Members, m)
			}
		}
	}
	slices.Sort(texts)
	var keys []Key
	for _, text := range texts {
		key := byText[text]
		a.weigh(key)
		keys = append(keys, *key)
	}
	return keys
}

// combine lists an option with every choice of the plans that it needs. above
// are the plans that need it in turn.
func (a *Analysis) combine(plan, option int, above []int) []Member {
	stop.Poll(a.Rules.Context)
	all := []Member{{Plan: plan, Option: option}}
	for _, s := range a.Plans[plan].Options[option].Outputs {
		if s.Reused < 0 {
			continue
		}
		other := slices.IndexFunc(a.Plans, func(p NodePlan) bool { return p.Entry == s.Reused })
		if other < 0 || other == plan || slices.Contains(above, other) {
			return nil
		}
		var next []Member
		for k := range a.Plans[other].Options {
			for _, with := range a.combine(other, k, append(slices.Clip(above), plan)) {
				for _, m := range all {
					if len(next) < most {
						m.Reusing = append(slices.Clip(m.Reusing), with)
						next = append(next, m)
					}
				}
			}
		}
		all = next
	}
	return all
}

// parts lists the plans of a member. A plan that needs several others is named
// once for each.
func (a *Analysis) parts(m Member) []Part {
	o := a.option(m)
	own := Part{a.ID(o), o.Type}
	if len(m.Reusing) == 0 {
		return []Part{own}
	}
	var parts []Part
	for _, with := range m.Reusing {
		parts = append(append(parts, own), a.parts(with)...)
	}
	return parts
}

func (a *Analysis) option(m Member) *Option { return &a.Plans[m.Plan].Options[m.Option] }

// Options lists the options of a member, with the plan of each.
func (a *Analysis) Options(m Member) (options []*Option) {
	options = append(options, a.option(m))
	for _, with := range m.Reusing {
		for _, o := range a.Options(with) {
			if !slices.Contains(options, o) {
				options = append(options, o)
			}
		}
	}
	return options
}

// weigh adds up what the places of a key save.
func (a *Analysis) weigh(key *Key) {
	kept := map[string]bool{}
	for _, m := range key.Members {
		saving, ort := a.Saving(m)
		key.Saving, key.ORTSaving = key.Saving.Add(saving), key.ORTSaving.Add(ort)
		for _, o := range a.Options(m) {
			key.Batch, key.Beyond = key.Batch || o.Batch, key.Beyond || o.Beyond
			for _, name := range o.Keeps {
				if !kept[name] {
					kept[name] = true
					key.Keeps = key.Keeps.Add(a.bytesOf(name))
				}
			}
		}
		if c := a.Canonical(m); !slices.Contains(key.Canonical, c) {
			key.Canonical = append(key.Canonical, c)
		}
	}
}

// Saving is the bytes that a member saves, and those that ONNX Runtime shows.
func (a *Analysis) Saving(m Member) (all, ort graph.Dim) {
	for _, o := range a.Options(m) {
		for i, s := range o.Outputs {
			if s.Reused >= 0 {
				continue
			}
			saved := o.scale(s.bytes)
			all = all.Add(saved)
			if i == len(o.Outputs)-1 {
				ort = ort.Add(saved)
			}
		}
	}
	return all, ort
}

// Raw is ONNX Runtime's text of what all places of a key save, in the form
// ((batch)*(64)) * 4 * 1.000000. Of each node it counts all outputs, or the last.
func (a *Analysis) Raw(k *Key, last bool) string {
	var texts []string
	for _, m := range k.Members {
		texts = append(texts, a.raw(m, last))
	}
	return strings.Join(texts, " + ")
}

func (a *Analysis) raw(m Member, last bool) string {
	o := a.option(m)
	var texts []string
	for _, s := range o.Outputs {
		if last {
			texts = nil // each takes the place of the one before
		}
		texts = append(texts, o.outputText(s))
	}
	sum := "(" + strings.Join(texts, " + ") + ")"
	for _, with := range m.Reusing {
		sum += " + " + a.raw(with, last)
	}
	return "(" + sum + ")"
}

// Choices lists the options of a member as choices.
func (a *Analysis) Choices(m Member) []Choice {
	choices := []Choice{{m.Plan, m.Option}}
	for _, with := range m.Reusing {
		choices = append(choices, a.Choices(with)...)
	}
	return choices
}

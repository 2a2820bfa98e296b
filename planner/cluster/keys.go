package cluster

import (
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// Part is one plan of a key.
type Part struct {
	ID   string
	Type int
}

// String is the setting that turns the part on at all places.
func (p Part) String() string { return fmt.Sprintf("%s:%d:-1", p.ID, p.Type) }

// Member is one place of a key: the option of an entry, and the options that must be on with it.
type Member struct {
	Plan    int // in Analysis.Plans
	Option  int // in the plan's Options
	Reusing []Member
}

// Key is a row of the plan table: all places of one plan, or of several that must be on together.
type Key struct {
	Parts   []Part   // sorted by text
	Members []Member // in execution order; the table's frequency is their number
	// Saving is the bytes saved at all places, by all outputs; ORTSaving counts one output a node,
	// as ONNX Runtime does. Keeps is the bytes that have to be kept instead, which is not
	// subtracted from either.
	Saving, ORTSaving, Keeps graph.Dim
	// Batch reports whether the saving depends on inputs of the step, Beyond whether ONNX Runtime's
	// table lacks one of the operators.
	Batch, Beyond bool
	// Canonical names the key's structures, independently of the order in which nodes run.
	Canonical []string
}

// String is the key in ONNX Runtime's table.
func (k *Key) String() string {
	parts := make([]string, len(k.Parts))
	for i, p := range k.Parts {
		parts[i] = p.String()
	}
	return strings.Join(parts, ",")
}

// most bounds the combinations of a plan with those of the buffers that its outputs are views of.
const most = 1024

// Keys lists the rows of the plan table, sorted by text. A plan whose output is a view of another
// node's buffer is combined with each plan of that node; if there is none, it is not offered.
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

// combine combines an option with every choice of the plans that it needs. above lists the plans
// that need it in turn.
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

// parts lists the plans of a member. A plan that needs several others is repeated before each.
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

// Options lists the options of a member and of its Reusing, without repetition.
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

// weigh adds up the savings of a key's places.
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

// Saving is the bytes that a member saves, and as ONNX Runtime counts them.
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

// Raw is ONNX Runtime's text of the savings of all places of a key, such as ((batch)*(64)) * 4 *
// 1.000000. With last it counts only the last output of each node.
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
			texts = nil // keep the last one only
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

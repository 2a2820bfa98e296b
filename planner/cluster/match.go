package cluster

import (
	"slices"
)

// Match lists the places that a spelling selects, in execution order. It may be an ID, ONNX
// Runtime's ID where the corrected rules have another, or a canonical name. An ID selects all
// places of its structures, in whatever order their nodes run; spellings are the other IDs of these
// places.
func (a *Analysis) Match(id string, kind int) (choices []Choice, spellings []string) {
	meant := map[string]bool{id: true}
	a.each(kind, func(_ Choice, o *Option) {
		if a.ID(o) == id || o.Spelling == id {
			meant[a.canonicalOption(o)] = true
		}
	})
	a.each(kind, func(c Choice, o *Option) {
		own := a.ID(o)
		if own != id && o.Spelling != id && !meant[a.canonicalOption(o)] {
			return
		}
		choices = append(choices, c)
		if own != id && !slices.Contains(spellings, own) {
			spellings = append(spellings, own)
		}
	})
	return choices, spellings
}

func (a *Analysis) each(kind int, f func(c Choice, o *Option)) {
	for i := range a.Plans {
		for k := range a.Plans[i].Options {
			if o := &a.Plans[i].Options[k]; o.Type == kind {
				f(Choice{i, k}, o)
			}
		}
	}
}

// Spellings lists all IDs that Match knows, for suggestions.
func (a *Analysis) Spellings() (ids []string) {
	for _, kind := range []int{Full, Compromise} {
		a.each(kind, func(_ Choice, o *Option) {
			for _, id := range []string{a.ID(o), o.Spelling} {
				if id != "" && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		})
	}
	slices.Sort(ids)
	return ids
}

package cluster

import "slices"

// Request turns on the options of one ID and type, like ONNX Runtime's setting BiasGelu+:1:-1.
type Request struct {
	ID    string
	Type  int // 0 turns off places that earlier requests turned on
	Count int // number of places, the first in execution order; −1: all
	// Places selects places by number, from 0, instead.
	Places []Places
	Where  string // of a setting, for warnings
}

// Places is the places from First to Last, both included.
type Places struct{ First, Last int }

// Wants reports whether place i is asked for.
func (r Request) Wants(i int) bool {
	if len(r.Places) > 0 {
		return slices.ContainsFunc(r.Places, func(p Places) bool { return p.First <= i && i <= p.Last })
	}
	return r.Count < 0 || i < r.Count
}

// Choice is an option of a plan of an analysis.
type Choice struct{ Plan, Option int }

// Chosen is the result of requests.
type Chosen struct {
	Choices []Choice // in execution order, at most one a plan
	Tallies []Tally  // by request
}

// Tally counts the places of a request.
type Tally struct {
	Matched int // places that have such an option
	Applied int // places that it recomputes
}

// Option returns the option of a choice.
func (a *Analysis) Option(c Choice) *Option { return &a.Plans[c.Plan].Options[c.Option] }

// Choose finds the options that requests turn on, by any spelling of their IDs that Match knows.
// Counts are of places in execution order. Of two requests for one ID and type the later one
// counts; if two types are requested for a place, the one that saves more wins. Under Compat it
// follows ONNX Runtime 1.19: requests are told apart by the ID as spelled, recomputing all wins
// over a compromise, and a count of 0 spares only the last place, while any other count takes every
// place.
func (a *Analysis) Choose(requests []Request) Chosen {
	if a.Rules.Compat != "" {
		return a.chooseAsORT(requests)
	}
	type key struct {
		id  string
		typ int
	}
	last := map[key]int{}
	for i, r := range requests {
		last[key{r.ID, r.Type}] = i
	}
	chosen := Chosen{Tallies: make([]Tally, len(requests))}
	option, by := make([]int, len(a.Plans)), make([]int, len(a.Plans))
	for p := range option {
		option[p] = -1
	}
	for i, r := range requests {
		if last[key{r.ID, r.Type}] != i {
			continue
		}
		kinds := []int{r.Type}
		if r.Type == 0 {
			kinds = []int{Full, Compromise}
		}
		for _, kind := range kinds {
			places, _ := a.Match(r.ID, kind)
			for n, c := range places {
				old := option[c.Plan]
				switch {
				case !r.Wants(n):
				case r.Type == 0:
					option[c.Plan] = -1
				case old < 0 || a.Option(c).Ratio > a.Plans[c.Plan].Options[old].Ratio:
					option[c.Plan], by[c.Plan] = c.Option, i
				}
			}
			chosen.Tallies[i].Matched += len(places)
		}
	}
	for p, k := range option {
		if k >= 0 {
			chosen.Choices = append(chosen.Choices, Choice{p, k})
			chosen.Tallies[by[p]].Applied++
		}
	}
	return chosen
}

// chooseAsORT also obeys Places, which ONNX Runtime does not have.
func (a *Analysis) chooseAsORT(requests []Request) Chosen {
	chosen := Chosen{Tallies: make([]Tally, len(requests))}
	last := map[string]int{}
	for i, r := range requests {
		last[r.ID] = i
	}
	by, matches := make([]int, 0, len(a.Plans)), make([]Choice, 0, len(a.Plans)) // at most one a plan
	for p := range a.Plans {
		for k := range a.Plans[p].Options {
			o := &a.Plans[p].Options[k]
			if i, ok := last[a.ID(o)]; ok && requests[i].Type == o.Type {
				by, matches = append(by, i), append(matches, Choice{p, k})
				chosen.Tallies[i].Matched++
				break
			}
		}
	}
	seen := make([]int, len(requests))
	for n, c := range matches {
		i := by[n]
		r, place := requests[i], seen[i]
		seen[i]++
		spared := r.Count == 0 && place == chosen.Tallies[i].Matched-1
		if len(r.Places) > 0 {
			spared = !r.Wants(place)
		}
		if !spared {
			chosen.Tallies[i].Applied++
			chosen.Choices = append(chosen.Choices, c)
		}
	}
	return chosen
}

// Level lists the requests that a level of ONNX Runtime stands for: all keys of the table, at level
// 1 only those of type Full. Requests are in the order of keys, which under Compat decides between
// equal IDs. Keys with operators beyond ONNX Runtime's table count only if there are no others.
func Level(keys []Key, level int) []Request {
	if level == 0 {
		return nil
	}
	own := slices.ContainsFunc(keys, func(k Key) bool { return !k.Beyond })
	var requests []Request
	seen := map[Part]bool{}
	for _, k := range keys {
		if own && k.Beyond {
			continue
		}
		for _, p := range k.Parts {
			if (p.Type == Full || level > 1) && !seen[p] {
				seen[p] = true
				requests = append(requests, Request{ID: p.ID, Type: p.Type, Count: -1})
			}
		}
	}
	return requests
}

package forms

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"memopt/planner"
)

// stateShares is how many shares of the states that could leave are planned, and refinements how often what lies between the
// best of them and the one before is halved.
const stateShares, refinements = 6, 3

// sent is the request with as many parameters' states elsewhere as its budget asks for, where that is left to the planner: none
// where everything fits, else so many that the step and its copies take least. Shares of memory are those of the step with all
// states in memory. Where no number of them is enough all leave, for the error to tell of the nearest miss. A budget of the place
// they leave for binds in any case: where it has no room for all, the largest leave, and moved values have what is left of it.
func (s *Steps) sent(ask Ask) (Ask, error) {
	if !ask.StatesByBudget && (ask.States == "" || ask.HostBudget == 0) {
		return ask, nil
	}
	byBudget := ask.StatesByBudget
	if byBudget {
		var err error
		if ask, err = s.InBytes(ask); err != nil {
			return ask, err
		}
	}
	ask.StatesByBudget = false
	own, err := s.Own(ask)
	if err != nil {
		return ask, err
	}
	g, r, err := own.at(own.on)
	if err != nil {
		return ask, err
	}
	look, err := planner.Look(g, r)
	if err != nil {
		return ask, err
	}
	all := look.Leavers()
	n := all // that may leave
	if ask.HostBudget > 0 {
		n = sort.Search(all, func(k int) bool { x, _ := look.Leave(k + 1); return x.Bytes > ask.HostBudget })
	}
	with := func(parameters int) Ask {
		a := ask
		if a.StatesStay = all - parameters; a.Elsewhere != nil && a.HostBudget > 0 {
			x, _ := look.Leave(parameters)
			a.Elsewhere = &planner.Elsewhere{Place: a.Elsewhere.Place, Bytes: max(a.HostBudget-x.Bytes, 1)} // 0 would be no limit
		}
		a.HostBudget = 0 // it is kept to
		return a
	}
	if !byBudget {
		if n == 0 && all > 0 {
			x, _ := look.Leave(1)
			return ask, fmt.Errorf("%s has no room for states: the largest leave first, and those of one parameter take %d bytes on the %s: give %s or more",
				ask.Say("host_budget", fmt.Sprint(ask.HostBudget)), x.Bytes, ask.States, ask.Say("host_budget", fmt.Sprint(x.Bytes)))
		}
		return with(n), nil
	}
	arena, err := look.Arena()
	if err != nil {
		return ask, err
	}
	limit := ask.Budget.Bytes
	least := func(arena int64) int { // how many have to leave for so much arena
		return sort.Search(n, func(k int) bool { _, fixed := look.Leave(k); return fixed+arena <= limit })
	}
	most := least(arena)
	switch {
	case limit == 0:
		return with(0), nil
	case ask.Target.Fits: // what costs least does not matter
		return with(n), nil
	case most == 0:
		return with(0), nil
	}
	t := &sending{steps: s, with: with, look: look, best: -1}
	numbers := []int{0, min(least(look.Floor()), most), most}
	whole, _ := look.Leave(most)
	for share := int64(1); share < stateShares; share++ {
		numbers = append(numbers, sort.Search(most, func(k int) bool { x, _ := look.Leave(k); return x.Bytes >= whole.Bytes*share/stateShares }))
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	before := 0
	for i, k := range numbers {
		if _, fixed := look.Leave(k); fixed > limit {
			continue
		}
		better, err := t.try(k)
		if err != nil {
			return ask, err
		}
		if better && i > 0 {
			before = numbers[i-1]
		}
	}
	if t.best < 0 {
		return with(n), nil
	}
	for range refinements {
		k := (before + t.best) / 2
		if k <= before {
			break
		}
		if better, err := t.try(k); err != nil {
			return ask, err
		} else if !better {
			before = k
		}
	}
	return with(t.best), nil
}

// sending compares plans by how many parameters' states leave.
type sending struct {
	steps *Steps
	with  func(parameters int) Ask
	look  *planner.Search
	best  int // parameters; -1 if no plan is known
	cost  float64
	plain float64
}

// try plans with the states of so many parameters elsewhere, and reports whether that is better than what is known. Copies count
// as if nothing hid them: those of a step's updates come one after another. Where they have no price, fewer are better.
func (t *sending) try(parameters int) (better bool, err error) {
	sent, _ := t.look.Leave(parameters)
	copies := float64(sent.CopyNS)
	priced := sent.CopyNS > 0 || parameters == 0
	if t.best >= 0 && (!priced && parameters > t.best || priced && t.plain+copies >= t.cost) {
		return false, nil
	}
	ask := t.with(parameters)
	if ask.Target.Fits = true; t.best >= 0 && priced {
		ask.Target.Cost = t.cost - copies
	}
	p, err := t.steps.Best(ask)
	var none *planner.BudgetError
	if errors.As(err, &none) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cost, plain := p.Cost()
	if cost += copies; t.best >= 0 && priced && cost >= t.cost {
		return false, nil
	}
	t.best, t.cost, t.plain = parameters, cost, plain
	return true, nil
}

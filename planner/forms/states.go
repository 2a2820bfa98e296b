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
	l, err := s.leavers(ask)
	if err != nil {
		return ask, err
	}
	ask = l.ask
	look, n, with := l.look, l.most, l.with
	if !byBudget {
		if n == 0 && l.all > 0 {
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
	numbers := l.shares(most, min(least(look.Floor()), most))
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

// leavers are the states that can leave in a request, those of the largest parameters first.
type leavers struct {
	ask  Ask // which leaves nothing to choose
	look *planner.Search
	all  int // parameters whose states can leave
	most int // for which the place has room
}

func (s *Steps) leavers(ask Ask) (*leavers, error) {
	ask.StatesByBudget = false
	own, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	g, r, err := own.at(own.on)
	if err != nil {
		return nil, err
	}
	l := &leavers{ask: ask}
	if l.look, err = planner.Look(g, r); err != nil {
		return nil, err
	}
	l.all = l.look.Leavers()
	l.most = l.all
	if ask.HostBudget > 0 {
		l.most = sort.Search(l.all, func(k int) bool { x, _ := l.look.Leave(k + 1); return x.Bytes > ask.HostBudget })
	}
	return l, nil
}

// with is the request with the states of so many parameters elsewhere.
func (l *leavers) with(parameters int) Ask {
	a := l.ask
	if a.StatesStay = l.all - parameters; a.Elsewhere != nil && a.HostBudget > 0 {
		x, _ := l.look.Leave(parameters)
		a.Elsewhere = &planner.Elsewhere{Place: a.Elsewhere.Place, Bytes: max(a.HostBudget-x.Bytes, 1)} // 0 would be no limit
	}
	a.HostBudget = 0 // it is kept to
	return a
}

// shares are the numbers of parameters whose states are worth a plan, of so many at most: none, all, some others, and those with
// about the same bytes between one and the next.
func (l *leavers) shares(most int, others ...int) []int {
	numbers := append([]int{0, most}, others...)
	whole, _ := l.look.Leave(most)
	for share := int64(1); share < stateShares; share++ {
		numbers = append(numbers, sort.Search(most, func(k int) bool { x, _ := l.look.Leave(k); return x.Bytes >= whole.Bytes*share/stateShares }))
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
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

package recompute

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"memopt/internal/stop"
	"memopt/planner/internal/numbers"
)

// Lists is many lists of numbers in one array.
type Lists struct{ bounds, items []int32 }

// Add appends a list.
func (l *Lists) Add(items ...int32) {
	if len(l.bounds) == 0 {
		l.bounds = append(l.bounds, 0)
	}
	l.items = append(l.items, items...)
	l.bounds = append(l.bounds, int32(len(l.items)))
}

// Reserve makes room for more lists and items.
func (l *Lists) Reserve(lists, items int) {
	l.bounds, l.items = slices.Grow(l.bounds, lists+1), slices.Grow(l.items, items)
}

// rebuild makes n lists of the items that each puts. It is called twice: to count, and to fill.
func (l *Lists) rebuild(n int, each func(put func(list, item int32))) {
	l.bounds = slices.Grow(l.bounds[:0], n+1)[:n+1]
	clear(l.bounds)
	each(func(list, _ int32) { l.bounds[list+1]++ })
	for i := range n {
		l.bounds[i+1] += l.bounds[i]
	}
	l.items = slices.Grow(l.items[:0], int(l.bounds[n]))[:l.bounds[n]]
	cursor := slices.Clone(l.bounds[:n])
	each(func(list, item int32) {
		l.items[cursor[list]] = item
		cursor[list]++
	})
}

// join makes lists of the sets of a forest, each at its smallest number, in order; the lists of other numbers are empty.
func (l *Lists) join(up numbers.Forest) {
	l.rebuild(len(up), func(put func(list, item int32)) {
		for i := range int32(len(up)) {
			put(up.Top(i), i)
		}
	})
}

// Of is list i.
func (l *Lists) Of(i int32) []int32 { return l.items[l.bounds[i]:l.bounds[i+1]] }

// Len is the number of lists.
func (l *Lists) Len() int { return max(0, len(l.bounds)-1) }

// Problem is a program. Operators are numbered in the order of their first runs, values in any order.
type Problem struct {
	Cost    []float64 // by operator
	Work    []int64   // by operator: bytes of work space
	Again   []bool    // by operator: it may be rerun
	Inputs  Lists     // by operator: values read, each once
	Outputs Lists     // by operator: values written, each once
	// Over lists, by operator, the inputs that the first output may be written over if nothing reads them later. They
	// must be as large as it.
	Over Lists
	// Border is the first operator of the backward pass. Values are recomputed only from there on, unless a peak lies
	// before it.
	Border int32

	Bytes []int64 // by value
	Held  []bool  // by value: read after the last operator, as it was first made
	// Until is, by value, the operator before which the value must not be dropped: its first instance is kept up to
	// there, whether it is read or not, and nothing is written over it. 0 is no constraint; nil is none for any value.
	Until []int32
	// Forced values are dropped at the border by every plan. If there are any, other values without readers after the
	// border are not dropped there by default; nil is none.
	Forced []bool
	// Away is, by value, that it may be moved elsewhere, where there is room for Far bytes. It lowers the
	// floor alone: which values are moved is chosen for a list of launches. nil is none.
	Away []bool
	Far  int64

	// Context ends whatever a Solver does, which polls it as package stop says; nil is none.
	Context context.Context
}

func (p *Problem) poll() { stop.Poll(p.Context) }

// until is the operator before which a value must not be dropped.
func (p *Problem) until(v int32) int32 {
	if p.Until == nil {
		return 0
	}
	return p.Until[v]
}

// mustKeep reports whether every plan has a value at a place: it was made before, and must not be dropped yet.
func (p *Problem) mustKeep(v, made, at int32) bool { return made < at && at < p.until(v) }

// valid returns an error for what is wrong with p.
func (p *Problem) valid() error {
	ops, values := len(p.Cost), int32(len(p.Bytes))
	if len(p.Work) != ops || len(p.Again) != ops || p.Inputs.Len() != ops || p.Outputs.Len() != ops || p.Over.Len() != ops || len(p.Held) != int(values) ||
		p.Forced != nil && len(p.Forced) != int(values) || p.Until != nil && len(p.Until) != int(values) {
		return fmt.Errorf("the tables of %d operators and %d values have other lengths", ops, values)
	}
	if p.Border < 0 || int(p.Border) > ops {
		return fmt.Errorf("border %d of %d operators", p.Border, ops)
	}
	room := int64(math.MaxInt64)
	take := func(bytes int64) bool {
		if bytes < 0 || bytes > room {
			return false
		}
		room -= bytes
		return true
	}
	for v, b := range p.Bytes {
		if !take(b) {
			return fmt.Errorf("value %d has %d bytes, too many with those before it", v, b)
		}
	}
	made, total := make([]bool, values), 0.0
	for op := range int32(ops) {
		c := p.Cost[op]
		if total += c; !(c >= 0) || math.IsInf(total, 1) {
			return fmt.Errorf("operator %d costs %v, with those before it %v", op, c, total)
		}
		if !take(p.Work[op]) {
			return fmt.Errorf("operator %d needs %d bytes of work space, too many with those before it", op, p.Work[op])
		}
		for _, v := range p.Inputs.Of(op) {
			if v < 0 || v >= values || !made[v] {
				return fmt.Errorf("operator %d reads value %d before it is made", op, v)
			}
		}
		for _, v := range p.Outputs.Of(op) {
			if v < 0 || v >= values || made[v] {
				return fmt.Errorf("operator %d writes value %d, which has a maker or is none", op, v)
			}
			made[v] = true
			if p.Forced != nil && p.Forced[v] && (!p.Again[op] || p.Held[v]) {
				return fmt.Errorf("value %d must be forgotten, but cannot be made again", v)
			}
			switch until := p.until(v); {
			case until != 0 && (until <= op || int(until) > ops):
				return fmt.Errorf("value %d stays up to operator %d, but is made by operator %d of %d", v, until, op, ops)
			case until > p.Border && p.Forced != nil && p.Forced[v]:
				return fmt.Errorf("value %d must be forgotten, but stays up to operator %d", v, until)
			}
		}
		for _, v := range p.Over.Of(op) {
			if op < p.until(v) {
				return fmt.Errorf("operator %d writes over value %d, which stays up to operator %d", op, v, p.until(v))
			}
		}
		if over := p.Over.Of(op); len(over) > 0 && len(p.Outputs.Of(op)) == 0 {
			return fmt.Errorf("operator %d writes nothing over its inputs", op)
		}
	}
	for v := range p.Until {
		if p.Until[v] != 0 && !made[v] {
			return fmt.Errorf("value %d stays up to operator %d, but is never made", v, p.Until[v])
		}
	}
	return nil
}

// inOrder is p with the inputs of each operator in the order in which they are first made. Missing inputs are
// recomputed in that order, so the one with the longest way back, such as what bypasses a block, comes first, and
// values that are one step away do not wait in memory meanwhile.
func (p *Problem) inOrder() *Problem {
	maker := makers(p)
	q := *p
	q.Inputs = Lists{p.Inputs.bounds, slices.Clone(p.Inputs.items)}
	for op := range int32(len(p.Cost)) {
		slices.SortFunc(q.Inputs.Of(op), func(u, v int32) int { return cmp.Or(cmp.Compare(maker[u], maker[v]), cmp.Compare(u, v)) })
	}
	return &q
}

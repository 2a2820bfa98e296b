package planner

import (
	"errors"
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner/profile"
)

// TestElsewhereRefused: a budget that moves do not reach either takes few more passes of the search than without a
// second place: below the floor, and above it where a bound excludes a plan.
func TestElsewhereRefused(t *testing.T) {
	prices, err := profile.For("xeon-core")
	if err != nil {
		t.Fatal(err)
	}
	prices.Copies = map[string]profile.Copies{profile.Disk: {Delay: 10000, Out: 1, In: 1}}
	g := searchOf(t, zoo.Spec{Family: "gpt", Layers: 4, Width: 64, Heads: 2, Vocab: 500}).m.g
	look := func(budget Size, e *Elsewhere) *Search {
		s, err := Look(g, Request{Dims: map[string]int64{"batch": 16, "seq": 64}, Profile: prices, ActivationBudget: budget, Elsewhere: e})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	passes := func(s *Search) (ran int, planned bool) {
		_, err := s.Plan(Target{})
		var short *BudgetError
		if err != nil && !errors.As(err, &short) {
			t.Fatal(err)
		}
		for _, row := range s.m.log.passes() {
			if strings.HasPrefix(row.Pass, choosing) {
				ran += row.Ran
			}
		}
		return ran, err == nil
	}
	disk := &Elsewhere{Place: profile.Disk}
	m := look(Size{}, disk).m
	plain, low := m.floor(nil).Peak, m.floor(disk).Peak
	if low >= plain {
		t.Fatalf("moves do not lower the floor of %d bytes", plain)
	}
	for _, bytes := range []int64{low / 3, low - alignment, low + (plain-low)/2} {
		alone, _ := passes(look(Size{Bytes: bytes}, nil))
		beside, planned := passes(look(Size{Bytes: bytes}, disk))
		if t.Logf("%d bytes: %d passes, %d without", bytes, beside, alone); planned || alone == 0 || beside > 4*alone {
			t.Errorf("%d bytes: %d passes, and %d without a second place; planned: %t", bytes, beside, alone, planned)
		}
	}
}

// TestElsewhereSlow: a budget that only moves can meet has a plan however slow the copies are, which says what it waits for.
func TestElsewhereSlow(t *testing.T) {
	prices, err := profile.For("xeon-core")
	if err != nil {
		t.Fatal(err)
	}
	g := searchOf(t, zoo.Spec{Family: "mlp", Layers: 3, Width: 64}).m.g
	for _, rate := range []float64{1, 0.01, 0.0001} {
		prices.Copies = map[string]profile.Copies{profile.Disk: {Delay: 1000 / rate, Out: rate, In: rate}}
		look := func(e *Elsewhere) *Search {
			s, err := Look(g, Request{Dims: map[string]int64{"batch": 512}, Profile: prices, Elsewhere: e})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		disk := &Elsewhere{Place: profile.Disk}
		plain, low := look(nil).m.floor(nil).Peak, look(disk).m.floor(disk).Peak
		if low >= plain {
			t.Fatalf("moves do not lower the floor of %d bytes", plain)
		}
		s, err := Look(g, Request{Dims: map[string]int64{"batch": 512}, Profile: prices, ActivationBudget: Size{Bytes: plain - alignment}, Elsewhere: disk})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Plan(Target{})
		if err != nil {
			t.Errorf("at %g bytes a nanosecond: %v", rate, err)
		} else if p.Arena >= plain || len(p.Moves) == 0 {
			t.Errorf("at %g bytes a nanosecond: an arena of %d bytes with %d moves, for less than %d", rate, p.Arena, len(p.Moves), plain)
		}
	}
}

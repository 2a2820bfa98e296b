package recompute_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/planner/recompute"
)

// random is a program like a training step: a forward part whose operators read
// some earlier values, and a backward part that reads them in about reverse. In one of
// three programs some values stay.
func random(r *rand.Rand, forward int) *recompute.Problem {
	p := &recompute.Problem{Border: int32(forward)}
	value := func(held bool) int32 {
		p.Bytes = append(p.Bytes, int64(r.IntN(8))*int64(r.IntN(8)+1))
		p.Held = append(p.Held, held)
		return int32(len(p.Bytes) - 1)
	}
	op := func(again bool, inputs []int32, outputs ...int32) {
		work := int64(0)
		if r.IntN(4) == 0 {
			work = int64(r.IntN(20))
		}
		p.Cost, p.Work, p.Again = append(p.Cost, float64(r.IntN(10))), append(p.Work, work), append(p.Again, again)
		p.Inputs.Add(inputs...)
		p.Outputs.Add(outputs...)
		var over []int32
		for _, v := range inputs {
			if len(outputs) > 0 && p.Bytes[v] == p.Bytes[outputs[0]] && r.IntN(2) == 0 {
				over = append(over, v)
			}
		}
		p.Over.Add(over...)
	}
	some := func(most int, from []int32) (all []int32) {
		for range r.IntN(most + 1) {
			if len(from) == 0 {
				break
			}
			v := from[max(r.IntN(len(from)), r.IntN(len(from)))]
			known := false
			for _, x := range all {
				known = known || x == v
			}
			if !known {
				all = append(all, v)
			}
		}
		return all
	}
	var made []int32
	for range forward {
		in := some(2, made)
		outs := []int32{value(r.IntN(20) == 0)}
		if r.IntN(5) == 0 {
			outs = append(outs, value(r.IntN(8) == 0))
		}
		op(r.IntN(8) > 0, in, outs...)
		made = append(made, outs...)
	}
	grad := []int32{}
	// Forward passes behind a backward pass may run again too.
	later := rand.New(rand.NewPCG(uint64(len(p.Bytes)), 7))
	several := later.IntN(4) == 0
	for i := forward - 1; i >= 0; i-- {
		in := some(1, made[:min(len(made), i+2)])
		if len(grad) > 0 {
			in = append(in, grad[len(grad)-1])
		}
		g := value(r.IntN(6) == 0)
		op(several && later.IntN(2) == 0, in, g)
		grad = append(grad, g)
	}
	if beside := rand.New(rand.NewPCG(uint64(len(p.Bytes)), uint64(p.Bytes[0]))); beside.IntN(3) == 0 {
		stay(beside, p)
	}
	return p
}

// stay has some values of a program stay up to operators behind their makers. What may be
// written over they stay no longer than up to there.
func stay(r *rand.Rand, p *recompute.Problem) {
	ops := int32(len(p.Cost))
	most := slices.Repeat([]int32{ops}, len(p.Bytes))
	for op := range ops {
		for _, v := range p.Over.Of(op) {
			most[v] = min(most[v], op)
		}
	}
	p.Until = make([]int32, len(p.Bytes))
	for op := range ops {
		for _, v := range p.Outputs.Of(op) {
			if room := most[v] - op; room > 0 && r.IntN(3) == 0 {
				p.Until[v] = op + 1 + int32(r.IntN(int(room)))
			}
		}
	}
}

// solver is one for a problem that holds.
func solver(t testing.TB, p *recompute.Problem) *recompute.Solver {
	t.Helper()
	s, err := recompute.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRandom: on many programs and limits, no plan is over its limit, the
// replay agrees, the floor is never undercut and the bound never beaten.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	plans, none := 0, 0
	for range 2500 {
		p := random(r, 2+r.IntN(11))
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		base, ok := s.Solve(math.MaxInt64/4, recompute.Ask{})
		if !ok || base.Extra != 0 || len(base.Launches) != len(p.Cost) {
			t.Fatalf("without a limit: %+v", base)
		}
		for range 4 {
			limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(101))/100
			a, ok := s.Solve(limit, recompute.Ask{})
			if !ok {
				if limit == base.Peak {
					t.Fatalf("no plan within %d, which is what keeping everything takes", limit)
				}
				none++
				continue
			}
			plans++
			peak, extra, err := recompute.Check(p, a.Launches)
			switch {
			case err != nil:
				t.Fatal(err)
			case peak != a.Peak || math.Abs(extra-a.Extra) > 1e-9:
				t.Fatalf("peak %d and extra %v are said to be %d and %v", peak, extra, a.Peak, a.Extra)
			case peak > limit:
				t.Fatalf("peak %d is over %d", peak, limit)
			case peak < floor.Peak:
				t.Fatalf("peak %d is below the floor of %d", peak, floor.Peak)
			case a.Bound > a.Extra+1e-6:
				t.Fatalf("extra %v is below the bound of %v", a.Extra, a.Bound)
			}
			fresh := solver(t, p)
			if bound, ok := fresh.Bound(peak, math.Inf(1)); !ok || bound > a.Extra+1e-6 {
				t.Fatalf("extra %v at a peak of %d, but the bound is %v", a.Extra, peak, bound)
			}
		}
	}
	if plans < 9*none {
		t.Errorf("%d plans, and %d limits without one", plans, none)
	}
}

// TestElsewhere: sets that were found under other weights do not mislead a cut.
func TestElsewhere(t *testing.T) {
	p := &recompute.Problem{Border: 10, Bytes: []int64{0, 28, 18, 24, 8, 6, 10, 56, 15, 20, 28, 21, 40, 24, 21, 6, 20, 32, 32, 18, 49, 4}, Held: make([]bool, 22)}
	p.Held[6], p.Held[21] = true, true
	op := func(again bool, cost float64, work int64, inputs []int32, outputs ...int32) {
		p.Again, p.Cost, p.Work = append(p.Again, again), append(p.Cost, cost), append(p.Work, work)
		p.Inputs.Add(inputs...)
		p.Outputs.Add(outputs...)
		p.Over.Add()
	}
	op(true, 1, 5, nil, 0)
	op(true, 2, 0, nil, 1)
	op(false, 9, 0, []int32{1}, 2)
	op(true, 4, 0, nil, 3)
	op(true, 0, 0, []int32{3}, 4, 5)
	op(false, 2, 0, nil, 6)
	op(true, 7, 0, []int32{2}, 7)
	op(true, 4, 0, []int32{2}, 8, 9)
	op(false, 6, 0, []int32{6}, 10)
	op(true, 4, 0, []int32{10}, 11)
	op(false, 7, 0, []int32{7}, 12)
	op(false, 1, 6, []int32{8, 12}, 13)
	op(false, 1, 6, []int32{8, 13}, 14)
	op(false, 2, 2, []int32{1, 14}, 15)
	op(false, 3, 0, []int32{15}, 16)
	op(false, 6, 17, []int32{5, 16}, 17)
	op(false, 2, 0, []int32{3, 17}, 18)
	op(false, 1, 0, []int32{18}, 19)
	op(false, 4, 0, []int32{0, 19}, 20)
	op(false, 7, 0, []int32{0, 20}, 21)
	s := solver(t, p)
	plan, ok := s.Solve(133, recompute.Ask{})
	if !ok || plan.Extra != 6 {
		t.Fatalf("%+v, want a plan for 6", plan)
	}
	if bound, ok := solver(t, p).Bound(133, math.Inf(1)); !ok || bound > 6+1e-9 {
		t.Errorf("a bound of %v on a plan for 6", bound)
	}
}

// TestScarce: a room that is a little too small for large values, which no price
// shows, is no place to begin at.
func TestScarce(t *testing.T) {
	const much = 1 << 40
	p := &recompute.Problem{Border: 5, Bytes: []int64{much + 1, much + 1, 0, 0, much + 1, 0, much, much + 1, much + 1, 0, much + 1, 0}, Held: make([]bool, 12)}
	op := func(again bool, inputs, over []int32, outputs ...int32) {
		p.Again, p.Cost, p.Work = append(p.Again, again), append(p.Cost, 1), append(p.Work, 0)
		p.Inputs.Add(inputs...)
		p.Outputs.Add(outputs...)
		p.Over.Add(over...)
	}
	op(false, nil, nil, 0)
	op(true, []int32{0}, []int32{0}, 1, 2, 3)
	op(true, nil, nil, 4)
	op(true, []int32{3}, []int32{3}, 5)
	op(false, []int32{4}, nil, 6)
	op(false, nil, nil, 7)
	op(false, []int32{4, 1}, []int32{1}, 8)
	op(false, []int32{2}, []int32{2}, 9)
	op(false, []int32{2}, nil, 10)
	op(false, []int32{10}, nil, 11)
	s := solver(t, p)
	const limit = 2356223372752
	if a, ok := s.Solve(limit, recompute.Ask{}); ok {
		t.Errorf("a plan within %d, where nothing fits: %+v", int64(limit), a)
	}
}

// TestForced: what must be forgotten at the border is made again before anything
// reads it behind that, however the launches were found.
func TestForced(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	plans := 0
	for range 1000 {
		p := random(r, 2+r.IntN(11))
		p.Forced = make([]bool, len(p.Bytes))
		for op := range p.Border {
			for _, v := range p.Outputs.Of(op) {
				p.Forced[v] = p.Again[op] && !p.Held[v] && (p.Until == nil || p.Until[v] <= p.Border) && r.IntN(3) == 0
			}
		}
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		base, _ := s.Solve(math.MaxInt64/4, recompute.Ask{})
		limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(101))/100
		a, ok := s.Solve(limit, recompute.Ask{})
		if !ok {
			continue
		}
		plans++
		behind := slices.Index(a.Launches, p.Border-1) + 1
		gone := slices.Clone(p.Forced)
		for _, op := range a.Launches[behind:] {
			for _, v := range p.Inputs.Of(op) {
				if gone[v] {
					t.Fatalf("within %d: operator %d reads value %d, which must be made again before, in %v", limit, op, v, a.Launches)
				}
			}
			for _, v := range p.Outputs.Of(op) {
				gone[v] = false
			}
		}
	}
	t.Logf("%d plans", plans)
}

// TestAny: where Solve finds a plan, Any finds one too, but for few limits, and it keeps within the limit.
func TestAny(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	some, missed := 0, 0
	for range 200 {
		p := random(r, 40+r.IntN(40))
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		base, _ := s.Solve(math.MaxInt64/4, recompute.Ask{})
		limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(101))/100
		a, found := s.Solve(limit, recompute.Ask{Effort: recompute.Any})
		if _, ok := s.Solve(limit, recompute.Ask{}); ok {
			if some++; !found {
				missed++
			}
		}
		if !found {
			continue
		}
		if peak, extra, err := recompute.Check(p, a.Launches); err != nil || peak > limit || peak != a.Peak || extra < a.Bound-1e-9 {
			t.Fatalf("a plan within %d has a peak of %d, costs %v and has a bound of %v (%v)", limit, peak, extra, a.Bound, err)
		}
	}
	t.Logf("%d of %d limits missed", missed, some)
	if missed > some/20 {
		t.Errorf("%d of %d limits have a plan that Any does not find", missed, some)
	}
}

// TestFind: there is a plan for a cost if and only if Solve finds one for it.
func TestFind(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	dearer, ruled := 0, 0
	for range 400 {
		p := random(r, 2+r.IntN(30))
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		base, _ := s.Solve(math.MaxInt64/4, recompute.Ask{})
		limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(101))/100
		best, ok := s.Solve(limit, recompute.Ask{})
		if bound, _ := s.Bound(limit, 0); ok && bound > 0 {
			ruled++
			if a, found := s.Solve(limit, recompute.Ask{Most: bound / 2}); found {
				t.Fatalf("a plan within %d costs %v, proven are at least %v", limit, a.Extra, bound)
			}
		}
		for _, most := range []float64{best.Extra, best.Extra + float64(r.IntN(20)), math.Inf(1)} {
			a, found := s.Solve(limit, recompute.Ask{Most: most})
			if found != ok {
				t.Fatalf("within %d: Solve finds a plan: %v, Find: %v", limit, ok, found)
			}
			if !ok {
				continue
			}
			if peak, extra, err := recompute.Check(p, a.Launches); err != nil || peak > limit || extra > most+1e-9 {
				t.Fatalf("a plan within %d for at most %v has a peak of %d and costs %v (%v)", limit, most, peak, extra, err)
			}
			if a.Extra > best.Extra {
				dearer++
			}
		}
	}
	if dearer == 0 {
		t.Error("no search ended before the best plan")
	}
	if ruled == 0 {
		t.Error("no bound ruled a cost out")
	}
}

// belittle has a program make little values, so that many fit, each with a place of its own.
func belittle(p *recompute.Problem) {
	for v := range p.Bytes {
		p.Bytes[v] = 1 + p.Bytes[v]/8
	}
	p.Over = recompute.Lists{}
	for range p.Cost {
		p.Over.Add()
	}
}

// halfLittle is a random program of so many operators, that makes little values if it is one of every other.
func halfLittle(r *rand.Rand, nth, operators int) *recompute.Problem {
	p := random(r, operators)
	if nth%2 == 0 {
		belittle(p)
	}
	return p
}

// limited is a solver and a random limit between the floor and what keeping everything takes.
func limited(t testing.TB, r *rand.Rand, p *recompute.Problem) (s *recompute.Solver, limit int64) {
	s = solver(t, p)
	floor := recompute.FloorOf(p).Peak
	base, _ := s.Solve(1<<40, recompute.Ask{})
	return s, floor + (base.Peak-floor)*int64(r.IntN(100))/100
}

// add appends an operator that makes one value, and gives that.
func add(p *recompute.Problem, again bool, cost float64, bytes int64, inputs ...int32) int32 {
	out := int32(len(p.Bytes))
	p.Cost, p.Work, p.Again = append(p.Cost, cost), append(p.Work, 0), append(p.Again, again)
	p.Bytes, p.Held = append(p.Bytes, bytes), append(p.Held, false)
	p.Inputs.Add(inputs...)
	p.Outputs.Add(out)
	p.Over.Add()
	return out
}

// TestOtherLimits: what is proven for a limit does not depend on which were asked
// for before, also where a program is so long that it is a matter of work.
func TestOtherLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 78))
	p := &recompute.Problem{}
	op := func(again bool, cost, bytes int, inputs ...int32) int32 {
		return add(p, again, float64(cost), int64(bytes), inputs...)
	}
	const parts, values = 150, 11
	last := op(false, 1, 100)
	var made []int32
	for range parts {
		for i := range values {
			var in []int32
			if i > 0 {
				in = append(in, made[len(made)-1])
				if other := made[len(made)-1-r.IntN(i)]; other != in[0] {
					in = append(in, other)
				}
			}
			made = append(made, op(true, 1+r.IntN(1<<30), 1+r.IntN(1<<40), in...))
		}
		last = op(false, 1, 100, last, made[len(made)-1])
	}
	p.Border = int32(len(p.Cost))
	for i := range made {
		last = op(false, 1, 100, made[len(made)-1-i], last)
	}
	fresh := func() *recompute.Solver {
		s := solver(t, p)
		return s
	}
	all := int64(0)
	for _, b := range p.Bytes {
		all += b
	}
	used := fresh()
	for _, tenths := range []int64{5, 4, 3} {
		limit := all / 10 * tenths
		before, ok := used.Bound(limit, 0)
		if bound, is := fresh().Bound(limit, 0); bound != before || is != ok {
			t.Errorf("within %d a bound of %v, after others one of %v", limit, bound, before)
		}
	}
}

// TestBruteForce: no set of values forgotten at the border, nor one event more,
// beats a plan of a small program.
func TestBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	better := 0
	for range 300 {
		p := random(r, 2+r.IntN(7))
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		base, _ := s.Solve(math.MaxInt64/4, recompute.Ask{})
		for range 3 {
			limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(101))/100
			a, ok := s.Solve(limit, recompute.Ask{})
			least := s.BruteForce(limit)
			switch {
			case !ok && !math.IsInf(least, 1):
				t.Fatalf("no plan within %d, but there is one for %v", limit, least)
			case ok && a.Extra > least+1e-9:
				t.Fatalf("a plan for %v within %d, but there is one for %v", a.Extra, limit, least)
			case ok && a.Extra < least-1e-9:
				better++
			}
		}
	}
	t.Logf("%d plans are cheaper than any simple one", better)
}

// TestMonotone: less memory never costs less, nor does it need more.
func TestMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 150 {
		p := random(r, 2+r.IntN(9))
		s := solver(t, p)
		base, _ := s.Solve(math.MaxInt64/4, recompute.Ask{})
		extra, none := 0.0, false
		for limit := base.Peak; limit > 0; limit -= max(1, base.Peak/20) {
			a, ok := s.Solve(limit, recompute.Ask{})
			if !ok {
				none = true
				continue
			}
			if none || a.Extra < extra-1e-9 {
				t.Fatalf("extra %v within %d, but %v for more", a.Extra, limit, extra)
			}
			extra = a.Extra
		}
	}
}

// TestNothing: a program of nothing takes no bytes, and not less.
func TestNothing(t *testing.T) {
	s := solver(t, &recompute.Problem{})
	for _, limit := range []int64{-5, 0, 5} {
		_, solved := s.Solve(limit, recompute.Ask{})
		_, sketched := s.Solve(limit, recompute.Ask{Effort: recompute.Sketch})
		_, found := s.Solve(limit, recompute.Ask{Most: 1})
		_, proven := s.Bound(limit, math.Inf(1))
		if want := limit >= 0; solved != want || sketched != want || found != want || proven != want {
			t.Errorf("within %d: solved %v, sketched %v, found %v, may be %v", limit, solved, sketched, found, proven)
		}
	}
}

// TestHostile: problems that are none are refused.
func TestHostile(t *testing.T) {
	cases := map[string]func(p *recompute.Problem){
		"other lengths":           func(p *recompute.Problem) { p.Work = p.Work[1:] },
		"border 9 of":             func(p *recompute.Problem) { p.Border = 9 },
		"value 0 has -1 bytes":    func(p *recompute.Problem) { p.Bytes[0] = -1 },
		"value 1 has 92233720":    func(p *recompute.Problem) { p.Bytes[0], p.Bytes[1] = math.MaxInt64, math.MaxInt64 },
		"costs NaN":               func(p *recompute.Problem) { p.Cost[0] = math.NaN() },
		"before it +Inf":          func(p *recompute.Problem) { p.Cost[0], p.Cost[1] = math.MaxFloat64, math.MaxFloat64 },
		"needs -5 bytes":          func(p *recompute.Problem) { p.Work[0] = -5 },
		"reads value 1 before":    func(p *recompute.Problem) { p.Inputs = recompute.Lists{}; p.Inputs.Add(1); p.Inputs.Add() },
		"writes value 0, which":   func(p *recompute.Problem) { p.Outputs = recompute.Lists{}; p.Outputs.Add(0); p.Outputs.Add(0) },
		"must be forgotten, but ": func(p *recompute.Problem) { p.Forced = []bool{false, true} },
		"forgotten, but stays":    func(p *recompute.Problem) { p.Forced, p.Until = []bool{true, false}, []int32{2, 0} },
		"stays up to operator 3":  func(p *recompute.Problem) { p.Until = []int32{3, 0} },
		"made by operator 1 of 2": func(p *recompute.Problem) { p.Until = []int32{0, 1} },
		"writes over value 0": func(p *recompute.Problem) {
			p.Until, p.Over = []int32{2, 0}, recompute.Lists{}
			p.Over.Add()
			p.Over.Add(0)
		},
		"but is never made": func(p *recompute.Problem) {
			p.Bytes, p.Held, p.Until = append(p.Bytes, 1), append(p.Held, false), []int32{0, 0, 1}
		},
	}
	for want, spoil := range cases {
		p := &recompute.Problem{Cost: []float64{1, 1}, Work: []int64{0, 0}, Again: []bool{true, false}, Border: 1, Bytes: []int64{4, 4}, Held: []bool{false, true}}
		p.Inputs.Add()
		p.Inputs.Add(0)
		p.Outputs.Add(0)
		p.Outputs.Add(1)
		p.Over.Add()
		p.Over.Add()
		if _, err := recompute.New(p); err != nil {
			t.Fatal(err)
		}
		spoil(p)
		if _, err := recompute.New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want … %s …", err, want)
		}
	}
}

// TestListed: in which order operators list what they read does not matter.
func TestListed(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	for range 200 {
		p := random(r, 4+r.IntN(24))
		q := *p
		q.Inputs = recompute.Lists{}
		for op := range int32(len(p.Cost)) {
			ins := slices.Clone(p.Inputs.Of(op))
			r.Shuffle(len(ins), func(i, j int) { ins[i], ins[j] = ins[j], ins[i] })
			q.Inputs.Add(ins...)
		}
		base, _ := solver(t, p).Solve(math.MaxInt64/4, recompute.Ask{})
		limit := base.Peak * int64(40+r.IntN(60)) / 100
		a, ok := solver(t, p).Solve(limit, recompute.Ask{})
		b, found := solver(t, &q).Solve(limit, recompute.Ask{})
		if ok != found || a.Extra != b.Extra || !slices.Equal(a.Launches, b.Launches) {
			t.Fatalf("within %d: %v %+v; listed in another order %v %+v", limit, ok, a, found, b)
		}
	}
}

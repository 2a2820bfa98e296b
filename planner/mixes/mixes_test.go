package mixes

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// random is a problem of few parts, with one room or two.
func random(r *rand.Rand) *Problem {
	p := &Problem{Whole: 1 << 20, Single: r.IntN(3) == 0}
	bytes := func() int64 { return int64(r.IntN(1 + r.IntN(40))) }
	var sum, least [2]int64
	for range 1 + r.IntN(4) {
		k := Kind{Times: 1 + r.IntN(3)}
		for range 1 + r.IntN(4) {
			c := Choice{Bytes: [2]int64{bytes(), bytes()}, Cost: int64(r.IntN(1 << 18))}
			if p.Single {
				c.Bytes[1] = 0
			}
			k.Choices = append(k.Choices, c)
		}
		for b := range sum {
			sum[b] += k.Choices[0].Bytes[b] * int64(k.Times)
			fewest := slices.MinFunc(k.Choices, func(x, y Choice) int { return cmp.Compare(x.Bytes[b], y.Bytes[b]) })
			least[b] += fewest.Bytes[b] * int64(k.Times)
		}
		p.Kinds = append(p.Kinds, k)
	}
	for b := range sum {
		if p.Room[b] = int64(r.IntN(int(sum[b]) + 2)); r.IntN(5) > 0 {
			p.Room[b] += least[b]
		}
	}
	return p
}

// exactly is the least cost of all ways to choose.
func exactly(p *Problem) float64 {
	least := math.Inf(1)
	var choose func(kind, part int, bytes [2]int64, cost int64)
	choose = func(kind, part int, bytes [2]int64, cost int64) {
		switch {
		case kind == len(p.Kinds):
			if bytes[0] <= p.Room[0] && bytes[1] <= p.Room[1] {
				least = min(least, float64(cost))
			}
		case part == p.Kinds[kind].Times:
			choose(kind+1, 0, bytes, cost)
		default:
			for _, c := range p.Kinds[kind].Choices {
				choose(kind, part+1, [2]int64{bytes[0] + c.Bytes[0], bytes[1] + c.Bytes[1]}, cost+c.Cost)
			}
		}
	}
	choose(0, 0, [2]int64{}, 0)
	return least
}

// TestMixes: prices bound what the best of all ways costs, mixes within reach of the bound say no more and find it, and the
// cheapest of them fit and cost what they are said to.
func TestMixes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	exact, infeasible, gaps := 0, 0, 0
	for n := range 3000 {
		p := random(r)
		least := exactly(p)
		p.SetPrices()
		if p.Bound > least*(1+1e-9)+1 {
			t.Fatalf("problem %d: prices say %v, the best way costs %v: %+v", n, p.Bound, least, p)
		}
		if math.IsInf(least, 1) {
			infeasible++
		} else if p.Bound < least-1 {
			gaps++
		}
		for _, reach := range []float64{1e-3 * p.Whole, 0.1 * p.Whole, 2 * p.Whole} {
			want := min(least, p.Bound+reach*(1+1e-9)+1)
			if said, _, _ := p.mix(reach, true); math.Abs(said-want) > 1e-9*p.Whole && !(math.IsInf(said, 1) && math.IsInf(want, 1)) {
				t.Fatalf("problem %d, as far as %v: mixes say %v, the best way costs %v: %+v", n, reach, said, least, p)
			}
		}
		bound, cheapest := p.Best(math.Inf(1), 0)
		if bound > least+1e-6*p.Whole {
			t.Fatalf("problem %d: bound %v, the best way costs %v: %+v", n, bound, least, p)
		}
		for i, m := range cheapest {
			var bytes [2]int64
			cost := 0.0
			for k, chosen := range m {
				if len(chosen) != p.Kinds[k].Times {
					t.Fatalf("problem %d: %d choices for %d parts", n, len(chosen), p.Kinds[k].Times)
				}
				for _, c := range chosen {
					x := p.Kinds[k].Choices[c]
					bytes[0], bytes[1], cost = bytes[0]+x.Bytes[0], bytes[1]+x.Bytes[1], cost+float64(x.Cost)
				}
			}
			if bytes[0] > p.Room[0] || bytes[1] > p.Room[1] || cost < least {
				t.Fatalf("problem %d: a mix of %v bytes for %v; the best way costs %v: %+v", n, bytes, cost, least, p)
			}
			if i == 0 && cost == least {
				exact++
			}
		}
	}
	if t.Logf("%d found exactly, %d infeasible, %d with a gap", exact, infeasible, gaps); exact < 1000 || infeasible < 100 || gaps < 300 {
		t.Errorf("only %d were found exactly, %d are infeasible, %d have a gap", exact, infeasible, gaps)
	}
}

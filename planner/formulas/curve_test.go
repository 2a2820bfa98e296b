package formulas

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// formula draws a formula of batch and seq.
func formula(rng *rand.Rand) string {
	var all []string
	for range 1 + rng.IntN(4) {
		all = append(all, fmt.Sprintf("%d*%s", rng.IntN(41)-20, []string{"1", "batch", "seq", "batch*seq", "batch*batch", "ceil(batch/7)", "floor(seq/3)", "ceil(batch*seq/5)", "max(0, batch - 9)", "max(batch, seq)"}[rng.IntN(10)]))
	}
	return strings.Join(all, " + ")
}

// someRows are random formulas and their rows, each of which is its formula.
func someRows(t *testing.T, rng *rand.Rand, terms *terms, n int) (dims []graph.Dim, rows []polynomial) {
	t.Helper()
	for range n {
		d, err := graph.ParseDim(formula(rng))
		if err != nil {
			t.Fatal(err)
		}
		row, err := terms.of(d)
		if err != nil {
			t.Fatal(err)
		}
		if !terms.dim(row).Equal(d) {
			t.Fatalf("the row of %s is %s", d, terms.dim(row))
		}
		dims, rows = append(dims, d), append(rows, row)
	}
	return dims, rows
}

// TestRows: a row is its formula at all sizes, sums of rows are sums of formulas, and a row that is below another is so everywhere.
func TestRows(t *testing.T) {
	rng, below := rand.New(rand.NewPCG(1, 2)), 0
	for range 300 {
		terms := newTerms()
		dims, rows := someRows(t, rng, terms, 3)
		sum := slices.Clone(rows[0]).plus(rows[1], 3)
		less := terms.below(rows[0], rows[2])
		if less {
			below++
		}
		for range 30 {
			b, err := graph.Bind(map[string]int64{"batch": 1 + rng.Int64N(40), "seq": 1 + rng.Int64N(40)})
			if err != nil {
				t.Fatal(err)
			}
			v, ok := terms.values(b)
			if !ok {
				t.Fatal("no values")
			}
			var is [3]int64
			for i, d := range dims {
				if is[i], err = b.Eval(d); err != nil {
					t.Fatal(err)
				}
				if got, ok := rows[i].at(v); !ok || got != is[i] {
					t.Fatalf("%s is %d, its row %d", d, is[i], got)
				}
			}
			if got, _ := sum.at(v); got != is[0]+3*is[1] {
				t.Fatalf("%s and three times %s are %d, not %d", dims[0], dims[1], is[0]+3*is[1], got)
			}
			if less && is[0] > is[2] {
				t.Fatalf("%s is said to be below %s, and they are %d and %d", dims[0], dims[2], is[0], is[2])
			}
		}
	}
	if below == 0 {
		t.Error("no row was below another")
	}
}

// TestCurves: along a dim, curves are their formulas, bounds over stretches are bounds, a stretch around a size is as long as it can
// be, and each piece has the curve that is largest there: as trying every size says.
func TestCurves(t *testing.T) {
	const to = 60
	rng, curves, zeros, several := rand.New(rand.NewPCG(3, 4)), 0, 0, 0
	for range 400 {
		terms := newTerms()
		dims, rows := someRows(t, rng, terms, 1+rng.IntN(4))
		seq, at := 1+rng.Int64N(30), 1+rng.Int64N(to)
		given, err := graph.Bind(map[string]int64{"batch": at, "seq": seq})
		if err != nil {
			t.Fatal(err)
		}
		l := terms.along("batch", given)
		var along []polynomial
		var is [][]int64 // by formula and size
		for i, row := range rows {
			c, ok := l.curve(row)
			if !ok {
				continue
			}
			curves++
			values := make([]int64, to+1)
			for x := int64(1); x <= to; x++ {
				b, err := graph.Bind(map[string]int64{"batch": x, "seq": seq})
				if err != nil {
					t.Fatal(err)
				}
				if values[x], err = b.Eval(dims[i]); err != nil {
					t.Fatal(err)
				}
				if got, ok := l.at(c, x); !ok || got != values[x] {
					t.Fatalf("%s with seq %d at %d is %d, its curve %d", dims[i], seq, x, values[x], got)
				}
			}
			for range 10 {
				lo := 1 + rng.Int64N(to)
				hi := lo + rng.Int64N(to+1-lo)
				if up, ok := l.between(c, lo, hi); ok && up < slices.Max(values[lo:hi+1]) {
					t.Fatalf("%s with seq %d is at most %d from %d to %d, and is %d", dims[i], seq, up, lo, hi, slices.Max(values[lo:hi+1]))
				}
			}
			zero := values[at] == 0
			if zero {
				zeros++
			}
			from, end := l.around(c, zero, at, 1, to)
			first, last := at, at
			for first > 1 && (values[first-1] == 0) == zero {
				first--
			}
			for last < to && (values[last+1] == 0) == zero {
				last++
			}
			if from != first || end != last {
				t.Fatalf("%s with seq %d is 0, or is not, from %d to %d around %d, and not from %d to %d", dims[i], seq, first, last, at, from, end)
			}
			along, is = append(along, c), append(is, values)
		}
		if len(along) == 0 {
			continue
		}
		pieces, ok := l.piecewise(along, 1, to)
		if !ok {
			continue
		}
		if len(pieces) > 1 {
			several++
		}
		next := int64(1)
		for _, p := range pieces {
			if p.from != next || p.to < p.from {
				t.Fatalf("pieces %v", pieces)
			}
			for x := p.from; x <= p.to; x++ {
				for _, other := range is {
					if other[x] > is[p.of][x] {
						t.Fatalf("with seq %d at %d the largest is %d, and the piece says %d: %v", seq, x, other[x], is[p.of][x], dims)
					}
				}
			}
			next = p.to + 1
		}
		if next != to+1 {
			t.Fatalf("pieces %v do not reach %d", pieces, to)
		}
	}
	t.Logf("%d curves, of which %d are 0; %d times of several pieces", curves, zeros, several)
	if curves < 200 || zeros == 0 || several < 20 {
		t.Error("too few of a kind")
	}
}

// TestFar: what leaves 64 bits is no number, and a curve is followed up to there and no farther.
func TestFar(t *testing.T) {
	terms := newTerms()
	d, err := graph.ParseDim("batch*batch*batch*batch + batch")
	if err != nil {
		t.Fatal(err)
	}
	row, err := terms.of(d)
	if err != nil {
		t.Fatal(err)
	}
	given, err := graph.Bind(map[string]int64{"batch": 3})
	if err != nil {
		t.Fatal(err)
	}
	l := terms.along("batch", given)
	c, ok := l.curve(row)
	if !ok {
		t.Fatal("no curve")
	}
	last := l.fits(c, 3, farthest)
	if _, ok := l.at(c, last); !ok {
		t.Errorf("at %d it has left 64 bits", last)
	}
	if _, ok := l.at(c, last+1); ok || last < 30_000 || last > 60_000 { // the fourth root of 2⁶¹ is 38,967
		t.Errorf("it is followed up to %d", last)
	}
	if x, ok := times(1<<40, 1<<40); ok || x != most {
		t.Errorf("2⁴⁰ times itself is %d", x)
	}
}

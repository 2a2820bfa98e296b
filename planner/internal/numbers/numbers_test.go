package numbers

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type item int32

func (a item) Before(b item) bool { return a < b }

// TestHeap: items come out in order, whatever the order in which they went in.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 50 {
		var q Heap[item]
		var all []item
		for range n {
			x := item(r.IntN(20))
			q.Push(x)
			all = append(all, x)
		}
		slices.SortFunc(all, cmp.Compare[item])
		for _, want := range all {
			if got := q.Pop(); got != want {
				t.Fatalf("%d items: %d, not %d", n, got, want)
			}
		}
		if len(q) > 0 {
			t.Fatalf("%v is left of %d items", q, n)
		}
	}
}

// TestSets: both kinds of sets have what was added and not removed.
func TestSets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	large, small, has := New(Set128Limit), Set128{}, [Set128Limit]bool{}
	for range 1000 {
		i := int32(r.IntN(Set128Limit))
		if has[i] = r.IntN(3) > 0; has[i] {
			large.Add(i)
			small = small.With(i)
		} else {
			large.Remove(i)
			small = small.Without(i)
		}
		var want []int32
		for k := range int32(Set128Limit) {
			if has[k] {
				want = append(want, k)
			}
			if large.Has(k) != has[k] || small.Has(k) != has[k] {
				t.Fatalf("%d: %v and %v, not %v", k, large.Has(k), small.Has(k), has[k])
			}
		}
		if got := slices.Collect(large.Each); !slices.Equal(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
		if got := slices.Collect(small.Each); !slices.Equal(got, want) || small.Empty() != (want == nil) {
			t.Fatalf("%v, not %v", got, want)
		}
		next := int32(Set128Limit)
		if k, _ := slices.BinarySearch(want, i); k < len(want) {
			next = want[k]
		}
		if got := large.Next(i, Set128Limit); got != next {
			t.Fatalf("%d follows %d, not %d", got, i, next)
		}
		if want != nil && (small.Lowest() != want[0] || !slices.Equal(slices.Collect(small.Rest().Each), want[1:])) {
			t.Fatalf("%d, then %v: not %v", small.Lowest(), slices.Collect(small.Rest().Each), want)
		}
		if m := One(i); small.Or(m) != small.With(i) || small.Minus(m) != small.Without(i) || small.And(m).Empty() == has[i] {
			t.Fatalf("%d is %v, and the set %v", i, m, want)
		}
	}
}

// TestForest: numbers that are joined, by whatever way, have the smallest as their top.
func TestForest(t *testing.T) {
	up := NewForest(6)
	up.Join(5, 3)
	up.Join(1, 2)
	up.Join(3, 2)
	for i, want := range []int32{0, 1, 1, 1, 4, 1} {
		if got := up.Top(int32(i)); got != want {
			t.Errorf("%d is in the set of %d, not %d", i, got, want)
		}
	}
}

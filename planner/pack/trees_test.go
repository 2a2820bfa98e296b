package pack

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMaxTree: a maxTree agrees with a list of numbers.
func TestMaxTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 5), 1, 600).Draw(t, "values")
		n := int32(len(values))
		var m maxTree
		m.build(values)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			begin := rapid.Int32Range(0, n-1).Draw(t, "begin")
			end := rapid.Int32Range(begin+1, n).Draw(t, "end")
			most, place := m.maxOf(begin, end)
			section := m.find(place)
			if want := slices.Max(values[begin:end]); most != want || section != begin+int32(slices.Index(values[begin:end], want)) {
				t.Fatalf("the largest of [%d, %d) of %v is %d at %d", begin, end, values, most, section)
			}
			add := rapid.Int64Range(-3, 3).Draw(t, "add")
			m.add(begin, end, add)
			for i := range values[begin:end] {
				values[int(begin)+i] += add
			}
			if got := m.values(n); !slices.Equal(got, values) {
				t.Fatalf("values %v, want %v", got, values)
			}
		}
	})
}

// TestMinTree: a minTree agrees with a list of numbers.
func TestMinTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int32Range(0, 9), 1, 600).Draw(t, "values")
		n := int32(len(values))
		var m minTree
		m.build(values)
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			from := rapid.Int32Range(0, n).Draw(t, "from")
			to := rapid.Int32Range(from, n).Draw(t, "to")
			x := rapid.Int32Range(0, 4).Draw(t, "x")
			want := int32(slices.IndexFunc(values[from:to], func(y int32) bool { return y <= x }))
			if want >= 0 {
				want += from
			}
			if got := m.firstAtMost(from, to, x); got != want {
				t.Fatalf("the first of at most %d in [%d, %d) of %v is %d, not %d", x, from, to, values, got, want)
			}
			if want >= 0 {
				values[want] = gone
				m.set(want, gone)
			}
		}
	})
}

// values are the numbers of the first n sections.
func (m *maxTree) values(n int32) (values []int64) {
	for t := range n {
		x, _ := m.maxOf(t, t+1)
		values = append(values, x)
	}
	return values
}

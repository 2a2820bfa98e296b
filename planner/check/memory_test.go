package check

import (
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
)

// TestMemory holds the picture of memory against one tag for each byte.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 1000
		var m memory
		type tag struct {
			v     *graph.Value
			write int // which one it is from; 0 is none
		}
		var plain [size]tag
		filled := rapid.IntRange(0, size).Draw(t, "filled")
		for i := range filled {
			m.set(cell{from: int64(i), to: int64(i) + 1})
			plain[i].write = i + 1
		}
		values := []*graph.Value{nil, {}, {}, {}}
		for write := range rapid.IntRange(1, 60).Draw(t, "writes") {
			from := rapid.Int64Range(0, size-1).Draw(t, "from")
			bytes := rapid.Int64Range(1, min(size-from, rapid.SampledFrom([]int64{8, 400}).Draw(t, "most"))).Draw(t, "bytes")
			write += size
			v := rapid.SampledFrom(values).Draw(t, "value")
			used := false
			for i := from; i < from+bytes; i++ {
				used = used || plain[i].write != 0
			}
			if m.any(from, bytes) != used {
				t.Fatalf("any(%d, %d) is %v", from, bytes, !used)
			}
			spent := m.set(cell{from: from, to: from + bytes, v: v, first: int32(write + 1), last: int32(write + 1)})
			for _, s := range spent {
				if s.to <= from || s.from >= from+bytes {
					t.Fatalf("[%d, %d) was spent by a write of %d at %d", s.from, s.to, bytes, from)
				}
			}
			for i := from; i < from+bytes; i++ {
				plain[i] = tag{v, write + 1}
			}
			at, size := rapid.Int64Range(0, size-1).Draw(t, "at"), rapid.Int64Range(1, 8).Draw(t, "size")
			whole := at+size <= int64(len(plain)) && plain[at].write != 0
			for i := at; whole && i < at+size; i++ {
				whole = plain[i] == plain[at]
			}
			whole = whole && (at == 0 || plain[at-1] != plain[at]) && (at+size == int64(len(plain)) || plain[at+size] != plain[at])
			c := m.exact(at, size)
			// Rests of cut cells are cells without a value.
			if whole && c == nil || c != nil && c.v != nil && (!whole || c.v != plain[at].v) {
				t.Fatalf("exact(%d, %d) is %+v, the bytes there %+v", at, size, c, plain[at])
			}
		}
		end := int64(-1)
		for _, run := range m.runs {
			if len(run) == 0 || len(run) > longest {
				t.Fatalf("a run of %d", len(run))
			}
			for _, c := range run {
				if c.from < end || c.from >= c.to {
					t.Fatalf("cell [%d, %d) after %d", c.from, c.to, end)
				}
				end = c.to
			}
		}
	})
}

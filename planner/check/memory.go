package check

import (
	"cmp"
	"slices"

	"memopt/internal/graph"
)

// memory is a picture of a space: sorted, disjoint ranges with tags, in runs of bounded length, so that putting one in
// moves few.
type memory struct {
	runs       [][]cell
	ends       []int64 // by run: of its last cell
	end        int64   // of the last cell of all
	spent, put []cell  // scratch
}

type cell struct {
	from, to    int64
	v           *graph.Value // nil: work space, or what is left of a value
	first, last int32        // launches that write it and read it last
}

// longest is the most cells of a run.
const longest = 256

// search is the place of the first cell that ends after at: run and index.
func (m *memory) search(at int64) (r, i int) {
	if r, _ = slices.BinarySearch(m.ends, at+1); r < len(m.runs) {
		i, _ = slices.BinarySearchFunc(m.runs[r], at+1, func(c cell, end int64) int { return cmp.Compare(c.to, end) })
	}
	return r, i
}

// exact is the cell that is exactly this range, or nil.
func (m *memory) exact(from, bytes int64) *cell {
	if r, i := m.search(from); r < len(m.runs) && m.runs[r][i].from == from && m.runs[r][i].to == from+bytes {
		return &m.runs[r][i]
	}
	return nil
}

func (m *memory) any(from, bytes int64) bool {
	r, i := m.search(from)
	return r < len(m.runs) && m.runs[r][i].from < from+bytes
}

// set puts a cell in the place of what is there and returns what that was. A cell that is only cut loses its value:
// half a tensor is none. A write over exactly what the same launch reads goes on with that cell's span. What was there
// is in spent until the next call.
func (m *memory) set(x cell) (spent []cell) {
	spent = m.spent[:0]
	if x.from >= m.end {
		m.add(x)
		return spent
	}
	defer func() { m.spent = spent }()
	r, i := m.search(x.from)
	if old := &m.runs[r][i]; old.from == x.from && old.to == x.to {
		if old.last == x.first {
			x.first = old.first
		} else {
			spent = append(spent, *old)
		}
		*old = x
		return spent
	}
	m.end = max(m.end, x.to)
	// What x covers, from cell i of run r to before cell j of run q.
	q, j := r, i
	for {
		for ; j < len(m.runs[q]) && m.runs[q][j].from < x.to; j++ {
			spent = append(spent, m.runs[q][j])
		}
		if j < len(m.runs[q]) || q+1 == len(m.runs) || m.runs[q+1][0].from >= x.to {
			break
		}
		q, j = q+1, 0
	}
	put := append(m.put[:0], x)
	if n := len(spent); n > 0 {
		// The rests hold no value and no bytes in use: their span is empty.
		if rest := spent[0]; rest.from < x.from {
			put = append(m.put[:0], cell{from: rest.from, to: x.from, last: -1}, x)
		}
		if rest := spent[n-1]; rest.to > x.to {
			put = append(put, cell{from: x.to, to: rest.to, last: -1})
		}
	}
	if q > r {
		put = append(put, m.runs[q][j:]...)
		j = len(m.runs[r])
		m.runs, m.ends = slices.Delete(m.runs, r+1, q+1), slices.Delete(m.ends, r+1, q+1)
	}
	run := slices.Replace(m.runs[r], i, j, put...)
	m.put = put
	m.runs[r], m.ends[r] = run, run[len(run)-1].to
	if len(run) > longest {
		half := len(run) / 2
		m.runs, m.ends = slices.Insert(m.runs, r+1, slices.Clone(run[half:])), slices.Insert(m.ends, r, run[half-1].to)
		m.runs[r] = run[:half:half]
	}
	return spent
}

// add puts a cell behind all others.
func (m *memory) add(x cell) {
	m.end = x.to
	if n := len(m.runs); n > 0 && len(m.runs[n-1]) < longest {
		m.runs[n-1], m.ends[n-1] = append(m.runs[n-1], x), x.to
		return
	}
	m.runs, m.ends = append(m.runs, append(make([]cell, 0, longest+1), x)), append(m.ends, x.to)
}

package pack

import (
	"cmp"
	"math"
	"slices"
)

// wheels is how many joints are looked at for pinwheels beside all else, for each life: five times what it took wherever there
// were any.
const wheels = 1000

// pinwheels joins five joints wherever they lie around each other, and reports whether there were any.
func (j *joiner) pinwheels() (any bool) {
	for i := range int32(len(j.all)) {
		if j.turned > wheels*len(j.lives) {
			break
		}
		if t := j.all[i]; t.in == nobody && j.cuts[t.l].end > 0 && j.cuts[t.r].begin > 0 && j.pinwheel(i) {
			any = true
		}
	}
	return any
}

// endsOf is the joints that end at cut t, are part of no other, and are as good as of a size.
func (j *joiner) endsOf(t int32, size int64) (found []int32) {
	c := &j.cuts[t]
	if c.bySize == nil {
		c.bySize = slices.Clone(j.ends(t))
		slices.SortFunc(c.bySize, func(a, b int32) int {
			return cmp.Or(cmp.Compare(j.all[a].size, j.all[b].size), cmp.Compare(a, b))
		})
	}
	slack := max(j.bytes, int64(math.Ceil(j.share*float64(size))))
	from, _ := slices.BinarySearchFunc(c.bySize, size-slack, func(i int32, least int64) int { return cmp.Compare(j.all[i].size, least) })
	for _, i := range c.bySize[from:] {
		if j.turned++; j.all[i].size > size && !j.same(j.all[i].size, size) {
			break
		}
		if j.same(j.all[i].size, size) {
			found = append(found, i)
		}
	}
	slices.Sort(found)
	return found
}

// pinwheel joins joint middle to the four around it: one that begins when low does ends where middle begins, above low, which
// ends with middle, where right begins, below one that begins with middle and ends when right does.
func (j *joiner) pinwheel(middle int32) bool {
	m := j.all[middle]
	lows, rights := j.ends(m.r), j.begins(m.r)
	for _, top := range j.begins(m.l) {
		if j.looks++; top == middle {
			continue
		}
		for _, left := range j.endsOf(m.l, m.size+j.all[top].size) {
			if j.turned > wheels*len(j.lives) {
				return false
			}
			j.turned += len(lows)
			for _, low := range lows {
				if low == middle || j.all[low].l != j.all[left].l {
					continue
				}
				j.turned += len(rights)
				for _, right := range rights {
					up := j.all[low].size
					if j.all[right].r == j.all[top].r && j.same(j.all[right].size, up+m.size) {
						return j.hold(held{low, 0}, held{left, up}, held{middle, up},
							held{top, max(up+m.size, j.all[right].size)}, held{right, 0})
					}
				}
			}
		}
	}
	return false
}

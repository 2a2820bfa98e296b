package pack

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	triple = 8  // joints of which all sums are looked at in ways that look at sums of three too
	long   = 16 // joints of which no sums of three are looked at
	longer = 63 // joints of which no sums are looked at but of the first
)

// sum is the size of some joints that end at a cut or begin there.
type sum struct {
	size int64
	of   uint64 // by place in their list, a bit each
	ends bool
}

// sums adds the sums of joints to others: all, if they are few enough, or those of up to two or three.
func (j *joiner) sums(list []int32, ends bool, sums []sum) []sum {
	most := j.ways[j.way].most
	if len(list) <= most {
		for of := uint64(1); of < 1<<len(list); of++ {
			s := sum{of: of, ends: ends}
			for rest := of; rest != 0; rest &= rest - 1 {
				s.size += j.all[list[bits.TrailingZeros64(rest)]].size
			}
			sums = append(sums, s)
		}
		return sums
	}
	for a, i := range list[:min(len(list), longer)] {
		x := sum{j.all[i].size, 1 << a, ends}
		sums = append(sums, x)
		for b, i := range list[:a] {
			y := sum{x.size + j.all[i].size, x.of | 1<<b, ends}
			sums = append(sums, y)
			if most < triple || len(list) > long {
				continue
			}
			for c, i := range list[:b] {
				sums = append(sums, sum{y.size + j.all[i].size, y.of | 1<<c, ends})
			}
		}
	}
	return sums
}

// twin is some joints that end at a cut, and some that begin there of the same size.
type twin struct {
	ends, begins uint64
	chance       float64 // that they are for no reason
}

// part parts cut t if some that end there are as large as some that begin there, but not all.
func (j *joiner) part(t int32) bool {
	w := j.ways[j.way]
	if j.cuts[t].tried > j.way {
		return false
	}
	j.cuts[t].tried = j.way + 1
	ends, begins := slices.Clone(j.ends(t)), slices.Clone(j.begins(t))
	twins, doubt, many := j.twins(ends, begins)
	if len(twins) == 0 {
		if len(ends) > w.most || len(begins) > w.most || many {
			return false
		}
		if !doubt {
			j.cuts[t].whole = whole
		} else if w.presume {
			j.cuts[t].whole = presumed
		}
		return false
	}
	slices.SortStableFunc(twins, func(a, b twin) int { return cmp.Compare(a.chance, b.chance) })
	var used twin
	for _, p := range twins {
		if p.ends&used.ends != 0 || p.begins&used.begins != 0 ||
			bits.OnesCount64(used.ends|p.ends) == len(ends) && bits.OnesCount64(used.begins|p.begins) == len(begins) {
			continue
		}
		used.ends |= p.ends
		used.begins |= p.begins
		j.move(t, pick(ends, p.ends), pick(begins, p.begins))
		if w.chance > sure {
			break
		}
	}
	j.cuts[t].whole, j.cuts[t].tried = unsure, 0
	j.touch(t)
	return true
}

// twins is those among joints that end at a cut and begin there that are not too likely to be for no reason, one for each size. There
// is doubt if some were left out that are likely, and there may be many of the same size, of which any could be right.
func (j *joiner) twins(ends, begins []int32) (twins []twin, doubt, many bool) {
	w := j.ways[j.way]
	sums := j.sums(begins, false, j.sums(ends, true, nil))
	j.looks += len(sums)
	slices.SortFunc(sums, func(a, b sum) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.of, b.of)) })
	total := float64(j.sumOf(begins))
	for from, to := 0, 0; from < len(sums); from = to {
		for to = from + 1; to < len(sums) && j.same(sums[to].size, sums[to-1].size); to++ {
		}
		best := twin{chance: math.Inf(1)}
		n := 0
		for a := from; a < to; a++ {
			for b := a + 1; b < min(to, a+8); b++ {
				s, o := sums[a], sums[b]
				if s.ends == o.ends || !j.same(s.size, o.size) {
					continue
				}
				if o.ends {
					s, o = o, s
				}
				x, y := bits.OnesCount64(s.of), bits.OnesCount64(o.of)
				if x == len(ends) && y == len(begins) {
					continue
				}
				n++
				chance := picks(len(ends), x) * picks(len(begins), y) * float64(2*differ(s.size, o.size)+1) / total
				if chance < best.chance {
					best = twin{s.of, o.of, chance}
				}
			}
		}
		switch {
		case n == 0:
		case best.chance > w.chance:
			doubt = true
		case n > 1 && w.chance <= sure:
			many = true
		default:
			twins = append(twins, best)
		}
	}
	return twins, doubt, many
}

// picks is in how many ways k of n can be chosen.
func picks(n, k int) float64 {
	ways := 1.0
	for i := range min(k, n-k) {
		ways = ways * float64(n-i) / float64(i+1)
	}
	return ways
}

// pick is those of a list that have their bits in of.
func pick(list []int32, of uint64) (picked []int32) {
	for ; of != 0; of &= of - 1 {
		picked = append(picked, list[bits.TrailingZeros64(of)])
	}
	return picked
}

// move makes a cut of its own of joints that end at cut t or begin there.
func (j *joiner) move(t int32, ends, begins []int32) {
	n := int32(len(j.cuts))
	j.cuts = append(j.cuts, cut{ends: ends, begins: begins, end: int32(len(ends)), begin: int32(len(begins))})
	for _, i := range ends {
		j.all[i].r = n
		j.touch(j.all[i].l)
	}
	for _, i := range begins {
		j.all[i].l = n
		j.touch(j.all[i].r)
	}
	j.cuts[t].end -= int32(len(ends))
	j.cuts[t].begin -= int32(len(begins))
	j.touch(n)
}

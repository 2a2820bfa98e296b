package pack

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A core whose lives are climbed apart is a packing of them all, as high as it says.
func TestCoreApart(t *testing.T) {
	most := 0
	for _, f := range all() {
		problem := f.make(4000, 3)
		if len(problem.Fixed) > 0 {
			continue
		}
		p, goal := wholeOf(problem)
		h := p.core(goal, cores[0])
		parts := h.part.cut()
		offsets, highest := climbApart(parts, nil, goal, math.MaxInt64, len(p.lives))
		var core Problem
		for _, i := range h.in {
			core.Buffers = append(core.Buffers, problem.Buffers[p.lives[i].id])
		}
		s := Solution{Offsets: offsets}
		for i, b := range core.Buffers {
			s.Height = max(s.Height, offsets[i]+b.Size)
		}
		if err := Check(core, s); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		if up(highest, unitOf(problem)) != up(s.Height, unitOf(problem)) {
			t.Errorf("%s: %d high, not %d", f.name, s.Height, highest)
		}
		most = max(most, len(parts))
	}
	if most < 4 {
		t.Errorf("no core is in more than %d parts", most)
	}
}

// The core of two peaks falls into one part for each, and holds all that is alive there.
func TestCoreFalls(t *testing.T) {
	const n = 4000
	r := rand.New(rand.NewPCG(3, 3))
	var p Problem
	for range n {
		p.Buffers = append(p.Buffers, lasting(r.IntN(n), 1+r.IntN(40), 1+r.Int64N(100), 1))
	}
	peaks := []int{n / 5, n / 2}
	for _, at := range peaks {
		for range 300 {
			p.Buffers = append(p.Buffers, lasting(at-r.IntN(10), 11+r.IntN(10), 1+r.Int64N(100), 1))
		}
	}
	q, goal := wholeOf(p)
	h := q.core(goal, cores[0])
	parts := h.cut()
	if len(parts) != len(peaks) {
		t.Fatalf("%d parts, not %d", len(parts), len(peaks))
	}
	for k, at := range peaks {
		in := map[int32]bool{}
		for _, l := range parts[k].lives {
			in[l.id] = true
		}
		for i, b := range p.Buffers {
			if int(b.First) <= at && at < int(b.Last) && !in[int32(i)] {
				t.Errorf("buffer %d, alive at moment %d, is not in the core", i, at)
			}
		}
	}
}

// Packed from the core all lives have their place, near the bound.
func TestFromCore(t *testing.T) {
	packed := 0
	for _, f := range all() {
		problem := f.make(6000, 4)
		p, goal := wholeOf(problem)
		cored := p.fromCore(goal, 2*goal)
		if cored.top == math.MaxInt64 {
			continue
		}
		packed++
		if cored.top > goal+goal/hopeful {
			t.Errorf("%s: %d bytes, for %d alive", f.name, cored.top, goal)
		}
		s := Solution{Offsets: make([]int64, len(problem.Buffers))}
		for _, f := range problem.Fixed {
			s.Offsets[f.Buffer] = f.Offset
		}
		s.read(problem, []*part{&cored})
		if err := Check(problem, s); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	t.Logf("%d families were packed from their core", packed)
	if packed < 28 {
		t.Errorf("only %d families were packed from their core", packed)
	}
}

// Where some parts of a core are new, what stays beside them is a packing, and nothing that makes way could have stayed.
func TestRenewed(t *testing.T) {
	tried := 0
	for _, f := range all() {
		problem := f.make(4000, 3)
		p, goal := wholeOf(problem)
		h := p.core(goal, cores[0])
		known := h.cut()
		if len(problem.Fixed) > 0 || len(known) < 2 || len(h.rest) == 0 {
			continue
		}
		climbed, highest := climbApart(known, nil, goal, math.MaxInt64, len(p.lives))
		top := max(highest, goal+goal/fair)
		at := p.put(h, climbed, top)
		left := h.rest[:1]
		for _, i := range h.rest {
			if at[i]+p.lives[i].size > top {
				left = append(left[:len(left):len(left)], i)
			}
		}
		h = p.joinedBy(h, slices.Compact(left))
		parts := h.cut()
		climbed, _ = climbApart(parts, known, goal, math.MaxInt64, len(p.lives))
		in, offsets := p.renewed(h, climbed, at, parts, known)
		if len(in.in)+len(in.rest) != len(p.lives) {
			t.Errorf("%s: %d lives stay and %d make way, of %d", f.name, len(in.in), len(in.rest), len(p.lives))
		}
		if len(in.rest) < len(h.rest) {
			tried++
		}
		var stays Problem
		for _, i := range in.in {
			stays.Buffers = append(stays.Buffers, problem.Buffers[p.lives[i].id])
		}
		s := Solution{Offsets: offsets}
		for k := range in.in {
			s.Height = max(s.Height, offsets[k]+stays.Buffers[k].Size)
		}
		if err := Check(stays, s); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		isNew := map[int32]bool{} // by id
		for _, q := range parts {
			for _, l := range q.lives {
				isNew[l.id] = !slices.ContainsFunc(known, q.same)
			}
		}
		for _, i := range in.rest {
			l := p.lives[i]
			if !slices.ContainsFunc(h.in, func(j int32) bool { o := p.lives[j]; return isNew[o.id] && o.l < l.r && l.l < o.r }) {
				t.Errorf("%s: life %d meets nothing that is new, and makes way", f.name, i)
			}
		}
	}
	t.Logf("something stayed in %d families", tried)
	if tried < 10 {
		t.Errorf("something stayed in %d families only", tried)
	}
}

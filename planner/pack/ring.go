package pack

import (
	"context"
	"slices"

	"memopt/memopt/stop"
)

// ring packs many lives of which those that begin first end first, or nearly: those of a window that slides along, each as long
// as the others. As they come, each goes behind the one before it, and from the bottom on again where it would end above the
// top. What is alive lies together then, and what ends leaves its bytes ahead of those that come. No more is lost than what is
// left at the top each time around, which is less than the largest life, and what alignments want.
type ring struct {
	lives []life
	floor int64
	at    []int64
	next  []int32 // by life: the one above it of those alive, and behind all lives the bottom, which is above the last
	below []int32
	last  int32 // behind which the next goes
	ends  []int32
	ctx   context.Context // polled for each life
}

const (
	ringTries = 5  // tops
	hops      = 16 // over lives, for each, after which a ring is given up
)

// rings packs p as a ring, as low as a few tries make it.
func rings(p *part, t target) (offsets []int64, top int64) {
	r := newRing(p)
	largest := int64(0) // which is the most that a ring of equal lengths loses
	for _, l := range p.lives {
		largest = max(largest, l.size)
	}
	low, high := t.goal-1, max(t.near, min(t.goal+largest, p.top-1)) // no ring is tried at low or below it
	for try := range ringTries {
		at := high
		if try > 0 {
			at = low + (high-low)/2
		}
		if r.pack(at) {
			offsets, high = slices.Clone(r.at), topOf(p.lives, r.at)
		} else {
			low = at
		}
		if offsets == nil || high <= t.near {
			break
		}
	}
	return offsets, high
}

func newRing(p *part) *ring {
	n := int32(len(p.lives))
	r := &ring{ctx: p.ctx, lives: p.lives, floor: p.floor, at: make([]int64, n), next: make([]int32, n+1), below: make([]int32, n+1)}
	r.ends = make([]int32, n)
	for i := range r.ends {
		r.ends[i] = int32(i)
	}
	r.ends = byTime(r.ends, func(i int32) int32 { return p.lives[i].r })
	return r
}

// pack goes through all lives, and reports false if they do not end at or below top.
func (r *ring) pack(top int64) bool {
	bottom := int32(len(r.lives))
	r.next[bottom], r.below[bottom], r.last = bottom, bottom, bottom
	ended, left := 0, hops*len(r.lives)
	for i, l := range r.lives {
		stop.Poll(r.ctx)
		for ; r.lives[r.ends[ended]].r <= l.l; ended++ {
			r.remove(r.ends[ended])
		}
		if left = r.put(int32(i), top, left); left < 0 {
			return false
		}
	}
	return true
}

// put places life i behind the last, or behind those above that where there is no room. It says how many of so many hops over
// others are left, less than none if there is no room anywhere.
func (r *ring) put(i int32, top int64, left int) int {
	l, bottom := r.lives[i], int32(len(r.lives))
	for b := r.last; ; {
		end := r.floor
		if b != bottom {
			end = r.at[b] + r.lives[b].size
		}
		at, limit, next := up(end, l.align), top, r.next[b]
		if next != bottom {
			limit = r.at[next]
		}
		if at+l.size <= limit {
			r.at[i], r.next[i], r.below[i] = at, next, b
			r.next[b], r.below[next], r.last = i, i, i
			return left
		}
		if b, left = next, left-1; b == r.last || left < 0 {
			return -1
		}
	}
}

// remove takes life i out.
func (r *ring) remove(i int32) {
	r.next[r.below[i]], r.below[r.next[i]] = r.next[i], r.below[i]
	if r.last == i {
		r.last = r.below[i]
	}
}

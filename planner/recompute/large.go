package recompute

import "math/bits"

// large is a set of numbers below mostLarge.
type large [2]uint64

const mostLarge = 128

func (l large) has(b int32) bool      { return l[b>>6]>>(b&63)&1 == 1 }
func (l large) with(b int32) large    { l[b>>6] |= 1 << (b & 63); return l }
func (l large) without(b int32) large { l[b>>6] &^= 1 << (b & 63); return l }
func (l large) or(m large) large      { return large{l[0] | m[0], l[1] | m[1]} }
func (l large) minus(m large) large   { return large{l[0] &^ m[0], l[1] &^ m[1]} }
func (l large) empty() bool           { return l[0]|l[1] == 0 }

// lowest is what each begins with.
func (l large) lowest() int32 {
	if l[0] != 0 {
		return int32(bits.TrailingZeros64(l[0]))
	}
	return int32(64 + bits.TrailingZeros64(l[1]))
}

// each goes through a set.
func (l large) each(yield func(b int32) bool) {
	for w, rest := range l {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(int32(w<<6 + bits.TrailingZeros64(rest))) {
				return
			}
		}
	}
}

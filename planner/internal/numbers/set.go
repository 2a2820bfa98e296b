package numbers

import "math/bits"

// Set is a set of small numbers.
type Set []uint64

// New is an empty set of numbers below n.
func New(n int) Set { return make(Set, (n+63)/64) }

// Has reports whether a number is in the set.
func (b Set) Has(i int32) bool { return b[i>>6]>>(i&63)&1 == 1 }

// Add adds a number.
func (b Set) Add(i int32) { b[i>>6] |= 1 << (i & 63) }

// Remove removes a number.
func (b Set) Remove(i int32) { b[i>>6] &^= 1 << (i & 63) }

// Each yields the numbers of the set in order. The current number may be removed.
func (b Set) Each(yield func(i int32) bool) {
	for w, rest := range b {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(int32(w<<6 + bits.TrailingZeros64(rest))) {
				return
			}
		}
	}
}

// Next is the first number of the set in [from, to), or to if there is none.
func (b Set) Next(from, to int32) int32 {
	if from >= to {
		return to
	}
	w := int(from >> 6)
	rest := b[w] >> (from & 63) << (from & 63)
	for ; rest == 0; rest = b[w] {
		if w++; w<<6 >= int(to) {
			return to
		}
	}
	return min(int32(w<<6+bits.TrailingZeros64(rest)), to)
}

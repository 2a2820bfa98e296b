package recompute

import "math/bits"

// bitset is a set of small numbers.
type bitset []uint64

// newBitset is an empty set of numbers below n.
func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) has(i int32) bool { return b[i>>6]>>(i&63)&1 == 1 }
func (b bitset) add(i int32)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) remove(i int32)   { b[i>>6] &^= 1 << (i & 63) }

// each yields the numbers of the set in order. The current number may be removed.
func (b bitset) each(yield func(i int32) bool) {
	for w, rest := range b {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(int32(w<<6 + bits.TrailingZeros64(rest))) {
				return
			}
		}
	}
}

// next is the first number of the set in [from, to), or to if there is none.
func (b bitset) next(from, to int32) int32 {
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

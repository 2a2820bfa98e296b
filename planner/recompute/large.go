package recompute

import "math/bits"

// large is a set of numbers below mostLarge. It is no array, so that it is worked on in
// registers.
type large struct{ low, high uint64 }

const mostLarge = 128

// one is the set of a number.
func one(b int32) large {
	if b < 64 {
		return large{low: 1 << (b & 63)}
	}
	return large{high: 1 << (b & 63)}
}

func (l large) has(b int32) bool      { return !l.and(one(b)).empty() }
func (l large) with(b int32) large    { return l.or(one(b)) }
func (l large) without(b int32) large { return l.minus(one(b)) }
func (l large) or(m large) large      { return large{l.low | m.low, l.high | m.high} }
func (l large) and(m large) large     { return large{l.low & m.low, l.high & m.high} }
func (l large) minus(m large) large   { return large{l.low &^ m.low, l.high &^ m.high} }
func (l large) empty() bool           { return l.low|l.high == 0 }

// lowest is what each begins with.
func (l large) lowest() int32 {
	if l.low != 0 {
		return int32(bits.TrailingZeros64(l.low))
	}
	return int32(64 + bits.TrailingZeros64(l.high))
}

// each goes through a set.
func (l large) each(yield func(b int32) bool) {
	for from, rest := int32(0), l.low; from < mostLarge; from, rest = from+64, l.high {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(from + int32(bits.TrailingZeros64(rest))) {
				return
			}
		}
	}
}

// rest is a set without its lowest number.
func (l large) rest() large {
	if l.low != 0 {
		return large{l.low & (l.low - 1), l.high}
	}
	return large{high: l.high & (l.high - 1)}
}

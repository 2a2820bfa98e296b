package recompute

import "math/bits"

// bits128 is a set of numbers below maxBits, in registers.
type bits128 struct{ low, high uint64 }

const maxBits = 128

// one is the set of one number.
func one(b int32) bits128 {
	if b < 64 {
		return bits128{low: 1 << (b & 63)}
	}
	return bits128{high: 1 << (b & 63)}
}

func (l bits128) has(b int32) bool        { return !l.and(one(b)).empty() }
func (l bits128) with(b int32) bits128    { return l.or(one(b)) }
func (l bits128) without(b int32) bits128 { return l.minus(one(b)) }
func (l bits128) or(m bits128) bits128    { return bits128{l.low | m.low, l.high | m.high} }
func (l bits128) and(m bits128) bits128   { return bits128{l.low & m.low, l.high & m.high} }
func (l bits128) minus(m bits128) bits128 { return bits128{l.low &^ m.low, l.high &^ m.high} }
func (l bits128) empty() bool             { return l.low|l.high == 0 }

// lowest is the smallest number of a set that is not empty.
func (l bits128) lowest() int32 {
	if l.low != 0 {
		return int32(bits.TrailingZeros64(l.low))
	}
	return int32(64 + bits.TrailingZeros64(l.high))
}

// each yields the numbers of a set in order.
func (l bits128) each(yield func(b int32) bool) {
	for from, rest := int32(0), l.low; from < maxBits; from, rest = from+64, l.high {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(from + int32(bits.TrailingZeros64(rest))) {
				return
			}
		}
	}
}

// rest is a set without its smallest number.
func (l bits128) rest() bits128 {
	if l.low != 0 {
		return bits128{l.low & (l.low - 1), l.high}
	}
	return bits128{high: l.high & (l.high - 1)}
}

package numbers

import "math/bits"

// Set128 is a set of numbers below Set128Limit, in registers.
type Set128 struct{ low, high uint64 }

// Set128Limit is the number of numbers that a Set128 may have.
const Set128Limit = 128

// One is the set of one number.
func One(b int32) Set128 {
	if b < 64 {
		return Set128{low: 1 << (b & 63)}
	}
	return Set128{high: 1 << (b & 63)}
}

// Has reports whether a number is in the set.
func (l Set128) Has(b int32) bool { return !l.And(One(b)).Empty() }

// With is the set with a number.
func (l Set128) With(b int32) Set128 { return l.Or(One(b)) }

// Without is the set without a number.
func (l Set128) Without(b int32) Set128 { return l.Minus(One(b)) }

// Or is the numbers in either set.
func (l Set128) Or(m Set128) Set128 { return Set128{l.low | m.low, l.high | m.high} }

// And is the numbers in both sets.
func (l Set128) And(m Set128) Set128 { return Set128{l.low & m.low, l.high & m.high} }

// Minus is the numbers in the first set alone.
func (l Set128) Minus(m Set128) Set128 { return Set128{l.low &^ m.low, l.high &^ m.high} }

// Empty reports whether there is no number in the set.
func (l Set128) Empty() bool { return l.low|l.high == 0 }

// Lowest is the smallest number of a set that is not empty.
func (l Set128) Lowest() int32 {
	if l.low != 0 {
		return int32(bits.TrailingZeros64(l.low))
	}
	return int32(64 + bits.TrailingZeros64(l.high))
}

// Each yields the numbers of a set in order.
func (l Set128) Each(yield func(b int32) bool) {
	for from, rest := int32(0), l.low; from < Set128Limit; from, rest = from+64, l.high {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(from + int32(bits.TrailingZeros64(rest))) {
				return
			}
		}
	}
}

// Rest is a set without its smallest number.
func (l Set128) Rest() Set128 {
	if l.low != 0 {
		return Set128{l.low & (l.low - 1), l.high}
	}
	return Set128{high: l.high & (l.high - 1)}
}

// Package compare holds two runs of one step against each other: a step against a file of
// reference numbers (Sets), one device against another, value by value (Partings), a step
// that rounds against the exact one (Rounding). It runs nothing: whoever has the numbers
// brings them, and gets distances, the worst of which is named.
//
// Distances are by norm and relative, so one element of thousands does not decide; what
// float32 rounds of a whole gradient is no difference of a part that is nearly zero.
package compare

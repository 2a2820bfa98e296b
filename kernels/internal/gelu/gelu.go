// Package gelu has the constants of Gelu's approximation by tanh, for loops in Go, the generator of vector loops, and
// passes that find it in graphs.
package gelu

// The approximation is x·sigmoid(2u) with u = Scale·(x + Cubic·x³).
const (
	Scale = 0.7978845608028654 // √(2/π)
	Cubic = 0.044715
)

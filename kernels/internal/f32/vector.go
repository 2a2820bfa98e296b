package f32

import (
	"math"
	"unsafe"
)

//go:generate go run ../rowgen .

// The loops over rows have vector forms, which internal/rowgen writes:
// vector_amd64.s. Each takes its rows, numbers and sums as one rowArgs.
// vectors says whether this CPU has them; the loops in Go stand beside them
// for those that have not. What an element becomes depends on its value alone,
// not on its place, and the order of a sum on the row's length alone.

// rowArgs is what a loop gets. The assembly knows where the fields lie.
type rowArgs struct {
	in, out [4]*float32
	sums    *rowSums
	scalars [10]float32
	pad     [4]float32 // what stands for the elements behind the end of an input
}

// rowSums are sums in the making, an addend for each lane, and the greatest
// element, in each lane.
type rowSums struct {
	sums [2][16]float64
	top  [16]float32
}

// WorthVectors is the length from which on a sum is quicker in lanes.
const WorthVectors = 32

// mapping is the arguments of y from x. The rows must be as long as the call
// says.
func mapping(y, x []float32) (a rowArgs) {
	a.out[0], a.in[0] = unsafe.SliceData(y[:len(x)]), unsafe.SliceData(x)
	return a
}

// mapping2 is the arguments of z from x and y.
func mapping2(z, x, y []float32) (a rowArgs) {
	a = mapping(z, x)
	a.in[1] = unsafe.SliceData(y[:len(x)])
	return a
}

// total adds up sum i, neighbours first.
func (s *rowSums) total(i int) float64 {
	v := &s.sums[i]
	a, b := (v[0]+v[1])+(v[2]+v[3]), (v[4]+v[5])+(v[6]+v[7])
	c, d := (v[8]+v[9])+(v[10]+v[11]), (v[12]+v[13])+(v[14]+v[15])
	return (a + b) + (c + d)
}

// rowTail holds the last few elements of rows in pieces that are as long as a
// register, so that they pass through the same instructions as the others.
type rowTail struct {
	args rowArgs
	in   [4][16]float32
	out  [4][16]float32
}

// load takes elements [from, to) of the inputs. It does not take the sums: what
// is stored through t would have to live on the heap, for every row.
func (t *rowTail) load(a *rowArgs, from, to, ins int) {
	for i := range ins {
		piece := &t.in[i]
		for k := range piece {
			piece[k] = a.pad[i]
		}
		copy(piece[:], unsafe.Slice(a.in[i], to)[from:])
	}
}

// store brings the outputs to their place.
func (t *rowTail) store(a *rowArgs, from, to, outs int) {
	for i := range outs {
		copy(unsafe.Slice(a.out[i], to)[from:], t.out[i][:])
	}
}

// MinusInf is less than all other numbers.
var MinusInf = float32(math.Inf(-1))

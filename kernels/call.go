package kernels

import (
	"unsafe"

	"memopt/internal/graph"
)

// input returns the tensor of input i, or nil if it is omitted.
func input(c *graph.Call, i int) *graph.Tensor {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// output returns the tensor of output i, or nil if it is omitted.
func output(c *graph.Call, i int) *graph.Tensor {
	if i < len(c.Out) {
		return c.Out[i]
	}
	return nil
}

// floats views work space as float32.
func floats(scratch []byte) []float32 {
	return (&graph.Tensor{Type: graph.Float32, Bytes: scratch}).F32()
}

// scratch64 views the beginning of the work space as n float64s.
func scratch64(c *graph.Call, n int) []float64 {
	return (&graph.Tensor{Type: graph.Float64, Bytes: c.Scratch[:8*n]}).F64()
}

// scratchComplex views the work space as complex numbers, two float64s each.
func scratchComplex(c *graph.Call) []complex128 {
	f := scratch64(c, len(c.Scratch)/8)
	return unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(f))), len(f)/2)
}

// indexAt reads element i of a tensor of indices into a dim of n elements; negative indices
// count from the end.
func indexAt(c *graph.Call, x *graph.Tensor, i, n int) int {
	k := x.Int(i)
	if k < 0 {
		k += int64(n)
	}
	if k < 0 || k >= int64(n) {
		c.Node.Fail("index %d is outside [%d, %d)", x.Int(i), -n, n)
	}
	return int(k)
}

package kernels

import (
	"unsafe"

	"memopt/memopt/graph"
)

// input is the tensor of input i, or nil if it is omitted.
func input(c *graph.Call, i int) *graph.Tensor {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// output is the tensor of output i, or nil if it is omitted.
func output(c *graph.Call, i int) *graph.Tensor {
	if i < len(c.Out) {
		return c.Out[i]
	}
	return nil
}

// floats sees scratch as float32.
func floats(scratch []byte) []float32 {
	return (&graph.Tensor{Type: graph.Float32, Bytes: scratch}).F32()
}

// scratch64 is the first n float64 of the scratch.
func scratch64(c *graph.Call, n int) []float64 {
	return (&graph.Tensor{Type: graph.Float64, Bytes: c.Scratch[:8*n]}).F64()
}

// scratchComplex sees scratch as complex numbers, which lie as two float64 each.
func scratchComplex(c *graph.Call) []complex128 {
	f := scratch64(c, len(c.Scratch)/8)
	return unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(f))), len(f)/2)
}

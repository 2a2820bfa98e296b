package compare

import (
	"math"

	"memopt/internal/graph"
	"memopt/internal/tensorfile"
)

// noise is the norm of rounding errors in a parameter's gradient, relative to the norm of
// the whole gradient: float32's epsilon. Some gradients are zero except for rounding (the
// key bias of an attention, to which softmax is invariant; a bias before a normalization),
// so their relative errors mean nothing.
const noise = 1.0 / (1 << 23)

// RelErr is ‖x − y‖ / ‖y‖, or relative to whole if the difference is at most noise·whole,
// or ‖x − y‖ if y is zero.
func RelErr(x, y *graph.Tensor, whole float64) float64 {
	d := sum{x: x.Type, y: y}
	d.add(x)
	return d.relErr(whole)
}

// sum accumulates (x − y)² as x is streamed.
type sum struct {
	x    graph.DType
	y    *graph.Tensor
	seen int
	of   float64
}

// Write takes the next bytes of x; they must be whole elements.
func (d *sum) Write(p []byte) (int, error) {
	d.add(&graph.Tensor{Type: d.x, Shape: []int{len(p) / int(d.x.Size())}, Bytes: p})
	return len(p), nil
}

func (d *sum) add(x *graph.Tensor) {
	for i := range x.Len() {
		if a, b := x.Float(i), d.y.Float(d.seen+i); a != b { // two infinities are no distance apart
			d.of += (a - b) * (a - b)
		}
	}
	d.seen += x.Len()
}

func (d *sum) relErr(whole float64) float64 {
	diff := math.Sqrt(d.of)
	if whole > 0 && diff <= noise*whole {
		return diff / whole
	}
	if n := Norm(d.y); diff > 0 && n > 0 {
		return diff / n
	}
	return diff
}

// Norm is the L2 norm of a tensor.
func Norm(x *graph.Tensor) float64 {
	sum := 0.0
	for i := range x.Len() {
		sum += x.Float(i) * x.Float(i)
	}
	return math.Sqrt(sum)
}

// apart is RelErr of the tensors of that name in two sets, which have the same number of
// elements. The first set's is streamed.
func apart(got, want *tensorfile.Set, name string, whole float64) (float64, error) {
	y, err := want.Tensor(name)
	if err != nil {
		return 0, err
	}
	d := sum{x: got.Tensors[name].Type, y: y}
	if err := got.Write(&d, name); err != nil {
		return 0, err
	}
	return d.relErr(whole), nil
}

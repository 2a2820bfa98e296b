package compare

import (
	"math"

	"memopt/memopt/graph"
	"memopt/memopt/tensorfile"
)

// noise is the share of the whole gradient's norm that rounding alone makes of
// a parameter's gradient: some are zero but for it (the key bias of an
// attention, which softmax does not see; a bias before a normalization), and
// two roundings never agree. It is float32's step at 1.
const noise = 1.0 / (1 << 23)

// RelErr is ‖x − y‖ / ‖y‖, or against whole where no more than noise of it
// differs, or ‖x − y‖ itself if y is zero.
func RelErr(x, y *graph.Tensor, whole float64) float64 {
	d := sum{x: x.Type, y: y}
	d.add(x)
	return d.relErr(whole)
}

// sum adds up (x − y)² for numbers of x in their order.
type sum struct {
	x    graph.DType
	y    *graph.Tensor
	seen int
	of   float64
}

// Write takes the next bytes of x, of whole numbers.
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

// Norm is the root of the sum of the squares of a tensor's numbers.
func Norm(x *graph.Tensor) float64 {
	sum := 0.0
	for i := range x.Len() {
		sum += x.Float(i) * x.Float(i)
	}
	return math.Sqrt(sum)
}

// apart is relErr of two sets' tensors of a name, of as many numbers. That of the first
// set passes by in pieces, from where it is.
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

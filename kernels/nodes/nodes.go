// Package nodes builds graphs of models that are written in Go, with one method for each
// operator. Methods take the name of the result, and attributes as arguments. The package has
// the operators that package zoo needs; gradient rules use graph.Builder.Op instead.
package nodes

import (
	"fmt"
	"strings"

	"memopt/internal/graph"
)

// Builder appends nodes to its graph. Like graph.Builder it panics on errors; graph.Try turns
// panics into errors.
type Builder struct{ *graph.Builder }

// New returns a builder of a new graph. The library must have all operators that are used.
func New(lib *graph.Library, name string) Builder {
	return Builder{graph.NewBuilder(graph.New(lib, name))}
}

// node appends a node with the given output names; the first is also the node's name.
func (b Builder) node(names []string, op string, attrs []graph.Attr, in ...*graph.Value) []*graph.Value {
	domain := ""
	if at := strings.LastIndexByte(op, '.'); at >= 0 {
		domain, op = op[:at], op[at+1:]
	}
	o := b.Graph.Lib.Find(domain, op, 0)
	if o == nil {
		panic(&Missing{op})
	}
	outs, err := b.Node(o, names[0], attrs, in, names)
	if err != nil {
		panic(err)
	}
	return outs
}

// Missing is the error of a builder whose library lacks an operator.
type Missing struct{ Op string }

func (e *Missing) Error() string { return fmt.Sprintf("the operator library has no %s", e.Op) }

func (b Builder) one(name, op string, attrs []graph.Attr, in ...*graph.Value) *graph.Value {
	return b.node([]string{name}, op, attrs, in...)[0]
}

func ints(name string, vs ...int64) graph.Attr { return graph.Attr{Name: name, Value: vs} }

func number(name string, v int) graph.Attr { return graph.Attr{Name: name, Value: int64(v)} }

// Add is x + y, broadcast.
func (b Builder) Add(name string, x, y *graph.Value) *graph.Value {
	return b.one(name, "Add", nil, x, y)
}

// Mul is x·y, broadcast.
func (b Builder) Mul(name string, x, y *graph.Value) *graph.Value {
	return b.one(name, "Mul", nil, x, y)
}

// Neg is −x.
func (b Builder) Neg(name string, x *graph.Value) *graph.Value { return b.one(name, "Neg", nil, x) }

// Cos is cos x.
func (b Builder) Cos(name string, x *graph.Value) *graph.Value { return b.one(name, "Cos", nil, x) }

// Sin is sin x.
func (b Builder) Sin(name string, x *graph.Value) *graph.Value { return b.one(name, "Sin", nil, x) }

// Relu is max(x, 0).
func (b Builder) Relu(name string, x *graph.Value) *graph.Value { return b.one(name, "Relu", nil, x) }

// Sigmoid is 1/(1 + e⁻ˣ).
func (b Builder) Sigmoid(name string, x *graph.Value) *graph.Value {
	return b.one(name, "Sigmoid", nil, x)
}

// Gelu is x·Φ(x), or its approximation "tanh"; "none" is exact.
func (b Builder) Gelu(name string, x *graph.Value, approximate string) *graph.Value {
	return b.one(name, "Gelu", []graph.Attr{{Name: "approximate", Value: approximate}}, x)
}

// Cast converts x to a type.
func (b Builder) Cast(name string, x *graph.Value, to graph.DType) *graph.Value {
	return b.one(name, "Cast", []graph.Attr{number("to", int(to))}, x)
}

// Where is x where the condition holds, else y.
func (b Builder) Where(name string, condition, x, y *graph.Value) *graph.Value {
	return b.one(name, "Where", nil, condition, x, y)
}

// LessOrEqual is x ≤ y.
func (b Builder) LessOrEqual(name string, x, y *graph.Value) *graph.Value {
	return b.one(name, "LessOrEqual", nil, x, y)
}

// Range is start, start + delta, …, below limit.
func (b Builder) Range(name string, start, limit, delta *graph.Value) *graph.Value {
	return b.one(name, "Range", nil, start, limit, delta)
}

// Dropout drops elements with probability ratio if training is true.
func (b Builder) Dropout(name string, x, ratio, training *graph.Value) *graph.Value {
	return b.one(name, "Dropout", nil, x, ratio, training)
}

// Reshape is x in another shape.
func (b Builder) Reshape(name string, x, shape *graph.Value) *graph.Value {
	return b.one(name, "Reshape", nil, x, shape)
}

// Flatten is x as a matrix, split before an axis.
func (b Builder) Flatten(name string, x *graph.Value, axis int) *graph.Value {
	return b.one(name, "Flatten", []graph.Attr{number("axis", axis)}, x)
}

// Unsqueeze is x with dims of 1 at axes.
func (b Builder) Unsqueeze(name string, x, axes *graph.Value) *graph.Value {
	return b.one(name, "Unsqueeze", nil, x, axes)
}

// Expand is x broadcast to a shape.
func (b Builder) Expand(name string, x, shape *graph.Value) *graph.Value {
	return b.one(name, "Expand", nil, x, shape)
}

// Transpose is x with its dims in another order.
func (b Builder) Transpose(name string, x *graph.Value, perm ...int64) *graph.Value {
	return b.one(name, "Transpose", []graph.Attr{ints("perm", perm...)}, x)
}

// Split is as many equal parts of x along an axis as there are names.
func (b Builder) Split(names []string, x *graph.Value, axis int) []*graph.Value {
	return b.node(names, "Split", []graph.Attr{number("axis", axis), number("num_outputs", len(names))}, x)
}

// Concat concatenates values along an axis.
func (b Builder) Concat(name string, axis int, in ...*graph.Value) *graph.Value {
	return b.one(name, "Concat", []graph.Attr{number("axis", axis)}, in...)
}

// Gather is the rows of a table at indices.
func (b Builder) Gather(name string, table, indices *graph.Value) *graph.Value {
	return b.one(name, "Gather", nil, table, indices)
}

// MatMul is the matrix product over the last two dims of x and y.
func (b Builder) MatMul(name string, x, y *graph.Value) *graph.Value {
	return b.one(name, "MatMul", nil, x, y)
}

// Gemm is x·w + bias of matrices; bias may be nil.
func (b Builder) Gemm(name string, x, w, bias *graph.Value) *graph.Value {
	return b.one(name, "Gemm", nil, with(bias, x, w)...)
}

// Linear is x·wᵀ + bias, with PyTorch's layout of weights; bias may be nil.
func (b Builder) Linear(name string, x, w, bias *graph.Value) *graph.Value {
	return b.one(name, "Gemm", []graph.Attr{number("transB", 1)}, with(bias, x, w)...)
}

func with(bias *graph.Value, in ...*graph.Value) []*graph.Value {
	if bias != nil {
		in = append(in, bias)
	}
	return in
}

// Softmax is eˣ/Σ eˣ along an axis.
func (b Builder) Softmax(name string, x *graph.Value, axis int) *graph.Value {
	return b.one(name, "Softmax", []graph.Attr{number("axis", axis)}, x)
}

// FlashAttentionGrads are the gradients of FlashAttention by q, k and v, for that of y; lse is the other thing that it makes.
func (b Builder) FlashAttentionGrads(name string, dy, q, k, v, y, lse *graph.Value, scale float64) []*graph.Value {
	return b.node([]string{name, name + " of k", name + " of v"}, "memopt.FlashAttentionGrad", []graph.Attr{{Name: "scale", Value: scale}}, dy, q, k, v, y, lse)
}

// FlashAttention is the softmax of scale·q·kᵀ times v, of matrices [batch, rows, width], by tiles.
func (b Builder) FlashAttention(name string, q, k, v *graph.Value, scale float64) *graph.Value {
	return b.node([]string{name, name + " lse"}, "memopt.FlashAttention", []graph.Attr{{Name: "scale", Value: scale}}, q, k, v)[0]
}

// LayerNorm is x normalized over its last dim, scaled and shifted.
func (b Builder) LayerNorm(name string, x, scale, bias *graph.Value, epsilon float64) *graph.Value {
	return b.one(name, "LayerNormalization", []graph.Attr{number("axis", -1), {Name: "epsilon", Value: epsilon}}, x, scale, bias)
}

// RMSNorm is x divided by its root mean square over the last dim, scaled.
func (b Builder) RMSNorm(name string, x, scale *graph.Value, epsilon float64) *graph.Value {
	return b.one(name, "RMSNormalization", []graph.Attr{number("axis", -1), {Name: "epsilon", Value: epsilon}}, x, scale)
}

// BatchNorm is batch normalization in training mode; it returns y and the new running mean and
// variance. momentum is the weight of the old ones.
func (b Builder) BatchNorm(names [3]string, x, scale, bias, mean, variance *graph.Value, epsilon, momentum float64) []*graph.Value {
	return b.node(names[:], "BatchNormalization",
		[]graph.Attr{{Name: "epsilon", Value: epsilon}, {Name: "momentum", Value: momentum}, number("training_mode", 1)},
		x, scale, bias, mean, variance)
}

// Window is the sliding window of 2-d convolutions and pools: a square with the same stride and
// padding in both dims.
type Window struct{ Size, Stride, Pad int }

func (w Window) attrs() []graph.Attr {
	k, s, p := int64(w.Size), int64(w.Stride), int64(w.Pad)
	return []graph.Attr{ints("kernel_shape", k, k), ints("pads", p, p, p, p), ints("strides", s, s)}
}

// Conv is the convolution of images with filters.
func (b Builder) Conv(name string, x, filters *graph.Value, w Window) *graph.Value {
	return b.one(name, "Conv", w.attrs(), x, filters)
}

// MaxPool is the maximum of each window.
func (b Builder) MaxPool(name string, x *graph.Value, w Window) *graph.Value {
	return b.one(name, "MaxPool", w.attrs(), x)
}

// GlobalAveragePool is the mean of each channel.
func (b Builder) GlobalAveragePool(name string, x *graph.Value) *graph.Value {
	return b.one(name, "GlobalAveragePool", nil, x)
}

// CrossEntropy is the mean cross entropy of scores, without samples whose label is ignored.
func (b Builder) CrossEntropy(name string, scores, labels *graph.Value, ignored ...int) *graph.Value {
	var attrs []graph.Attr
	for _, i := range ignored {
		attrs = append(attrs, number("ignore_index", i))
	}
	return b.one(name, "SoftmaxCrossEntropyLoss", append(attrs, graph.Attr{Name: "reduction", Value: "mean"}), scores, labels)
}

package zoo

import (
	"strconv"

	"memopt/internal/graph"
	"memopt/kernels/nodes"
)

// model is a graph under construction. Values are named after the module that makes them, so every name is given
// here and none is generated.
type model struct {
	Spec
	b          nodes.Builder
	batch, seq graph.Dim
}

func dim(n int) graph.Dim { return graph.Num(int64(n)) }

// module is the name of the i-th module under a prefix.
func module(prefix string, i int) string { return prefix + "." + strconv.Itoa(i) }

// define adds a value that no node makes.
func (m *model) define(kind graph.Kind, name string, t graph.DType, s ...graph.Dim) *graph.Value {
	v, err := m.b.Define(kind, name, t, s)
	if err != nil {
		panic(err)
	}
	return v
}

// param defines a parameter with normally distributed initial values, computed when they are read.
func (m *model) param(name string, std float64, shape ...int) *graph.Value {
	v := m.weight(graph.Param, name, shape)
	v.Data = newNormal(m.Seed, name, elements(v), std)
	return v
}

// filled defines a parameter or state whose elements all have the same initial value.
func (m *model) filled(kind graph.Kind, name string, x float32, shape ...int) *graph.Value {
	v := m.weight(kind, name, shape)
	v.Data = alike{elements(v), x}
	return v
}

func (m *model) weight(kind graph.Kind, name string, shape []int) *graph.Value {
	s := make(graph.Shape, len(shape))
	for i, n := range shape {
		s[i] = dim(n)
	}
	return m.define(kind, name, graph.Float32, s...)
}

// elements is the number of elements.
func elements(v *graph.Value) int64 {
	bytes, _ := v.Bytes().Const()
	return bytes / graph.Float32.Size()
}

// sizes defines a constant list of integers, named after its contents.
func (m *model) sizes(ds ...graph.Dim) *graph.Value {
	return m.whole(graph.Shape(ds).String(), graph.Dims(int64(len(ds))), ds)
}

// size defines a constant integer, named after its value.
func (m *model) size(d graph.Dim) *graph.Value { return m.whole(d.String(), nil, []graph.Dim{d}) }

func (m *model) whole(name string, shape graph.Shape, contents []graph.Dim) *graph.Value {
	if v := m.b.Graph.ByName(name); v != nil {
		return v
	}
	v := m.define(graph.Const, name, graph.Int64, shape...)
	v.Ints = contents
	return v
}

// scalar defines a constant of one number.
func (m *model) scalar(name string, t graph.DType, x float64) *graph.Value {
	if v := m.b.Graph.ByName(name); v != nil {
		return v
	}
	c := graph.NewTensor(t)
	c.SetFloat(0, x)
	v, err := m.b.Const(name, c)
	if err != nil {
		panic(err)
	}
	return v
}

// view reshapes x.
func (m *model) view(name string, x *graph.Value, shape ...graph.Dim) *graph.Value {
	return m.b.Reshape(name, x, m.sizes(shape...))
}

// transpose reorders dims.
func (m *model) transpose(name string, x *graph.Value, perm ...int64) *graph.Value {
	return m.b.Transpose(name, x, perm...)
}

// linear is PyTorch's Linear: rows × weightᵀ + bias, with weight [to, from].
func (m *model) linear(name string, x *graph.Value, to int, std float64, bias bool) *graph.Value {
	from, _ := x.Shape[1].Const()
	w, b := m.param(name+".weight", std, to, int(from)), (*graph.Value)(nil)
	if bias {
		b = m.filled(graph.Param, name+".bias", 0, to)
	}
	return m.b.Linear(name, x, w, b)
}

// layerNorm normalises over the last dim.
func (m *model) layerNorm(name string, x *graph.Value, epsilon float64) *graph.Value {
	return m.b.LayerNorm(name, x, m.filled(graph.Param, name+".weight", 1, m.Width), m.filled(graph.Param, name+".bias", 0, m.Width), epsilon)
}

func (m *model) gelu(name string, x *graph.Value) *graph.Value {
	return m.b.Gelu(name, x, m.Gelu)
}

// dropout adds nothing if the probability is 0.
func (m *model) dropout(name string, x *graph.Value) *graph.Value {
	if m.Dropout == 0 {
		return x
	}
	return m.b.Dropout(name, x, m.scalar("dropout.p", graph.Float32, m.Dropout), m.scalar("training", graph.Bool, 1))
}

// classLoss is the mean cross entropy of logits [batch, classes].
func (m *model) classLoss(logits, labels *graph.Value) {
	m.finish(m.b.CrossEntropy("loss", logits, labels))
}

func (m *model) finish(loss *graph.Value) {
	m.b.Graph.Outputs, m.b.Graph.Loss = []*graph.Value{loss}, loss
}

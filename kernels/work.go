package kernels

import "memopt/internal/graph"

// Reference counts of the operations of operators, by samples: see graph.Tests.Work.

// sampled is a node with tensors for its inputs.
type sampled struct {
	Node *graph.Node
	In   []*graph.Tensor
}

// work is graph.Tests.Work.
type work = func(n *graph.Node, in []*graph.Tensor) int64

func counted(f func(c sampled) int64) work {
	return func(n *graph.Node, in []*graph.Tensor) int64 { return f(sampled{n, in}) }
}

func (c sampled) in(i int) int64 { return visits(c.In[i].Shape...) }

func (c sampled) rest(from int) (n int64) {
	for i := range c.In[from:] {
		n += c.in(from + i)
	}
	return n
}

// noWork is the work of operators that move bytes or none at all, or compute a few numbers
// whatever the size.
func noWork(*graph.Node, []*graph.Tensor) int64 { return 0 }

// eachOut counts each for every element of output 0, eachIn for every element of an input.
func eachOut(each int64) work {
	return counted(func(c sampled) int64 { return each * c.out(0) })
}

func eachIn(input int, each int64) work {
	return counted(func(c sampled) int64 { return each * c.in(input) })
}

// visits counts the points of an index space by visiting them.
func visits[N int | int64](sizes ...N) (n int64) {
	if len(sizes) == 0 {
		return 1
	}
	for range int64(sizes[0]) {
		n += visits(sizes[1:]...)
	}
	return n
}

func (c sampled) outs(i int) []int {
	v := c.Node.Output(i)
	if v == nil {
		// Omitted optional outputs have the shape of input 0.
		return append([]int{}, c.In[0].Shape...)
	}
	b, err := graph.Bind(nil)
	if err != nil {
		panic(err)
	}
	shape, err := b.Shape(v.Shape)
	if err != nil {
		panic(err)
	}
	return append([]int{}, shape...)
}

func (c sampled) out(i int) int64 { return visits(c.outs(i)...) }

// inner is the dim that a product sums over.
func (c sampled) inner(transposed, batch bool) int {
	a := c.In[0].Shape
	last := len(a) - 1
	if len(a) < 2 || !transposed {
		return a[last]
	}
	if batch {
		return a[0]
	}
	return a[last-1]
}

func (c sampled) window() int64 {
	var sides []int
	for _, k := range c.Node.Ints("kernel_shape") {
		sides = append(sides, int(k))
	}
	return visits(sides...)
}

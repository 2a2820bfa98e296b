package graph

// testLibrary is operators that show every form a declaration can have. They
// compute nothing.
var testLibrary = func() *Library {
	lib := &Library{}
	same := func(n *Node) {
		for i := range n.Outputs {
			n.Set(i, n.Inputs[0].Type, n.Inputs[0].Shape)
		}
	}
	ranked := func(n *Node, v *Value, rank int) Shape {
		if v.Rank() < rank {
			n.Fail("rank %d is too small", v.Rank())
		}
		return v.Shape
	}
	lib.Define(Op{Name: "Relu", In: "X", Out: "Y", Infer: same, Recompute: Cheap, InPlace: []int{0}})
	lib.Define(Op{Name: "Add", In: "A, B", Out: "C", Infer: func(n *Node) {
		a, b := n.Inputs[0], n.Inputs[1]
		if a.Type != b.Type || a.Rank() != b.Rank() {
			n.Fail("%s%s and %s%s cannot be added", a.Type, a.Shape, b.Type, b.Shape)
		}
		for i := range a.Shape {
			n.Same(a.Shape[i], b.Shape[i], "dims of A and B")
		}
		n.Set(0, a.Type, a.Shape)
	}})
	lib.Define(Op{Name: "MatMul", In: "A, B", Out: "C", Infer: func(n *Node) {
		a, b := n.Inputs[0], n.Inputs[1]
		if a.Rank() != 2 || b.Rank() != 2 {
			n.Fail("%s by %s is not a product of matrices", a.Shape, b.Shape)
		}
		n.Same(a.Shape[1], b.Shape[0], "columns of A and rows of B")
		n.Set(0, a.Type, Shape{a.Shape[0], b.Shape[1]})
	}})
	lib.Define(Op{Name: "Sum", In: "data...", Out: "sum", Infer: func(n *Node) {
		if len(n.Inputs) == 0 {
			n.Fail("nothing to add")
		}
		same(n)
	}, Role: RoleSum})
	lib.Define(Op{Name: "Mean", In: "X", Out: "Y", Infer: func(n *Node) { n.Set(0, n.Inputs[0].Type, Shape{}) }})
	lib.Define(Op{Name: "Dropout", In: "data, ratio?, on?", Out: "output, mask?", Attrs: "seed int=0", Random: true,
		Infer: func(n *Node) {
			n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape)
			n.Set(1, Bool, n.Inputs[0].Shape)
		}})
	lib.Define(Op{Name: "Norm", In: "X", Out: "Y, mean?, var?", Infer: func(n *Node) {
		n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape)
		n.Set(1, Float32, ranked(n, n.Inputs[0], 1)[:1])
		n.Set(2, Float32, n.Inputs[0].Shape[:1])
	}})
	lib.Define(Op{Name: "TopK", In: "X", Out: "values, indices", Infer: func(n *Node) {
		n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape)
		n.Set(1, Int64, n.Inputs[0].Shape)
	}})
	lib.Define(Op{Name: "Split", In: "X", Out: "parts...", Infer: same})
	lib.Define(Op{Name: "Any", In: "X", Out: "Y", Infer: same,
		Attrs: "f float, i int=3, s string=constant, t tensor, fs floats, is ints, ss strings"})

	// What computes shapes.
	lib.Define(Op{Name: "Shape", In: "X", Out: "shape", Infer: func(n *Node) {
		n.Set(0, Int64, Dims(int64(n.Inputs[0].Rank())))
		n.SetInts(0, n.Inputs[0].Shape)
	}, NoGrad: true})
	lib.Define(Op{Name: "Gather", In: "data, index", Out: "Y", Infer: func(n *Node) {
		data, index := n.Inputs[0].Ints, n.Inputs[1].Ints
		n.Set(0, Int64, n.Inputs[1].Shape)
		if data == nil || index == nil {
			return
		}
		out := make([]Dim, len(index))
		for k, i := range index {
			at, ok := i.Const()
			if !ok || at < 0 || at >= int64(len(data)) {
				return
			}
			out[k] = data[at]
		}
		n.SetInts(0, out)
	}})
	lib.Define(Op{Name: "Mul", In: "A, B", Out: "C", Infer: func(n *Node) {
		same(n)
		a, b := n.Inputs[0].Ints, n.Inputs[1].Ints
		if a == nil || len(a) != len(b) {
			return
		}
		out := make([]Dim, len(a))
		for i := range a {
			out[i] = a[i].Mul(b[i])
		}
		n.SetInts(0, out)
	}})
	lib.Define(Op{Name: "Concat", In: "parts...", Out: "whole", Infer: func(n *Node) {
		all, known := []Dim{}, true
		total := Num(0)
		for _, v := range n.Inputs {
			known = known && v.Ints != nil
			all = append(all, v.Ints...)
			total = total.Add(ranked(n, v, 1)[0])
		}
		n.Set(0, Int64, Shape{total})
		if known {
			n.SetInts(0, all)
		}
	}})
	lib.Define(Op{Name: "Reshape", In: "data, shape", Out: "reshaped", Infer: func(n *Node) {
		if n.Inputs[1].Ints == nil {
			n.Fail("the shape is not known")
		}
		to := Shape(n.Inputs[1].Ints)
		n.Same(n.Inputs[0].Shape.Elems(), to.Elems(), "elements")
		n.Set(0, n.Inputs[0].Type, to)
	}, View: true})

	// Other domains, older forms, rewrites.
	lib.Define(Op{Name: "Decay", Domain: "memopt", In: "P, G", Out: "Q", Attrs: "by float", Infer: same})
	lib.Define(Op{Name: "Deep", Domain: "org.example.v2", In: "X", Out: "Y", Infer: same})
	lib.Define(Op{Name: "Relu", Since: 14, In: "X", Out: "Y", Infer: same})
	lib.Define(Op{Name: "Alias", In: "X", Out: "Y", Rewrite: func(b *Builder, n *Node) []*Value { return n.Inputs }})
	lib.Define(Op{Name: "Twice", In: "X", Out: "Y", Rewrite: func(b *Builder, n *Node) []*Value {
		return []*Value{b.Op("Relu", nil, b.Op("Relu", nil, n.Inputs[0]))}
	}})
	lib.Define(Op{Name: "Half", In: "X", Out: "Y, Z?", Rewrite: func(b *Builder, n *Node) []*Value {
		return []*Value{b.Op("Relu", nil, n.Inputs[0])}
	}})
	lib.Define(Op{Name: "List", In: "parts...", Out: "list", Rewrite: func(b *Builder, n *Node) []*Value {
		return []*Value{{Kind: Sequence, Name: n.Name, Seq: n.Inputs}}
	}})

	// Rules that go wrong.
	lib.Define(Op{Name: "Narrow", In: "X", Out: "Y", Infer: func(n *Node) {
		n.Set(0, n.Inputs[0].Type, Shape{ranked(n, n.Inputs[0], 1)[0].Sub(Num(10))})
	}})
	lib.Define(Op{Name: "Square", In: "X", Out: "Y", Infer: func(n *Node) {
		e := n.Inputs[0].Shape.Elems()
		n.Set(0, n.Inputs[0].Type, Shape{e.Mul(e)})
	}})
	return lib
}()

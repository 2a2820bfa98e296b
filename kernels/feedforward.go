package kernels

import (
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// FeedForward is products with weights and pointwise operators that treat each row of x0 by
// itself, up to a last product: the hidden layer of a transformer's block, several times as wide
// as what it reads, with the norm in front of it. It is computed some rows at a time, so that no
// hidden value and no normalized row exists as a whole. In exchange the gradient computes them
// again. It is bit-identical to the separate operators, and replaces them only where the caller of
// Clean asks for it.
var FeedForward = define(graph.Op{
	Name:   "FeedForward",
	Domain: own,
	Doc:    "products and pointwise operators on rows x0, with weights x1, …, maybe behind a norm of them; some rows at a time: in about that many tiles, 0 is the most that keep the bits",
	In:     "x0, weights...",
	Out:    "y",
	Attrs:  "steps strings, tiles int=0",
	Infer: func(n *graph.Node) {
		n.Body = feedBody(n, n.Inputs, "")
		y := n.Body.Nodes[len(n.Body.Nodes)-1].Outputs[0]
		n.Body.Outputs = []*graph.Value{y}
		checkFeed(n, y)
		n.Set(0, y.Type, y.Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		norm, of := feedNorm(n.Body), []int(nil)
		if norm != nil {
			of = normInputs(norm)
		}
		var wanted []int64
		for i, v := range n.Inputs {
			if v.Rank() > 0 && v.Kind != graph.Const && v.Kind != graph.ModelBuffer && (i == 0 || !slices.Contains(of, i)) {
				wanted = append(wanted, int64(i))
			}
		}
		steps, _ := n.Attr("steps").([]string)
		made := b.Ops(own+".FeedForwardGrad", graph.A{"steps": steps, "wanted": wanted, "tiles": n.Int("tiles")}, len(wanted), slices.Concat(dy, n.Inputs)...)
		dx := make([]*graph.Value, len(n.Inputs))
		for k, i := range wanted {
			dx[i] = made[k]
		}
		if norm != nil { // as a whole, in the place of the gradient that it reads: no sum of it is in parts
			as := *norm
			as.Inputs = make([]*graph.Value, len(of))
			for k, i := range of {
				if i >= 0 {
					as.Inputs[k] = n.Inputs[i]
				}
			}
			for k, d := range norm.Op.Grad(b, &as, []*graph.Value{dx[0]}) {
				if k < len(of) && of[k] >= 0 {
					dx[of[k]] = d
				}
			}
		}
		return dx
	},
	Eval:    func(c *graph.Call) { newFeed(c, 1).run(false) },
	Fast:    func(c *graph.Call) { newFeed(c, 1).run(c.In[0].Type == graph.Float32) },
	Scratch: func(n *graph.Node) graph.Dim { return feedScratch(n, 1) },
	Lower:   func(l *graph.Lowering) { lowerFeed(l, 1) },
	Fuse:    fuseFeedForward,
	Flops:   bodyFlops,
	Tests: graph.Tests{
		Work: feedWork,
	},
	Recompute:  graph.Heavy,
	Calls:      launches(4),
	StepByStep: true,
	Pieces:     graph.FeedForwardInRows,
	Tiles:      feedTiles,
	Samples: []string{
		`f32[5,4], f32[4,6], f32[6], f32[6,3]; steps=["y0 = Gemm(x0, x1, x2)", "y1 = Relu(y0)", "y2 = MatMul(y1, x3)"]`,
		`f32[7,4], f32[6,4], f32[6,4], f32[3,6], f32[3]; steps=["y0 = Gemm(x0, x1) transB=1", "y1 = com.microsoft.FusedMatMul(x0, x2) transB=1", "y2 = Sigmoid(y0)", "y3 = Mul(y0, y2)", "y4 = Mul(y3, y1)", "y5 = Gemm(y4, x3, x4) transB=1"]`,
		`f32[300,2], f32[2,5], f32[5], f32[5,2]; steps=["y0 = MatMul(x0, x1)", "y1 = com.microsoft.BiasGelu(y0, x2)", "y2 = MatMul(y1, x3)"]`,
		`f32[0,4], f32[4,6], f32[6,3]; steps=["y0 = MatMul(x0, x1)", "y1 = Relu(y0)", "y2 = MatMul(y1, x2)"]`,
		`f32[300,4], f32[4], f32[4], f32[4,6], f32[6,3]; steps=["y0 = LayerNormalization(x0, x1, x2) axis=-1", "y1 = MatMul(y0, x3)", "y2 = Relu(y1)", "y3 = MatMul(y2, x4)"]`,
		`f32[600,4], f32[4], f32[6,4], f32[6,4], f32[3,6]; steps=["y0 = RMSNormalization(x0, x1) axis=-1", "y1 = Gemm(y0, x2) transB=1", "y2 = Gemm(y0, x3) transB=1", "y3 = Sigmoid(y1)", "y4 = Mul(y3, y2)", "y5 = Gemm(y4, x4) transB=1"] tiles=2`,
	},
})

var _ = define(graph.Op{
	Name:   "FeedForwardGrad",
	Domain: own,
	Doc:    "the gradients of FeedForward for the inputs in wanted, that of a norm's result in the place of x0's; computes the hidden values again",
	In:     "dy, x0, weights...",
	Out:    "dX...",
	Attrs:  "steps strings, wanted ints, tiles int=0",
	Infer: func(n *graph.Node) {
		body := feedBody(n, n.Inputs[1:], fmt.Sprintf("dy %s%s = input\n", n.Inputs[0].Type, n.Inputs[0].Shape))
		n.Body = body
		feedGradient(n, body)
		checkFeed(n, body.Outputs[0])
		if len(n.Outputs) != len(body.Outputs) {
			n.Fail("%d outputs, but %d gradients are wanted", len(n.Outputs), len(body.Outputs))
		}
		for i, v := range body.Outputs {
			n.Set(i, v.Type, v.Shape)
		}
	},
	NoGrad:  true,
	Eval:    func(c *graph.Call) { newFeed(c, 2).run(false) },
	Fast:    func(c *graph.Call) { newFeed(c, 2).run(c.In[0].Type == graph.Float32) },
	Scratch: func(n *graph.Node) graph.Dim { return feedScratch(n, 2) },
	Lower:   func(l *graph.Lowering) { lowerFeed(l, 2) },
	Flops:   bodyFlops,
	Tests: graph.Tests{
		Work: feedWork,
	},
	Recompute:  graph.Heavy,
	Calls:      launches(8),
	StepByStep: true,
	Samples: []string{
		`f32[5,3], f32[5,4], f32[4,6], f32[6], f32[6,3]; steps=["y0 = Gemm(x0, x1, x2)", "y1 = Relu(y0)", "y2 = MatMul(y1, x3)"] wanted=[0,1,2,3] -> a, b, c, d`,
		`f32[7,3], f32[7,4], f32[6,4], f32[6,4], f32[3,6], f32[3]; steps=["y0 = Gemm(x0, x1) transB=1", "y1 = com.microsoft.FusedMatMul(x0, x2) transB=1", "y2 = Sigmoid(y0)", "y3 = Mul(y0, y2)", "y4 = Mul(y3, y1)", "y5 = Gemm(y4, x3, x4) transB=1"] wanted=[0,1,2,3,4] -> a, b, c, d, e`,
		`f32[300,2], f32[300,2], f32[2,5], f32[5], f32[5,2]; steps=["y0 = MatMul(x0, x1)", "y1 = com.microsoft.BiasGelu(y0, x2)", "y2 = MatMul(y1, x3)"] wanted=[1,2] -> a, b`,
		`f32[0,3], f32[0,4], f32[4,6], f32[6,3]; steps=["y0 = MatMul(x0, x1)", "y1 = Relu(y0)", "y2 = MatMul(y1, x2)"] wanted=[0,1,2] -> a, b, c`,
		`f32[300,3], f32[300,4], f32[4], f32[4], f32[4,6], f32[6], f32[6,3]; steps=["y0 = LayerNormalization(x0, x1, x2) axis=-1", "y1 = Gemm(y0, x3, x4)", "y2 = Relu(y1)", "y3 = MatMul(y2, x5)"] wanted=[0,3,4,5] -> a, b, c, d`,
		`f32[700,3], f32[700,4], f32[4], f32[6,4], f32[6], f32[6,4], f32[3,6]; steps=["y0 = RMSNormalization(x0, x1) axis=-1", "y1 = Gemm(y0, x2, x3) transB=1", "y2 = Gemm(y0, x4) transB=1", "y3 = Sigmoid(y1)", "y4 = Mul(y3, y2)", "y5 = Gemm(y4, x5) transB=1"] wanted=[0,2,3,4,5] tiles=2 -> a, b, c, d, e`,
	},
})

// feedBody parses the steps; in are the values that they call x0, x1, ….
func feedBody(n *graph.Node, in []*graph.Value, before string) *graph.Graph {
	var src strings.Builder
	src.WriteString(before)
	for i, v := range in {
		if v == nil || v.Type != in[0].Type || v.Type != graph.Float32 && v.Type != graph.Float64 {
			n.Fail("x%d is missing, or not f32 or f64 as x0 is", i)
		}
		fmt.Fprintf(&src, "%s %s%s = input\n", graph.ChainInput(i), v.Type, v.Shape)
	}
	steps, _ := n.Attr("steps").([]string)
	body, err := graph.Parse(Library, src.String()+strings.Join(steps, "\n"))
	if err != nil {
		n.Fail("steps: %v", err)
	}
	if len(steps) == 0 || len(body.Nodes) != len(steps) {
		n.Fail("each step must be a node with one output")
	}
	if t := n.Int("tiles"); t < 0 {
		n.Fail("tiles is %d; it must be at least 1, or 0 for the most that keep the bits", t)
	}
	return body
}

// feedGradient appends the gradients of the body's last value, as autograd would, and keeps those
// that are wanted as its outputs. They end at the norm that the rows go through first.
func feedGradient(n *graph.Node, body *graph.Graph) {
	forward := slices.Clone(body.Nodes)
	y, dy := forward[len(forward)-1].Outputs[0], body.ByName("dy")
	if !dy.Shape.Equal(y.Shape) {
		n.Fail("dy is %s, but the result of the steps %s", dy.Shape, y.Shape)
	}
	b := graph.NewBuilder(body)
	sum := map[*graph.Value]*graph.Value{y: dy}
	norm := feedNorm(body)
	for _, s := range slices.Backward(forward) {
		d := sum[s.Outputs[0]]
		if s == norm {
			sum[s.Inputs[0]] = d
			continue
		}
		if d == nil || s.Op.Grad == nil {
			n.Fail("step %s has no gradient", s)
		}
		b.Scope = "d" + s.Outputs[0].Name
		for i, more := range s.Op.Grad(b, s, []*graph.Value{d}) {
			v := s.In(i)
			switch {
			case more == nil || v == nil:
			case sum[v] != nil:
				sum[v] = b.Apply(Library.Role(graph.RoleSum), nil, 1, sum[v], more)[0]
			default:
				sum[v] = more
			}
		}
	}
	wanted, _ := n.Attr("wanted").([]int64)
	for _, i := range wanted {
		v := body.ByName(graph.ChainInput(int(i)))
		if v == nil || sum[v] == nil {
			n.Fail("x%d has no gradient", i)
		}
		body.Outputs = append(body.Outputs, sum[v])
	}
	if len(wanted) == 0 {
		n.Fail("no gradient is wanted")
	}
	body.Prune()
}

// checkFeed fails if some step cannot be computed rows at a time.
func checkFeed(n *graph.Node, result *graph.Value) {
	if _, _, err := kindsOf(n.Body); err != "" {
		n.Fail("%s", err)
	}
	if result.Rank() == 0 {
		n.Fail("the result is a scalar")
	}
}

func bodyFlops(n *graph.Node) graph.Dim {
	sum := graph.Num(0)
	for _, s := range n.Body.Nodes {
		sum = sum.Add(s.Op.Flops(s))
	}
	return sum
}

var feedWork = counted(func(c sampled) (sum int64) {
	made := map[*graph.Value]*graph.Tensor{}
	tensor := func(v *graph.Value) *graph.Tensor {
		if made[v] == nil {
			var shape []int
			for _, d := range v.Shape {
				k, _ := d.Const()
				shape = append(shape, int(k))
			}
			made[v] = graph.NewTensor(v.Type, shape...)
			if v.Kind == graph.Const {
				b, _ := graph.Bind(nil)
				made[v], _ = v.Tensor(b)
			}
		}
		return made[v]
	}
	for _, s := range c.Node.Body.Nodes {
		if s.Op.Tests.Work == nil {
			continue
		}
		var in []*graph.Tensor
		for _, v := range s.Inputs {
			if v == nil {
				in = append(in, nil)
			} else {
				in = append(in, tensor(v))
			}
		}
		sum += s.Op.Tests.Work(s, in)
	}
	return sum
})

// fuseFeedForward matches a product with a weight whose other factor pointwise operators make of
// products of one value with weights, if nothing else reads what is between.
func fuseFeedForward(m *graph.Match) []*graph.Value {
	n := m.Node
	if !isWeighted(n) || n.Inputs[0].Def == nil {
		return nil
	}
	f := feedMatch{Match: m, names: map[*graph.Value]string{}}
	if !f.hidden(n.Inputs[0]) || len(f.products) == 0 || len(f.nodes) == len(f.products) {
		return nil
	}
	x := f.products[0].Inputs[0]
	f.nodes = append(f.nodes, n)
	rows := x
	norm := f.norm(rows)
	if norm != nil {
		x = norm.Inputs[0]
		f.nodes = append(f.nodes, norm)
	}
	slices.SortFunc(f.nodes, func(a, b *graph.Node) int { return int(a.ID) - int(b.ID) })
	in := []*graph.Value{x}
	f.names[x] = graph.ChainInput(0)
	var steps []string
	for _, s := range f.nodes {
		for _, v := range s.Inputs {
			if v == nil || f.names[v] != "" {
				if norm != nil && s != norm && v != nil && slices.Contains(norm.Inputs, v) {
					return nil // a weight of the norm has a gradient from elsewhere, too
				}
				continue
			}
			if v.Type != graph.Float32 || !m.KeepsSums(v) {
				return nil
			}
			f.names[v] = graph.ChainInput(len(in))
			in = append(in, v)
		}
		made := fmt.Sprintf("y%d", len(steps))
		if f.names[s.Outputs[0]] = made; s == norm {
			s, f.names[rows] = rowsNormalized(s), made
		}
		steps = append(steps, made+" = "+s.Spelled(f.names))
	}
	if x.Type != graph.Float32 || x.Rank() < 2 || !m.KeepsSums(x) {
		return nil
	}
	b, y := m.Builder, n.Outputs[0]
	if x.Rank() > 2 {
		in[0] = tall(b, x)
	}
	return []*graph.Value{reshape(b, b.Op(own+".FeedForward", graph.A{"steps": steps}, in...), y.Shape)}
}

// feedMatch collects the nodes behind a hidden value.
type feedMatch struct {
	*graph.Match
	nodes, products []*graph.Node
	names           map[*graph.Value]string
}

// norm is the norm that makes the rows x, maybe under another shape, if they are for the products alone.
func (f *feedMatch) norm(x *graph.Value) *graph.Node {
	read := func(v *graph.Value, by ...*graph.Node) bool { // by these alone
		all := f.Readers(v)
		return all != nil && !f.IsResult(v) && !slices.ContainsFunc(all, func(r *graph.Node) bool { return !slices.Contains(by, r) })
	}
	of := x
	if n := x.Def; isOneOf(n, "Reshape") {
		of = n.Inputs[0]
		if !read(of, n) || of.Rank() < 2 || !of.Shape[of.Rank()-1].Equal(x.Shape[x.Rank()-1]) {
			return nil
		}
	}
	n := of.Def
	if !isRowsNorm(n) || !read(x, f.products...) || f.Maker(of, n.Op.FullName()) == nil {
		return nil
	}
	for _, v := range n.Inputs[1:] {
		if v != nil && (!v.Kind.Stored() || v.Rank() != 1 || !v.Shape[0].Equal(x.Shape[x.Rank()-1])) {
			return nil
		}
	}
	f.Piece(of, n.Op.FullName())
	if of != x {
		f.Piece(x, "Reshape")
	}
	return n
}

// isRowsNorm reports whether a node normalizes each row along the last dim, and makes nothing else.
func isRowsNorm(n *graph.Node) bool {
	if !isOneOf(n, "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization") || slices.ContainsFunc(n.Outputs[1:], func(v *graph.Value) bool { return v != nil }) {
		return false
	}
	rank := n.Inputs[0].Rank()
	return rank > 0 && axisOf(n, n.Int("axis"), rank) == rank-1
}

// rowsNormalized is a norm along the last dim as one of rows.
func rowsNormalized(n *graph.Node) *graph.Node {
	as := *n
	as.Outputs = n.Outputs[:1]
	as.Attrs = slices.Clone(n.Attrs)
	for i, a := range as.Attrs {
		if a.Name == "axis" {
			as.Attrs[i].Value = int64(-1)
		}
	}
	return &as
}

// feedNorm is the norm that a body's rows go through first; nil if they do not.
func feedNorm(body *graph.Graph) *graph.Node {
	if n := body.Nodes[0]; isRowsNorm(n) && n.Inputs[0] == body.ByName(graph.ChainInput(0)) {
		return n
	}
	return nil
}

// normInputs numbers the inputs of the body that its norm reads; −1 is one that is left out.
func normInputs(norm *graph.Node) (of []int) {
	for _, v := range norm.Inputs {
		i := -1
		if v != nil {
			fmt.Sscanf(v.Name, "x%d", &i)
		}
		of = append(of, i)
	}
	return of
}

// hidden reports whether v is made of products of one value by pointwise operators.
func (f *feedMatch) hidden(v *graph.Value) bool {
	n := v.Def
	if n == nil || slices.Contains(f.nodes, n) {
		return n != nil
	}
	if f.Piece(v, n.Op.FullName()) == nil {
		return false
	}
	f.nodes = append(f.nodes, n)
	if isWeighted(n) {
		f.products = append(f.products, n)
		return n.Inputs[0] == f.products[0].Inputs[0]
	}
	if !n.Op.Pointwise || n.Op.Random || len(n.Outputs) != 1 {
		return false
	}
	rows := 0
	for _, x := range n.Inputs {
		switch {
		case x != nil && x.Shape.Equal(v.Shape) && x.Rank() > 1:
			if !f.hidden(x) {
				return false
			}
			rows++
		case x == nil || !x.Kind.Stored() && x.Kind != graph.Const || x.Rank() > 1 || x.Rank() == 1 && !x.Shape[0].Equal(v.Shape[v.Rank()-1]):
			return false
		}
	}
	return rows > 0
}

// isWeighted reports whether a node is a product of rows with a stored matrix, and no more.
func isWeighted(n *graph.Node) bool {
	if !isProduct(n) || n.Inputs[0].Rank() < 2 || n.Inputs[1].Rank() != 2 || !n.Inputs[1].Kind.Stored() {
		return false
	}
	if _, ok := n.Inputs[1].Shape[0].Const(); !ok {
		return false
	}
	p := productOfNode(n)
	p.TransB = false
	bias := n.In(2)
	return p == plainProduct && (bias == nil || bias.Kind.Stored() && bias.Rank() == 1 && n.Float("beta") == 1)
}

// bodyKind is how a node of a body is computed some rows at a time.
type bodyKind uint8

const (
	ofRows    bodyKind = iota // each row of the result is made of the same row of inputs
	overRows                  // a product that sums over rows
	sumOfRows                 // a sum over rows
	asIs                      // a view of one of these sums
)

// kindsOf tells each node's kind and which values have rows, or what is wrong with a node. Rows are
// those of x0 and dy.
func kindsOf(body *graph.Graph) (kinds []bodyKind, isRows []bool, wrong string) {
	isRows = rowValues(body)
	norm := feedNorm(body)
	for _, n := range body.Nodes {
		in, y := func(i int) bool { return n.In(i) != nil && isRows[n.In(i).ID] }, n.Outputs[0]
		kind, ok := ofRows, len(n.Outputs) == 1
		switch {
		case isProduct(n):
			p := productOfNode(n)
			if in(1) {
				kind, ok = overRows, ok && in(0) && p == product{TransA: true, Alpha: 1} && n.In(2) == nil
			} else {
				ok = ok && in(0) && !p.TransA && !p.BatchA && !p.BatchB && !in(2)
			}
		case isOneOf(n, "ReduceSum"):
			kind, ok = sumOfRows, ok && in(0) && slices.Equal(reducedAxes(n), []int{0})
		case isOneOf(n, "Reshape"):
			kind, ok = asIs, ok && !in(0)
		case n == norm:
			ok = ok && !slices.ContainsFunc(body.Nodes[1:], func(s *graph.Node) bool { return slices.Contains(s.Inputs, norm.Inputs[0]) }) && !slices.ContainsFunc(norm.Inputs[1:], func(v *graph.Value) bool { return v != nil && v.Rank() != 1 })
		default:
			ok = ok && n.Op.Pointwise && y.Rank() == 2 && isRows[y.ID]
		}
		if kind == ofRows && ok {
			_, ok = y.Shape[1].Const()
		}
		if !ok {
			return nil, nil, fmt.Sprintf("step %s does not compute rows by themselves", n)
		}
		kinds = append(kinds, kind)
	}
	return kinds, isRows, ""
}

// rowValues tells which values of a body, by ID, have one row for each row of x0.
func rowValues(body *graph.Graph) []bool {
	is := make([]bool, len(body.Values))
	for _, name := range []string{"dy", graph.ChainInput(0)} {
		if v := body.ByName(name); v != nil {
			is[v.ID] = true
		}
	}
	for _, n := range body.Nodes {
		if isOneOf(n, "ReduceSum", "Reshape") || isProduct(n) && n.Inputs[1] != nil && is[n.Inputs[1].ID] {
			continue
		}
		is[n.Outputs[0].ID] = slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool { return v != nil && is[v.ID] })
	}
	return is
}

// feedSlots places the hidden values of a body side by side, in floats of a row; a value takes the
// place of a dead one that is as wide. Body outputs have none.
func feedSlots(body *graph.Graph, isRows []bool) (at []int, width int) {
	last := make([]int, len(body.Values))
	for i, n := range body.Nodes {
		for _, v := range n.Inputs {
			if v != nil {
				last[v.ID] = i
			}
		}
	}
	at = make([]int, len(body.Values))
	free := map[int][]int{}
	for i, n := range body.Nodes {
		if y := n.Outputs[0]; isRows[y.ID] && !slices.Contains(body.Outputs, y) {
			w := widthOf(y)
			if k := len(free[w]); k > 0 {
				at[y.ID], free[w] = free[w][k-1], free[w][:k-1]
			} else {
				at[y.ID] = width
				width += w
			}
		}
		for k, v := range n.Inputs {
			if v != nil && v.Def != nil && isRows[v.ID] && last[v.ID] == i && !slices.Contains(n.Inputs[:k], v) && !slices.Contains(body.Outputs, v) {
				free[widthOf(v)] = append(free[widthOf(v)], at[v.ID])
			}
		}
	}
	return at, width
}

func widthOf(v *graph.Value) int {
	w, _ := v.Shape[1].Const()
	return int(w)
}

// feedScratch is the work space: two sums of doubles for each column that is summed, and the hidden
// values of the rows that are computed at a time. x is the input x0.
func feedScratch(n *graph.Node, x int) graph.Dim {
	_, width := feedSlots(n.Body, rowValues(n.Body))
	rows := n.Inputs[x-1].Shape[0]
	return rows.Min(blocksOf(n, rows).Mul(graph.Num(f32.BlockK))).Mul(graph.Num(n.Inputs[x-1].Type.Size() * int64(width))).Add(graph.Num(int64(16 * columnFloats(n.Body))))
}

// blocksOf is tileBlocks as a formula.
func blocksOf(n *graph.Node, rows graph.Dim) graph.Dim {
	if tiles := n.Int("tiles"); tiles > 0 {
		return roundedUp(roundedUp(rows, graph.Num(f32.BlockK)), graph.Num(int64(tiles)))
	}
	return graph.Num(1)
}

// roundedUp is the quotient of two dims, rounded up.
func roundedUp(d, by graph.Dim) graph.Dim { return d.Add(by).Sub(graph.Num(1)).FloorDiv(by) }

// feedTiles is in how many tiles the rows of x0 are computed.
func feedTiles(n *graph.Node) graph.Dim {
	rows := n.Inputs[0].Shape[0]
	return roundedUp(roundedUp(rows, graph.Num(f32.BlockK)), blocksOf(n, rows))
}

// tileBlocks is the number of blocks of rows in a tile: as few as the number of tiles asks for.
func tileBlocks(n *graph.Node, rows int) int {
	if tiles := n.Int("tiles"); tiles > 0 {
		return max(1, index.CeilDiv(index.CeilDiv(rows, f32.BlockK), tiles))
	}
	return 1
}

// columnFloats is the number of columns that the body sums.
func columnFloats(body *graph.Graph) (sum int) {
	for _, n := range body.Nodes {
		if isOneOf(n, "ReduceSum") {
			sum += widthOf(n.Inputs[0])
		}
	}
	return sum
}

package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// loweredFeed lowers FeedForward or its gradient: for one tile of rows after another, the kernels of
// the body's steps. Sums over rows go on from tile to tile in the order of those over all rows, so
// that results are bit-identical to the separate operators.
type loweredFeed struct {
	l           *graph.Lowering
	body        *graph.Graph
	kinds       []bodyKind
	isRows      []bool
	at          []int // by value ID: its place among the hidden values of a row
	of          map[*graph.Value]graph.Buffer
	rows, chunk int
	tall        int // rows that a hidden value has room for, so that the next one is aligned
	sums        map[*graph.Value]*lower.RowSums
}

// lowerFeed lowers a node whose input x0 has number x-1.
func lowerFeed(l *graph.Lowering, x int) {
	for _, o := range append(l.Out, l.In...) {
		if o != nil && o.Type != graph.Float32 {
			l.Refuse("there are numbers of type %s; there are kernels for f32", o.Type)
			return
		}
	}
	f := &loweredFeed{l: l, body: l.Node.Body, of: map[*graph.Value]graph.Buffer{}, sums: map[*graph.Value]*lower.RowSums{}, rows: l.In[x-1].Shape[0]}
	if f.rows == 0 {
		for i := range l.Out {
			lower.Fill(l, i, 0)
		}
		return
	}
	f.kinds, f.isRows, _ = kindsOf(f.body)
	var width int
	f.at, width = feedSlots(f.body, f.isRows)
	f.chunk = tileBlocks(l.Node, f.rows) * f32.BlockK
	f.tall = index.CeilDiv(min(f.chunk, f.rows), lower.PieceStep) * lower.PieceStep
	f.operands(x)
	end := int64(4 * f.tall * width) // of the hidden values of a tile
	for _, n := range f.body.Nodes {
		if y := n.Outputs[0]; isOneOf(n, "ReduceSum") {
			s := lower.NewRowSums(l, widthOf(n.Inputs[0]), f.rows, f.of[y], end)
			f.sums[y] = s
			end += lower.Aligned(s.Bytes())
		}
	}
	l.Scratch = end
	if most := int(l.Limits.Range / int64(4*f.widest())); f.chunk > most { // a plan reserves work space for more
		f.chunk = most / lower.ReduceBlock * lower.ReduceBlock
	}
	if f.chunk == 0 {
		l.Refuse("%d rows of the hidden values exceed the device's buffer range", lower.ReduceBlock)
		return
	}
	for first := 0; first < f.rows && l.Refused == ""; first += f.chunk {
		f.tile(first, min(f.chunk, f.rows-first), end)
	}
	for _, n := range f.body.Nodes {
		if s := f.sums[n.Outputs[0]]; s != nil && l.Refused == "" {
			s.Finish()
		}
	}
}

// operands says where the inputs and outputs of the body lie.
func (f *loweredFeed) operands(x int) {
	for i := range f.l.In[x-1:] {
		if v := f.body.ByName(graph.ChainInput(i)); v != nil {
			f.of[v] = lower.Reads(x - 1 + i)
		}
	}
	if v := f.body.ByName("dy"); v != nil && x > 1 {
		f.of[v] = lower.Reads(0)
	}
	for i, v := range f.body.Outputs {
		for {
			f.of[v] = lower.Writes(i)
			if v.Def == nil || !isOneOf(v.Def, "Reshape") {
				break
			}
			v = v.Def.Inputs[0]
		}
	}
}

// widest is the number of floats in the widest row of a value.
func (f *loweredFeed) widest() int {
	w := 1
	for _, v := range f.body.Values {
		if f.isRows[v.ID] {
			w = max(w, widthOf(v))
		}
	}
	return w
}

// seen is where a value, or its rows [first, first+n), lies.
func (f *loweredFeed) seen(v *graph.Value, first, n int) (graph.Buffer, bool) {
	b, whole := f.of[v]
	if !f.isRows[v.ID] {
		return b, whole
	}
	w := widthOf(v)
	if !whole {
		return lower.Scratch(int64(4*f.at[v.ID]*f.tall), int64(4*n*w), false), true
	}
	b.At, b.Bytes = int64(4*first*w), int64(4*n*w)
	return b, true
}

// tile appends the kernels for rows [first, first+n). The steps' work space begins at end.
func (f *loweredFeed) tile(first, n int, end int64) {
	for i, node := range f.body.Nodes {
		switch y := node.Outputs[0]; f.kinds[i] {
		case ofRows:
			f.step(node, first, n, end)
		case overRows:
			f.product(node, first, n)
		case sumOfRows:
			x, _ := f.seen(node.Inputs[0], first, n)
			f.sums[y].Add(x, first, n)
		}
		if f.l.Refused != "" {
			return
		}
	}
}

// step appends the kernels of a step that makes rows of rows.
func (f *loweredFeed) step(node *graph.Node, first, n int, end int64) {
	l := f.l
	buffers := map[*graph.Value]graph.Buffer{}
	operand := func(v *graph.Value) *graph.Operand {
		if v == nil {
			return nil
		}
		b, ok := f.seen(v, first, n)
		if !ok {
			l.Refuse("step %s reads the constant %s", node, v.Name)
			return nil
		}
		buffers[v] = b
		if f.isRows[v.ID] {
			return &graph.Operand{Type: v.Type, Shape: []int{n, widthOf(v)}}
		}
		return l.In[b.Index]
	}
	var in []*graph.Operand
	for _, v := range node.Inputs {
		in = append(in, operand(v))
	}
	sub := l.Step(node, in, []*graph.Operand{operand(node.Outputs[0])})
	if node.Op.Lower == nil {
		l.Refuse("step %s has no kernel", node)
	}
	if l.Refused != "" {
		return
	}
	node.Op.Lower(sub)
	if sub.Refused != "" {
		l.Refuse("step %s: %s", node, sub.Refused)
		return
	}
	l.Scratch = max(l.Scratch, end+sub.Scratch)
	place := func(v *graph.Value, b graph.Buffer) graph.Buffer {
		to := buffers[v]
		to.At, to.Bytes, to.Writes = to.At+b.At, sub.Seen(b), b.Writes
		return to
	}
	for _, d := range sub.Dispatches {
		seen := make([]graph.Buffer, len(d.Buffers))
		for k, b := range d.Buffers {
			switch seen[k] = b; b.Place {
			case graph.PlaceIn:
				seen[k] = place(node.Inputs[b.Index], b)
			case graph.PlaceOut:
				seen[k] = place(node.Outputs[b.Index], b)
			case graph.PlaceScratch:
				seen[k].At, seen[k].Bytes = end+b.At, sub.Seen(b)
			}
		}
		d.Buffers = seen
		l.Dispatches = append(l.Dispatches, d)
	}
}

// product appends a product that sums over rows.
func (f *loweredFeed) product(node *graph.Node, first, n int) {
	a, b := node.Inputs[0], node.Inputs[1]
	k, m := widthOf(a), widthOf(b)
	from, _ := f.seen(a, first, n)
	by, _ := f.seen(b, first, n)
	to := f.of[node.Outputs[0]]
	p := lower.ProductsOf(k, m, n, 1, lower.Factor{Buffer: from, Outside: 1, Along: k}, lower.Factor{Buffer: by, Outside: 1, Along: m}, to, k*m)
	if first > 0 {
		p.GoesOn, p.C, p.Ci, p.Cj = true, lower.Rereads(to.Index), p.Ldy, 1
	}
	p.Append(f.l)
}

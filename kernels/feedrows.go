package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// feed is a call of FeedForward or its gradient: the nodes of a body, some rows at a time. Sums over
// rows are split where the separate operators split them, so that they have the same bits.
type feed struct {
	call   *graph.Call
	body   *graph.Graph
	kinds  []bodyKind
	isRows []bool
	at     []int           // by value ID: its place among the hidden values of a row
	width  int             // of these, in floats
	of     []*graph.Tensor // by value ID: inputs, sums, and outputs as a whole
	hidden []byte          // of the rows that are computed at a time
	sums   map[*graph.Value]*columnSum
	rows   int
	dtype  graph.DType
}

// columnSum is a sum over rows so far, in doubles.
type columnSum struct {
	total, part []float64
	parts, done int // parts of the rows, and those that are in total
}

// newFeed begins a call whose input x0 has number x-1.
func newFeed(c *graph.Call, x int) *feed {
	body := c.Node.Body
	f := &feed{call: c, body: body, of: make([]*graph.Tensor, len(body.Values)), sums: map[*graph.Value]*columnSum{}, rows: c.In[x-1].Shape[0], dtype: c.In[0].Type}
	f.kinds, f.isRows, _ = kindsOf(body)
	f.at, f.width = feedSlots(body, f.isRows)
	for i, in := range c.In[x-1:] {
		if v := body.ByName(graph.ChainInput(i)); v != nil {
			f.of[v.ID] = in
		}
	}
	if v := body.ByName("dy"); v != nil && x > 1 {
		f.of[v.ID] = c.In[0]
	}
	for i, v := range body.Outputs {
		for {
			f.of[v.ID] = c.Out[i]
			if v.Def == nil || !isOneOf(v.Def, "Reshape") {
				break
			}
			v = v.Def.Inputs[0]
		}
	}
	return f
}

// run computes the call: by operators' fast forms, or by their reference and all rows at a time.
func (f *feed) run(fast bool) {
	chunk := f.rows
	if fast {
		chunk = tileBlocks(f.call.Node, f.rows) * f32.DepthOf(max(1, f.rows))
		sums := 2 * columnFloats(f.body)
		f.hidden = f.call.Scratch[8*sums:][:4*min(chunk, f.rows)*f.width] // float32
		f.begin(scratch64(f.call, sums))
	} else {
		f.hidden = graph.NewTensor(f.dtype, f.rows, f.width).Bytes
		f.begin(make([]float64, 2*columnFloats(f.body)))
	}
	for first := 0; first < f.rows; first += chunk {
		f.some(first, min(chunk, f.rows-first), chunk, fast)
	}
	for v, s := range f.sums {
		s.next()
		for i, x := range s.total {
			f.of[v.ID].SetFloat(i, x)
		}
	}
	if f.rows == 0 {
		for _, y := range f.call.Out {
			if y != nil {
				clear(y.Bytes)
			}
		}
	}
}

// begin makes the sums over rows 0. As a reduction does, they are split into parts of many rows.
func (f *feed) begin(room []float64) {
	clear(room)
	for _, n := range f.body.Nodes {
		if isOneOf(n, "ReduceSum") {
			w := widthOf(n.Inputs[0])
			parts := f.rows / partRows
			if parts < 2 {
				parts = 1
			}
			f.sums[n.Outputs[0]] = &columnSum{total: room[:w], part: room[w : 2*w], parts: parts}
			room = room[2*w:]
		}
	}
}

// next ends a part.
func (s *columnSum) next() {
	for i, x := range s.part {
		if s.done == 0 {
			s.total[i] = x
		} else {
			s.total[i] += x
		}
		s.part[i] = 0
	}
	s.done++
}

// some computes rows [first, first+n).
func (f *feed) some(first, n, chunk int, fast bool) {
	seen := func(v *graph.Value) *graph.Tensor {
		if v == nil {
			return nil
		}
		whole := f.of[v.ID]
		if !f.isRows[v.ID] {
			return whole
		}
		w := widthOf(v)
		t, line := &graph.Tensor{Type: f.dtype, Shape: []int{n, w}}, w*int(f.dtype.Size())
		if whole != nil {
			t.Bytes = whole.Bytes[first*line : (first+n)*line]
		} else {
			t.Bytes = f.hidden[f.at[v.ID]*int(f.dtype.Size())*min(chunk, f.rows):][:n*line]
		}
		return t
	}
	for i, node := range f.body.Nodes {
		switch y := node.Outputs[0]; f.kinds[i] {
		case ofRows:
			c := &graph.Call{Node: node, Out: []*graph.Tensor{seen(y)}, Parallel: f.call.Parallel}
			for _, v := range node.Inputs {
				c.In = append(c.In, seen(v))
			}
			if run := fastForm(node.Op); fast && run != nil {
				run(c)
			} else {
				node.Op.Eval(c)
			}
		case overRows:
			a, b, z := seen(node.Inputs[0]), seen(node.Inputs[1]), f.of[y.ID]
			if !fast {
				node.Op.Eval(&graph.Call{Node: node, In: []*graph.Tensor{a, b}, Out: []*graph.Tensor{z}, Parallel: f.call.Parallel})
				continue
			}
			k, m, depth := a.Shape[1], b.Shape[1], f32.DepthOf(f.rows)
			for from := 0; from < n; from += depth { // a product over all rows sums the same blocks
				f32.Multiply(f.call.Parallel, k, m, min(depth, n-from), f32.Dense(a.F32()[from*k:], 1, k, 1), f32.Dense(b.F32()[from*m:], 1, m, 1), z.F32(), m, first+from > 0)
			}
		case sumOfRows:
			f.column(f.sums[y], seen(node.Inputs[0]), first, n)
		}
	}
}

// column adds rows [first, first+n) to a sum.
func (f *feed) column(s *columnSum, x *graph.Tensor, first, n int) {
	w := len(s.part)
	if x.Type != graph.Float32 {
		for i := range n * w {
			s.part[i%w] += x.Float(i)
		}
		return
	}
	xs := x.F32()
	for from := first; from < first+n; {
		end := (s.done + 1) * f.rows / s.parts
		rows := min(end, first+n) - from
		part := xs[(from-first)*w:]
		f.call.Parallel(w, 1+f32.Grain/max(1, rows), func(lo, hi int) { f32.SumRows(s.part[lo:hi], part[lo:], rows, w) })
		if from += rows; from == end && s.done+1 < s.parts {
			s.next()
		}
	}
}

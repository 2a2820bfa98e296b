package kernels

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/internal/spirv"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:   "Chain",
	Domain: own,
	Doc:    "a sequence of pointwise operators on x0, x1, …; results names the steps that are outputs",
	In:     "X...",
	Out:    "Y...",
	Attrs:  "steps strings, results strings",
	Infer:  chainInfer,
	NoGrad: true, // chains are formed when a plan is made, after autograd
	Eval:   chainEval,
	Fast:   chainFast,
	Lower:  lowerChain,
	Flops: func(n *graph.Node) graph.Dim {
		sum := graph.Num(0)
		for _, s := range n.Body.Nodes {
			sum = sum.Add(s.Op.Flops(s))
		}
		return sum
	},
	Tests: graph.Tests{Work: counted(func(c sampled) (sum int64) {
		made := slices.Clone(c.In)
		for _, s := range c.Node.Body.Nodes {
			sum += s.Op.Tests.Work(s, chainStep(s, made).In)
			made = append(made, graph.NewTensor(graph.Float32, c.outs(0)...))
		}
		return sum
	})},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Role:      graph.RoleChain,
	Samples: []string{
		`f32[2,3], f32[2,3]; steps=["y0 = Sigmoid(x0)", "y1 = Mul(x0, y0)", "y2 = Mul(y1, x1)"] results=["y0", "y1", "y2"] -> a, b, c`,
		`f32[2,3,8], f32[2,3,8], f32[3,8], f32[3,8]; steps=["y0 = Mul(x0, x2)", "y1 = Mul(x1, x3)", "y2 = Add(y0, y1)"] results=["y2"] -> a`,
		`f32[5,7], f32[5,7], f32[5,7]; steps=["y0 = Sum(x0, x1, x2)", "y1 = com.microsoft.ReluGrad(y0, x1)", "y2 = Sub(y1, x0)"] results=["y2", "y0"] -> a, b`,
		`f32[3,5], f32[5], f32[3,1], f32[]; steps=["y0 = com.microsoft.BiasGelu(x0, x1)", "y1 = Div(x2, y0)", "y2 = memopt.Scale(y1, x3)", "y3 = Elu(y2) alpha=0.5"] results=["y3"] -> a`,
		`f32[9001], f32[9001], f32[1]; steps=["y0 = Tanh(x0)", "y1 = Mul(y0, x1)", "y2 = Add(x2, y1)"] results=["y2", "y1"] -> a, b`,
		`f32[0,3], f32[3]; steps=["y0 = Add(x0, x1)", "y1 = Neg(y0)"] results=["y1"] -> a`,
	},
})

// chainInfer parses the steps into the node's body. All steps have the same output shape,
// so that element i of a result depends only on element i of the steps before it.
func chainInfer(n *graph.Node) {
	var src strings.Builder
	for i, v := range n.Inputs {
		if v == nil || v.Type != graph.Float32 {
			n.Fail("input %d is missing or not f32", i)
		}
		fmt.Fprintf(&src, "%s %s%s = input\n", graph.ChainInput(i), v.Type, v.Shape)
	}
	steps, _ := n.Attr("steps").([]string)
	results, _ := n.Attr("results").([]string)
	body, err := graph.Parse(Library, src.String()+strings.Join(steps, "\n"))
	if err != nil {
		n.Fail("steps: %v", err)
	}
	if len(steps) == 0 || len(body.Nodes) != len(steps) || len(body.Values) != len(n.Inputs)+len(steps) {
		n.Fail("each step must be a node with one output")
	}
	shape := body.Nodes[0].Outputs[0].Shape
	for _, s := range body.Nodes {
		if y := s.Outputs[0]; !s.Op.Pointwise || slices.Contains(s.Inputs, nil) || y.Type != graph.Float32 || !y.Shape.Equal(shape) {
			n.Fail("step %s is not a pointwise operator that makes f32%s", s, shape)
		}
		// Variadic operators that broadcast round their sums in another order.
		ports, _ := s.Op.Ports()
		if ports[0].Variadic && slices.ContainsFunc(s.Inputs, func(v *graph.Value) bool { return !v.Shape.Equal(shape) }) {
			n.Fail("step %s is variadic and broadcasts an input; variadic steps need inputs of one shape", s)
		}
	}
	for i, v := range n.Inputs {
		if !broadcastsTo(v.Shape, shape) {
			n.Fail("input %d has shape %s, which does not broadcast to %s", i, v.Shape, shape)
		}
	}
	if len(results) != len(n.Outputs) {
		n.Fail("%d results, but %d outputs", len(results), len(n.Outputs))
	}
	for i, name := range results {
		v := body.ByName(name)
		if v == nil || v.Def == nil || slices.Contains(results[:i], name) {
			n.Fail("result %q must name a step, and only once", name)
		}
		body.Outputs = append(body.Outputs, v)
		n.Set(i, v.Type, v.Shape)
	}
	n.Body = body
}

// broadcastsTo reports whether shape s broadcasts to another.
func broadcastsTo(s, to graph.Shape) bool {
	skip := len(to) - len(s)
	for i, d := range s {
		if skip < 0 || !d.Is(1) && !d.Equal(to[skip+i]) {
			return false
		}
	}
	return true
}

// In a body, values are numbered: the inputs first, then the output of each step.

func chainEval(c *graph.Call) {
	made := slices.Clone(c.In)
	for _, s := range c.Node.Body.Nodes {
		step := chainStep(s, made)
		step.Out[0] = graph.NewTensor(graph.Float32, c.Out[0].Shape...)
		s.Op.Eval(step)
		made = append(made, step.Out[0])
	}
	for i, v := range c.Node.Body.Outputs {
		copy(c.Out[i].Bytes, made[v.ID].Bytes)
	}
}

// chainStep is the call of a step whose inputs are among made, by value ID.
func chainStep(s *graph.Node, made []*graph.Tensor) *graph.Call {
	c := &graph.Call{Node: s, Parallel: f32.Serial, In: make([]*graph.Tensor, len(s.Inputs)), Out: make([]*graph.Tensor, 1)}
	for i, v := range s.Inputs {
		c.In[i] = made[v.ID]
	}
	return c
}

// chainBlock is the number of elements that all steps process before the next block, few
// enough that a step's output is in cache when the next step reads it.
const chainBlock = 4096

// chainFast runs the Fast form of all steps on one block after another. These compute an
// element independently of its position, so results are bit-identical to running the
// steps alone.
func chainFast(c *graph.Call) {
	runs := sync.Pool{New: func() any { return newChainRun(c) }}
	eachRow(c, func(z, width int, at, step []int) {
		r := runs.Get().(*chainRun)
		for from := 0; from < width; from += chainBlock {
			r.piece(z, from, min(chainBlock, width-from), at, step)
		}
		runs.Put(r)
	})
}

// chainRun is the state of one worker.
type chainRun struct {
	call   *graph.Call
	steps  []*graph.Call
	seen   []*graph.Tensor // by value ID of the body: its current block
	blocks [][]byte        // by step: memory for its output
	into   []int           // by step: the chain's output that it writes directly, or −1
}

func newChainRun(c *graph.Call) *chainRun {
	body := c.Node.Body
	r := &chainRun{call: c}
	for range c.In {
		r.seen = append(r.seen, &graph.Tensor{Type: graph.Float32, Shape: make([]int, 1)})
	}
	for _, s := range body.Nodes {
		y := &graph.Tensor{Type: graph.Float32, Shape: make([]int, 1)}
		step := chainStep(s, r.seen)
		step.Out[0] = y
		r.steps, r.seen = append(r.steps, step), append(r.seen, y)
		r.blocks, r.into = append(r.blocks, nil), append(r.into, -1)
	}
	for i, v := range body.Outputs {
		// An output that shares memory with an input is written last, from its block: a later
		// step may still read the input.
		if !slices.ContainsFunc(c.In, func(x *graph.Tensor) bool { return &x.Bytes[0] == &c.Out[i].Bytes[0] }) {
			r.into[int(v.ID)-len(c.In)] = i
		}
	}
	for i, into := range r.into {
		if into < 0 {
			r.blocks[i] = graph.NewTensor(graph.Float32, chainBlock).Bytes
		}
	}
	return r
}

// piece computes elements [from, from+n) of the row that begins at element z.
func (r *chainRun) piece(z, from, n int, at, step []int) {
	show := func(x *graph.Tensor, bytes []byte, first, n int) {
		x.Shape[0], x.Bytes = n, bytes[4*first:4*(first+n)]
	}
	for k, x := range r.call.In {
		if step[k] == 0 {
			show(r.seen[k], x.Bytes, at[k], 1)
		} else {
			show(r.seen[k], x.Bytes, at[k]+from, n)
		}
	}
	for i, s := range r.steps {
		if o := r.into[i]; o >= 0 {
			show(s.Out[0], r.call.Out[o].Bytes, z+from, n)
		} else {
			show(s.Out[0], r.blocks[i], 0, n)
		}
		if run := fastForm(s.Node.Op); run != nil {
			run(s)
		} else {
			s.Node.Op.Eval(s)
		}
	}
	for o, v := range r.call.Node.Body.Outputs {
		if i := int(v.ID) - len(r.call.In); r.into[i] < 0 {
			copy(r.call.Out[o].Bytes[4*(z+from):], r.seen[v.ID].Bytes)
		}
	}
}

// Chains on Vulkan: each step is lowered alone, then the expressions of its dispatches are
// called one after another in one kernel, which is the SPIR-V of chain.comp with a main
// function written for this chain. The functions are those of the operators' own kernels,
// compiled with NoContraction, so results have the same bits.

var (
	chainSingle = lower.ShaderLibrary("chain", "chain.comp", chainText(false))
	chainWide   = lower.ShaderLibrary("chain-wide", "chain.comp", chainText(true), "-DWIDE")
	chainParts  = map[bool]func() *spirv.Module{
		false: sync.OnceValue(func() *spirv.Module { return spirv.Read(chainSingle.Code()) }),
		true:  sync.OnceValue(func() *spirv.Module { return spirv.Read(chainWide.Code()) }),
	}
)

// chainStrides is the specialization constant of operand 0's first stride.
const chainStrides = 6

const (
	chainScalar = `layout(binding = K) readonly buffer ReadK { float readK[]; };
layout(binding = K) buffer WriteK { float writeK[]; };
float loadK(const uint first) { return readK[place(first, SK_0, SK_1, SK_2, SK_3, SK_4)]; }
void storeK(const uint first, const float x) { writeK[first] = x; }
`
	chainVector = `layout(binding = K) readonly buffer ReadK { float readK[]; };
layout(binding = K) readonly buffer FoursK { vec4 foursK[]; };
layout(binding = K) buffer WriteK { float writeK[]; };
layout(binding = K) buffer StoreK { vec4 storeFoursK[]; };
vec4 loadK(const uint first) {
	uint at = place(first, SK_0, SK_1, SK_2, SK_3, SK_4);
	if ((SINGLE >> K & 1u) != 0) return vec4(readK[at]);
	return foursK[at >> 2];
}
void storeK(const uint first, const vec4 x) { storeFoursK[first >> 2] = x; }
vec4 loadEndK(const uint first) {
	vec4 x = vec4(0);
	for (uint i = 0; first + i < n; i++) x[i] = readK[(first + i) * SK_0];
	return x;
}
void storeEndK(const uint first, const vec4 x) { for (uint i = 0; first + i < n; i++) writeK[first + i] = x[i]; }
`
)

// chainExpr is an expression with its constants p and q. Its operands are inputs and
// results of earlier expressions.
type chainExpr struct {
	code, p, q uint32
	in         [3]int32
}

// chainKernels caches chainKernel by name: equal layers share a kernel, whatever their shapes.
var chainKernels sync.Map

// chainText completes chain.comp with the operands' and expressions' functions.
func chainText(wide bool) func(string) string {
	return func(text string) string {
		var operands, steps, whole, end strings.Builder
		form := chainScalar
		if wide {
			form = chainVector
		}
		for k := range graph.ChainOperands {
			for d := range lower.MaxPointwiseDims {
				fmt.Fprintf(&operands, "layout(constant_id = %d) const uint S%d_%d = 0;\n", chainStrides+lower.MaxPointwiseDims*k+d, k, d)
			}
			operands.WriteString(strings.ReplaceAll(form, "K", fmt.Sprint(k)))
			fmt.Fprintf(&whole, "store%d(first, load%d(first)); ", k, k)
			if wide {
				fmt.Fprintf(&end, "storeEnd%d(first, loadEnd%d(first)); ", k, k)
			}
		}
		lower.CastForm.Code("")
		for i, e := range lower.CastForm.Exprs {
			fmt.Fprintf(&steps, "T step%d(const T a, const T b, const T c, const float p, const float q) { return %s; }\n", i, e)
			fmt.Fprintf(&whole, "step%d(T(0), T(0), T(0), 0, 0); ", i)
		}
		return strings.NewReplacer("EXPRESSIONS\n", lower.Expressions(), "OPERANDS\n", operands.String(), "STEPS\n", steps.String(),
			"EVERYTHING", whole.String(), "EVERYEND", end.String()).Replace(text)
	}
}

// lowerChain makes one dispatch of those of the steps.
func lowerChain(l *graph.Lowering) {
	z := l.Out[0]
	if z.Len() == 0 {
		return
	}
	if n := len(l.In) + len(l.Out); n > graph.ChainOperands {
		l.Refuse("the chain has %d operands; kernels take at most %d", n, graph.ChainOperands)
		return
	}
	exprs, results := chainExprs(l)
	lists, buffers := [][]int{}, []graph.Buffer{}
	for i := range l.Out {
		lists, buffers = append(lists, index.Strides(z.Shape)), append(buffers, lower.Writes(i))
	}
	for i, x := range l.In {
		lists, buffers = append(lists, index.Broadcast(x.Shape, z.Shape)), append(buffers, lower.Reads(i))
	}
	dims, st := index.Merge(z.Shape, lists...)
	if !lower.MustFit(l, dims, lower.MaxPointwiseDims) || l.Refused != "" {
		return
	}
	rank, inner := len(dims), dims[len(dims)-1]
	wide := rank == 1 || inner%4 == 0
	kernel := chainKernel(wide, len(l.In), exprs, results)
	rowBytes := make([]int64, len(st))
	single := uint32(0)
	for i := range st {
		rowBytes[i] = 4 * int64(st[i][0])
		single |= lower.OneIf(st[i][rank-1] == 0) << i
	}
	// The first dim, usually the batch, is not a constant, so it does not change the pipeline.
	spec := append(lower.Words(l, rank), single)
	for i, list := range append([][]int{dims[1:]}, st...) {
		spec = append(spec, lower.Words(l, list...)...)
		spec = append(spec, make([]uint32, lower.MaxPointwiseDims-len(list)-int(lower.OneIf(i == 0)))...)
	}
	each := 1
	if wide {
		each = 4
	}
	lower.InPieces(l, dims[0], buffers, rowBytes, func(rows int, buffers []graph.Buffer) {
		n := rows * index.Elems(dims[1:])
		l.Dispatches = append(l.Dispatches, graph.Dispatch{Kernel: kernel, Spec: spec, Push: lower.Words(l, n), Buffers: buffers,
			Groups: lower.InLine(l, index.CeilDiv(index.CeilDiv(n, each), 256))})
	})
}

// chainExprs returns the expressions of all steps in running order, and the indices of the
// results among the inputs and expressions.
func chainExprs(l *graph.Lowering) (exprs []chainExpr, results []int32) {
	body := l.Node.Body
	operands := slices.Clone(l.In)          // by value ID of the body
	made := make([]int32, len(body.Values)) // by value ID: index among inputs and expressions
	for i := range l.In {
		made[i] = int32(i)
	}
	for _, s := range body.Nodes {
		in := make([]*graph.Operand, len(s.Inputs))
		for i, v := range s.Inputs {
			in[i] = operands[v.ID]
		}
		step := l.With(in, l.Out[:1])
		step.Node, step.Limits = s, graph.PlanLimits
		if s.Op.Lower(step); step.Refused != "" {
			l.Refuse("%s: %s", s.Op.FullName(), step.Refused)
		}
		y := s.Outputs[0].ID
		for _, d := range step.Dispatches {
			x := chainExpr{code: d.Spec[0], p: d.Push[1], q: d.Push[2]}
			for i, b := range d.Buffers[1:] {
				from := y // the result of the step's previous dispatch
				if b.Place == graph.PlaceIn {
					from = s.Inputs[b.Index].ID
				}
				x.in[i] = made[from]
			}
			made[y] = int32(len(l.In) + len(exprs))
			exprs = append(exprs, x)
		}
		operands = append(operands, l.Out[0])
	}
	for _, v := range body.Outputs {
		results = append(results, made[v.ID])
	}
	return exprs, results
}

// chainKernel returns the kernel of a list of expressions. Results are its first bindings,
// followed by the inputs.
func chainKernel(wide bool, inputs int, exprs []chainExpr, results []int32) *graph.Kernel {
	name := fmt.Sprintf("chain wide=%v %d %v %v", wide, inputs, exprs, results)
	if k, ok := chainKernels.Load(name); ok {
		return k.(*graph.Kernel)
	}
	e := chainParts[wide]().Edit()
	body := func(name, suffix string) {
		first := e.Write(name)[0]
		var made []uint32
		for i := range inputs {
			made = append(made, e.Call(fmt.Sprint("load", suffix, len(results)+i), first))
		}
		for _, x := range exprs {
			made = append(made, e.Call(fmt.Sprint("step", x.code), made[x.in[0]], made[x.in[1]], made[x.in[2]], e.Number(x.p), e.Number(x.q)))
		}
		for i, r := range results {
			e.Call(fmt.Sprint("store", suffix, i), first, made[r])
		}
	}
	if body("whole", ""); wide {
		body("end", "End")
	}
	code := e.Code()
	k, _ := chainKernels.LoadOrStore(name, &graph.Kernel{Name: name, Code: func() []byte { return code }})
	return k.(*graph.Kernel)
}

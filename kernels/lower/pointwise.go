package lower

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// Pointwise kernels: an operator whose output element depends on one element of each input
// gives a GLSL expression of these elements a, b and c and the constants p and q, which may
// call the functions of expressions.glsl. All expressions of one signature are in one shader;
// a specialization constant selects one.

// Form is a signature: the element types of output and inputs.
type Form struct {
	name  string
	types []graph.DType // of z, a, b, c
	Exprs []string      // sorted, each once
	once  sync.Once

	wide, single *graph.Kernel
}

// pointwiseTypes has the GLSL types of an element type: in a buffer, and in expressions.
var pointwiseTypes = map[graph.DType]struct{ letter, stored, seen string }{
	graph.Float32: {"f", "float", "float"},
	graph.Bool:    {"b", "uint8_t", "uint"},
	graph.Int64:   {"l", "int64_t", "int64_t"},
	graph.Int32:   {"i", "int", "int"},
	graph.Uint8:   {"u", "uint8_t", "uint"},
	graph.Int8:    {"s", "int8_t", "int"},
}

var pointwiseForms = map[string]*Form{}

// FormOf is the form of an output and its inputs of the given types.
func FormOf(types ...graph.DType) *Form {
	name := "pointwise-"
	for _, t := range types {
		name += pointwiseTypes[t].letter
	}
	f := pointwiseForms[name]
	if f == nil {
		f = &Form{name: name, types: types}
		pointwiseForms[name] = f
		define := []string{}
		for i, operand := range []string{"Z", "A", "B", "C"} {
			t := pointwiseTypes[types[i]]
			define = append(define, "-DSTORED_"+operand+"="+t.stored, "-DSEEN_"+operand+"="+t.seen)
		}
		f.single = editedShader(name, "pointwise.comp", f.source(false), define...)
		if f.allFloat() {
			f.wide = Halved(editedShader(name+"-wide", "pointwise.comp", f.source(true), append(define, "-DWIDE")...))
		}
		if slices.Contains(types, graph.Float32) {
			Halved(f.single)
		}
	}
	return f
}

func (f *Form) allFloat() bool {
	return !slices.ContainsFunc(f.types, func(t graph.DType) bool { return t != graph.Float32 })
}

// Code is the number that selects an expression.
func (f *Form) Code(expr string) uint32 {
	f.once.Do(func() {
		slices.Sort(f.Exprs)
		f.Exprs = slices.Compact(f.Exprs)
	})
	i, _ := slices.BinarySearch(f.Exprs, expr)
	return uint32(i)
}

// source completes pointwise.comp with the expressions.
func (f *Form) source(wide bool) func(string) string {
	return func(text string) string {
		f.Code("")
		var b strings.Builder
		seen := func(i int) string {
			if wide {
				return "T"
			}
			return pointwiseTypes[f.types[i]].seen
		}
		fmt.Fprintf(&b, "%s calculate(%s a, %s b, %s c) {\n", seen(0), seen(1), seen(2), seen(3))
		for i, e := range f.Exprs {
			fmt.Fprintf(&b, "\tif (EXPRESSION == %d) return %s;\n", i, e)
		}
		fmt.Fprintf(&b, "\treturn %s(0);\n}", seen(0))
		return strings.NewReplacer("EXPRESSIONS\n", Expressions(), "CALCULATE\n", b.String()+"\n").Replace(text)
	}
}

// Expressions returns the functions that expressions may call.
func Expressions() string {
	text, err := sources.ReadFile("expressions.glsl")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Pointwise is a Lower for operators on floats, given by an expression of a, b and c, the first
// inputs.
func Pointwise(expr string) func(*graph.Lowering) {
	f := graph.Float32
	return PointwiseOf(expr, nil, f, f, f, f)
}

// PointwiseBy is pointwise with constants p and q that depend on the node.
func PointwiseBy(expr string, numbers func(n *graph.Node) []float64) func(*graph.Lowering) {
	f := graph.Float32
	return PointwiseOf(expr, numbers, f, f, f, f)
}

// PointwiseOf is pointwiseBy for element types of z, a, b and c.
func PointwiseOf(expr string, numbers func(n *graph.Node) []float64, types ...graph.DType) func(*graph.Lowering) {
	f := FormOf(types...)
	f.Exprs = append(f.Exprs, expr)
	return func(l *graph.Lowering) {
		var pq []float64
		if numbers != nil {
			pq = numbers(l.Node)
		}
		var in []int
		for i := range min(len(l.In), 3) {
			in = append(in, i)
		}
		f.Lower(l, expr, 0, in, pq...)
	}
}

// ByType selects a Lower by the type of input 0.
func ByType(forms map[graph.DType]func(*graph.Lowering)) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if f := forms[l.In[0].Type]; f != nil {
			f(l)
			return
		}
		l.Refuse("there is no kernel for %s inputs", l.In[0].Type)
	}
}

// MaxPointwiseDims is the most dims that pointwise.comp supports.
const MaxPointwiseDims = 5

// Lower appends the dispatch of an expression of inputs in, into output out.
func (f *Form) Lower(l *graph.Lowering, expr string, out int, in []int, pq ...float64) {
	z := l.Out[out]
	operands := make([]*graph.Operand, len(in))
	buffers := []graph.Buffer{Writes(out)}
	for i, k := range in {
		operands[i] = l.In[k]
		buffers = append(buffers, Reads(k))
	}
	f.Append(l, expr, z, operands, buffers, pq...)
}

// Append is lower with explicit operands and buffers.
func (f *Form) Append(l *graph.Lowering, expr string, z *graph.Operand, in []*graph.Operand, buffers []graph.Buffer, pq ...float64) {
	for i, x := range append([]*graph.Operand{z}, in...) {
		if x == nil || x.Type != f.types[i] {
			what := "an operand is missing"
			if x != nil {
				what = fmt.Sprintf("an operand is %s, not %s", x.Type, f.types[i])
			}
			l.Refuse("%s", what)
			return
		}
		if x.Type.Size() == 1 && !l.Limits.Int8 || x.Type == graph.Int64 && !l.Limits.Int64 {
			l.Refuse("the device has no %s", x.Type)
			return
		}
	}
	if z.Len() == 0 {
		return
	}
	lists := [][]int{index.Strides(z.Shape)}
	for _, x := range in {
		lists = append(lists, index.Broadcast(x.Shape, z.Shape))
	}
	dims, st := index.Merge(z.Shape, lists...)
	if !MustFit(l, dims, MaxPointwiseDims) {
		return
	}
	// Bindings that the expression does not use repeat the last operand.
	for len(buffers) < 4 {
		buffers = append(buffers, graph.Buffer{Place: buffers[len(buffers)-1].Place, Index: buffers[len(buffers)-1].Index, At: buffers[len(buffers)-1].At, Bytes: buffers[len(buffers)-1].Bytes})
		st = append(st, st[len(st)-1])
	}
	rowBytes := make([]int64, 4)
	for i := range rowBytes {
		rowBytes[i] = int64(st[i][0]) * f.types[min(i, len(in))].Size()
	}
	InPieces(l, dims[0], buffers, rowBytes, func(rows int, buffers []graph.Buffer) {
		f.dispatch(l, expr, append([]int{rows}, dims[1:]...), st, buffers, pq)
	})
}

// dispatch appends a dispatch over operands with strides st in shape dims.
func (f *Form) dispatch(l *graph.Lowering, expr string, dims []int, st [][]int, buffers []graph.Buffer, pq []float64) {
	rank, inner := len(dims), dims[len(dims)-1]
	alone := uint32(0)
	for i := range 3 {
		alone |= OneIf(st[1+i][rank-1] == 0) << i
	}
	kernel, each := f.single, 1
	if f.wide != nil && (rank == 1 || inner%4 == 0) {
		kernel, each = f.wide, 4
	}
	pq = append(pq, 0, 0)
	push := append(Words(l, index.Elems(dims)), Bits(pq[0]), Bits(pq[1]))
	for i, list := range [][]int{dims, st[1], st[2], st[3]} {
		fill := 0
		if i == 0 {
			fill = 1
		}
		push = append(push, Words(l, append(slices.Clone(list), slices.Repeat([]int{fill}, MaxPointwiseDims-rank)...)...)...)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{f.Code(expr), uint32(rank), alone}, Push: push, Buffers: buffers,
		Groups: InLine(l, index.CeilDiv(index.CeilDiv(index.Elems(dims), each), 256)),
	})
}

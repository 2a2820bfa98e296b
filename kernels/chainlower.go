package kernels

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"memopt/kernels/internal/spirv"
	"memopt/memopt/graph"
)

// Chains on devices that run kernels. Each step is lowered as it would be alone,
// and the expressions of its dispatches are put into one kernel, one after
// another: SPIR-V that was compiled from chain.comp, with calls of the functions
// that load, compute and store. The functions are those of the operators' own
// kernels, and all they compute is marked so that no driver may compute it
// otherwise, so results have the same bits.

var (
	chainSingle = shaderLibrary("chain", "chain.comp", chainText(false))
	chainWide   = shaderLibrary("chain-wide", "chain.comp", chainText(true), "-DWIDE")
	chainParts  = map[bool]func() *spirv.Module{
		false: sync.OnceValue(func() *spirv.Module { return spirv.Read(chainSingle.Code) }),
		true:  sync.OnceValue(func() *spirv.Module { return spirv.Read(chainWide.Code) }),
	}
)

// chainText puts operands and expressions into the file.
func chainText(wide bool) func(string) string {
	return func(text string) string {
		var operands, steps, whole, end strings.Builder
		form := chainScalar
		if wide {
			form = chainVector
		}
		for k := range graph.ChainOperands {
			for d := range maxPointwiseDims {
				fmt.Fprintf(&operands, "layout(constant_id = %d) const uint S%d_%d = 0;\n", chainStrides+maxPointwiseDims*k+d, k, d)
			}
			operands.WriteString(strings.ReplaceAll(form, "K", fmt.Sprint(k)))
			fmt.Fprintf(&whole, "store%d(first, load%d(first)); ", k, k)
			if wide {
				fmt.Fprintf(&end, "storeEnd%d(first, loadEnd%d(first)); ", k, k)
			}
		}
		castForm.code("")
		for i, e := range castForm.exprs {
			fmt.Fprintf(&steps, "T step%d(const T a, const T b, const T c, const float p, const float q) { return %s; }\n", i, e)
			fmt.Fprintf(&whole, "step%d(T(0), T(0), T(0), 0, 0); ", i)
		}
		return strings.NewReplacer("EXPRESSIONS\n", expressions(), "OPERANDS\n", operands.String(), "STEPS\n", steps.String(),
			"EVERYTHING", whole.String(), "EVERYEND", end.String()).Replace(text)
	}
}

// chainStrides is the number of the constant that has operand 0's first stride.
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

// chainExpr is an expression with its numbers, on inputs and what others before it
// have made.
type chainExpr struct {
	code, p, q uint32
	in         [3]int32
}

// lowerChain makes one dispatch of the steps' own.
func lowerChain(l *graph.Lowering) {
	z := l.Out[0]
	if z.Len() == 0 {
		return
	}
	if n := len(l.In) + len(l.Out); n > graph.ChainOperands {
		l.Refuse("it has %d operands, and the kernel takes %d", n, graph.ChainOperands)
		return
	}
	exprs, results := chainExprs(l)
	lists, buffers := [][]int{}, []graph.Buffer{}
	for i := range l.Out {
		lists, buffers = append(lists, strides(z.Shape)), append(buffers, writes(i))
	}
	for i, x := range l.In {
		lists, buffers = append(lists, broadcastStrides(x.Shape, z.Shape)), append(buffers, reads(i))
	}
	dims, st := mergeStrides(z.Shape, lists...)
	if !mustFit(l, dims, maxPointwiseDims) || l.Refused != "" {
		return
	}
	rank, inner := len(dims), dims[len(dims)-1]
	wide := rank == 1 || inner%4 == 0
	kernel := chainKernel(wide, len(l.In), exprs, results)
	rowBytes := make([]int64, len(st))
	single := uint32(0)
	for i := range st {
		rowBytes[i] = 4 * int64(st[i][0])
		single |= oneIf(st[i][rank-1] == 0) << i
	}
	// The first dim is no constant: kernels are the same for any batch.
	spec := append(words(l, rank), single)
	for i, list := range append([][]int{dims[1:]}, st...) {
		spec = append(spec, words(l, list...)...)
		spec = append(spec, make([]uint32, maxPointwiseDims-len(list)-int(oneIf(i == 0)))...)
	}
	each := 1
	if wide {
		each = 4
	}
	inPieces(l, dims[0], buffers, rowBytes, func(rows int, buffers []graph.Buffer) {
		n := rows * elems(dims[1:])
		l.Dispatches = append(l.Dispatches, graph.Dispatch{Kernel: kernel, Spec: spec, Push: words(l, n), Buffers: buffers,
			Groups: inLine(l, ceilDiv(ceilDiv(n, each), 256))})
	})
}

// chainExprs is the expressions of all steps, in running order, and where among
// the inputs and them the results are.
func chainExprs(l *graph.Lowering) (exprs []chainExpr, results []int32) {
	body := l.Node.Body
	operands := slices.Clone(l.In)          // by value of the body
	made := make([]int32, len(body.Values)) // where it is
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
				from := y // what the step's dispatch before has made
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

// chainKernels has every kernel that was written, by its name: layers have the
// same ones, whatever their shapes.
var chainKernels sync.Map

// chainKernel is the kernel of expressions on inputs. Results are its first
// bindings, and inputs the others.
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
	k, _ := chainKernels.LoadOrStore(name, &graph.Kernel{Name: name, Code: e.Code()})
	return k.(*graph.Kernel)
}

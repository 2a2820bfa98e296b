package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestAnyNode: a file may use any operator on anything: every operator of the library gives
// a node or an error, whatever its inputs and attributes are.
func TestAnyNode(t *testing.T) {
	const tries = 400
	dims := []graph.Dim{graph.Num(0), graph.Num(1), graph.Num(2), graph.Num(3), graph.Num(1 << 40), graph.Sym("n"), graph.Sym("m").Add(graph.Num(-1))}
	numbers := []int64{-1 << 63, -9, -2, -1, 0, 1, 2, 3, 7, 1 << 40, 1<<63 - 1}
	types := []graph.DType{graph.Float32, graph.Float32, graph.Float64, graph.Float16, graph.Int64, graph.Int64, graph.Int32, graph.Bool, graph.Uint8, graph.BFloat16}
	for _, op := range Library.All() {
		rnd := rand.New(rand.NewPCG(uint64(len(op.Name)), uint64(op.Since)))
		t.Run(fmt.Sprint(op.FullName(), op.Since), func(t *testing.T) {
			pick := func(n int) int { return rnd.IntN(n) }
			ins, outs := op.Ports()
			made := 0
			for range tries {
				b := graph.NewBuilder(graph.New(Library, ""))
				value := func() *graph.Value {
					typ := types[pick(len(types))]
					shape := graph.Shape{}
					for range pick(5) {
						shape = append(shape, dims[pick(len(dims))])
					}
					kind := graph.Input
					if pick(3) == 0 {
						kind, shape = graph.Const, graph.Dims([]int64{0, 1, 2, 3, 4}[pick(5)])
						if pick(4) == 0 {
							shape = graph.Shape{}
						}
					}
					v, err := b.Define(kind, fmt.Sprint("v", len(b.Graph.Values)), typ, shape)
					if err != nil {
						t.Fatal(err)
					}
					if kind == graph.Const {
						n, _ := shape.Elems().Const()
						x := graph.NewTensor(typ, int(n))
						for i := range int(n) {
							x.SetInt(i, numbers[pick(len(numbers))])
						}
						v.Data, v.Ints = graph.Bytes(x.Bytes), graph.IntsOf(x)
						if v.Ints != nil && pick(4) == 0 && n > 0 {
							v.Data, v.Ints[0] = nil, dims[5+pick(2)]
						}
					}
					return v
				}
				count := func(ports []graph.Port) int {
					n := len(ports)
					for n > 0 && ports[n-1].Optional && pick(2) == 0 {
						n--
					}
					if n > 0 && n == len(ports) && ports[n-1].Variadic {
						n += pick(3) - 1
					}
					return n
				}
				var in []*graph.Value
				for range count(ins) {
					if len(in) > 0 && pick(3) == 0 {
						in = append(in, in[0])
					} else {
						in = append(in, value())
					}
				}
				var attrs []graph.Attr
				for _, s := range op.AttrSpecs() {
					if pick(2) == 0 {
						attrs = append(attrs, graph.Attr{Name: s.Name, Value: anyAttr(s.Kind, rnd, numbers)})
					}
				}
				names := make([]string, count(outs))
				for i := range names {
					names[i] = fmt.Sprint("out", i)
				}
				text := fmt.Sprint(in, attrs, len(names))
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("%s: panic: %.200v", text, p)
						}
					}()
					slices.SortFunc(attrs, func(a, b graph.Attr) int { return strings.Compare(a.Name, b.Name) })
					if _, err := b.Node(op, "node", attrs, in, names); err == nil {
						made++
						if err := b.Graph.CheckTypes(); err != nil {
							t.Errorf("%s: %v", text, err)
						}
					}
				}()
			}
			t.Logf("%d of %d are nodes", made, tries)
		})
	}
}

func anyAttr(kind graph.AttrKind, rnd *rand.Rand, numbers []int64) any {
	n := numbers[rnd.IntN(len(numbers))]
	list := make([]int64, rnd.IntN(5))
	for i := range list {
		list[i] = numbers[rnd.IntN(len(numbers))]
	}
	switch kind {
	case graph.AttrInt:
		return n
	case graph.AttrFloat:
		return float64(n)
	case graph.AttrString:
		return []string{"", "x", "constant", "mean", "SAME_UPPER", "ij,jk->ik", "...i->"}[rnd.IntN(7)]
	case graph.AttrInts:
		return list
	case graph.AttrFloats:
		return []float64{float64(n)}
	case graph.AttrStrings:
		return []string{"x"}
	}
	return graph.TensorOf(graph.Int64, list, len(list))
}

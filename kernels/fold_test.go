package kernels

import (
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestFolds: integer operators compute with formulas as they do with numbers,
// or not at all.
func TestFolds(t *testing.T) {
	const given = `
s i64[3] = const {batch, seq, 768}
k i64[3] = const {-1, 2, 0}
one i64[] = const {1}
two i64[] = const {2}
minus i64[] = const {-2}
big i64[] = const {9223372036854775807}
zero i64[1] = const {0}
even i64[1] = const {2*batch - 18}
pair i64[1] = const {2}
p bool[2] = const {1, 0}
small u8[2] = const {200, 3}
`
	for _, c := range []struct{ node, want string }{
		{"Add(s, two)", "batch + 2, seq + 2, 770"},
		{"Sub(s, s)", "0, 0, 0"},
		{"Mul(s, k)", "-batch, 2*seq, 0"},
		{"Mul(s, big)", "unknown"}, // 768 × the greatest number
		{"Div(s, two)", "floor(batch/2), floor(seq/2), 384"},
		{"Div(k, two)", "0, 1, 0"},
		{"Div(minus, two)", "-1"},
		{"Div(s, minus)", "unknown"},
		{"Div(even, two)", "batch - 9"},
		{"Div(s, s)", "1, 1, 1"},
		{"Mod(k, two)", "1, 0, 0"},
		{"Mod(k, two) fmod=1", "-1, 0, 0"},
		{"Mod(s, two)", "batch - 2*floor(batch/2), -2*floor(seq/2) + seq, 0"},
		{"Neg(s)", "-batch, -seq, -768"},
		{"Abs(s)", "batch, seq, 768"},
		{"Abs(k)", "1, 2, 0"},
		{"Sign(s)", "1, 1, 1"},
		{"Pow(s, two)", "batch**2, seq**2, 589824"},
		{"Max(s, one)", "batch, seq, 768"},
		{"Min(s, two, one)", "1, 1, 1"},
		{"Identity(s)", "batch, seq, 768"},
		{"Cast(s) to=6", "batch, seq, 768"},
		{"Cast(s) to=2", "unknown"}, // a uint8 may not hold them
		{"Cast(s) to=9", "1, 1, 1"},
		{"Cast(k) to=9", "1, 1, 0"},
		{"Cast(k) to=2", "unknown"},
		{"Add(small, small)", "unknown"}, // 400 does not fit
		{"Equal(s, minus)", "0, 0, 0"},
		{"Equal(s, k)", "unknown"},
		{"Equal(k, two)", "0, 1, 0"},
		{"GreaterOrEqual(s, one)", "1, 1, 1"},
		{"Less(s, one)", "0, 0, 0"},
		{"Greater(s, one)", "unknown"}, // batch may be 1
		{"Greater(s, zero)", "1, 1, 1"},
		{"Less(s, zero)", "0, 0, 0"},
		{"Not(p)", "0, 1"},
		{"And(p, p)", "1, 0"},
		{"Where(p, two, one)", "2, 1"},
		{"Clip(s, two, _)", "max(2, batch), max(2, seq), 768"},
		{"Clip(k, one, two)", "1, 2, 1"},
		{"ReduceSum(s, zero) keepdims=0", "batch + seq + 768"},
		{"ReduceProd(s)", "768*batch*seq"},
		{"ReduceMax(s, zero)", "max(768, batch, seq)"},
		{"ReduceMin(k, zero)", "-1"},
		{"CumSum(s, one)", "error"},
		{"CumSum(s, zero)", "batch, batch + seq, batch + seq + 768"},
		{"CumSum(k, zero) reverse=1 exclusive=1", "2, 0, 0"},
		{"ConstantOfShape(two)", "error"},
		{"ConstantOfShape(pair) value=i64[1] {7}", "7, 7"},
		{"Range(one, big, two)", "error"},
		{"Range(minus, two, one)", "-2, -1, 0, 1"},
	} {
		inferred(t, given, c.node, c.want, knownContents)
	}
}

// inferred holds what is known of a node's result, or "error", against what is wanted.
func inferred(t *testing.T, given, node, want string, known func(v *graph.Value) string) {
	t.Helper()
	g, err := graph.Parse(Library, given+"y = "+node+" @sample\n")
	got := "error"
	if err == nil {
		got = known(g.ByName("y"))
	}
	if got != want {
		t.Errorf("%s is %s, not %s (%v)", node, got, want, err)
	}
}

func knownShape(v *graph.Value) string { return v.Shape.String() }

func knownContents(v *graph.Value) string {
	if v.Ints == nil {
		return "unknown"
	}
	return strings.Trim(graph.Shape(v.Ints).String(), "[]")
}

// TestRangeSizes: a range has the length of its formula.
func TestRangeSizes(t *testing.T) {
	const given = `
s i64[] = const {seq}
zero i64[] = const {0}
one i64[] = const {1}
three i64[] = const {3}
minus i64[] = const {-1}
half f32[] = const {0.5}
whole f32[] = const {1}
f = Cast(s) to=1 @f
`
	for _, c := range []struct{ node, want string }{
		{"Range(zero, s, one)", "[seq]"},
		{"Range(one, s, three)", "[ceil((seq - 1)/3)]"},
		{"Range(s, zero, minus)", "[seq]"},
		{"Range(three, s, one)", "[max(0, seq - 3)]"},
		{"Range(half, f, whole)", "error"}, // halves are not formulas
		{"Range(whole, f, whole)", "[seq - 1]"},
		{"Range(half, whole, half)", "[1]"},
		{"Range(zero, s, s)", "[1]"},
		{"Range(zero, s, zero)", "error"},
	} {
		inferred(t, given, c.node, c.want, knownShape)
	}
}

// TestOlderReductions: axes that were an attribute give the same result.
func TestOlderReductions(t *testing.T) {
	for _, c := range []struct {
		attrs []graph.Attr
		want  string
	}{
		{nil, "[1, 1]"},
		{[]graph.Attr{{Name: "axes", Value: []int64{-1}}}, "[batch, 1]"},
		{[]graph.Attr{{Name: "axes", Value: []int64{0}}, {Name: "keepdims", Value: int64(0)}}, "[3]"},
	} {
		g := graph.New(Library, "old")
		b := graph.NewBuilder(g)
		x, err := b.Define(graph.Input, "x", graph.Float32, graph.Shape{graph.Sym("batch"), graph.Num(3)})
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Node(Library.Find("", "ReduceMean", 13), "mean", c.attrs, []*graph.Value{x}, []string{"y"})
		if err != nil {
			t.Fatal(err)
		}
		if got := y[0].Shape.String(); got != c.want || y[0].Name != "y" {
			t.Errorf("%v: %s has shape %s, not %s", c.attrs, y[0].Name, got, c.want)
		}
	}
}

// TestFoldsOfFiles: numbers of a file, which lie at any address, are folded like others.
func TestFoldsOfFiles(t *testing.T) {
	const text = `
x f16[2] = input
w f32[2] = const data
h = Cast(w) to=10
y = Add(x, h)
output y
`
	g, err := graph.Parse(Library, text)
	if err != nil {
		t.Fatal(err)
	}
	numbers := graph.TensorOf(graph.Float32, []float32{1, -2}, 2).Bytes
	file := append(make([]byte, 1, 16), numbers...)
	g.ByName("w").Data = graph.Bytes(file[1:])
	g.Clean(graph.CleanOptions{})
	h := g.ByName("h")
	if h == nil || h.Kind != graph.Const {
		t.Fatalf("the cast is not folded:\n%s", g)
	}
	x, err := h.Tensor(&graph.Binding{})
	if err != nil || x.Float(0) != 1 || x.Float(1) != -2 {
		t.Errorf("it is %v, %v: %v", x.Float(0), x.Float(1), err)
	}
}

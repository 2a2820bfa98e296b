package graph

import (
	"slices"
	"strings"
	"testing"
)

// panics runs f and compares what it panics with.
func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}()
	f()
}

// TestBuilder writes nodes as rules do.
func TestBuilder(t *testing.T) {
	g := New(testLibrary, "built")
	b := NewBuilder(g)
	x, err := b.Define(Input, "x", Float32, Shape{Sym("n"), Num(2)})
	if err != nil {
		t.Fatal(err)
	}
	b.Phase, b.Scope = Backward, "grad"
	y := b.Op("Any", A{"i": 1, "f": float32(0.5), "is": []int64{1}}, x)
	b.Op("Any", A{"i": true}, y)
	b.Ops("Dropout", nil, 2, y, nil)
	b.Op("memopt.Decay", nil, y, y)
	b.Op("Reshape", nil, y, b.Ints(Num(2), Sym("n")))
	b.Op("Twice", nil, y)
	b.Int(Sym("n").Add(Num(1)))
	b.Num(Float32, 1.5)
	b.Num(Int32, 3)
	if _, err := b.Const("table", TensorOf(Int64, []int64{1, 2, 3, 4}, 2, 2)); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	const want = `graph built
x f32[n, 2] = input
"grad/const" i64[2] = const {2, n}
"grad/const_5" i64[] = const {n + 1}
"grad/const_6" f32[] = const {1.5}
"grad/const_7" i32[] = const {3}
table i64[2, 2] = const {1, 2, 3, 4}
backward:
"grad/Any" f32[n, 2] = Any(x) f=0.5 i=1 is=[1]
"grad/Any_1" f32[n, 2] = Any("grad/Any") i=1
"grad/Dropout" f32[n, 2], "grad/Dropout:mask" bool[n, 2] = Dropout("grad/Any")
"grad/Decay" f32[n, 2] = memopt.Decay("grad/Any", "grad/Any")
"grad/Reshape" f32[2, n] = Reshape("grad/Any", "grad/const")
"grad/Twice/Relu" f32[n, 2] = Relu("grad/Any")
"grad/Twice/Relu_2" f32[n, 2] = Relu("grad/Twice/Relu")
`
	if got := renumbered(g.String()); got != renumbered(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// renumbered takes the serial numbers off made-up names: which they are is no
// one's business.
func renumbered(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '_' {
			for i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9' {
				i++
			}
			continue
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// TestRulesFail: what rules panic with is an error at the entry, except for what
// is our own mistake.
func TestRulesFail(t *testing.T) {
	g := parse(t, "x f32[n, 2] = input\ny f32[2, n] = input\nz f32[2] = input\n")
	b := NewBuilder(g)
	b.Scope = "rule"
	for want, f := range map[string]func(){
		`node "rule/Add" (Add): f32[n, 2] and f32[2] cannot be added`: func() { b.Op("Add", nil, g.ByName("x"), g.ByName("z")) },
		`node "rule/Add" (Add): input 1 (B) is missing`:               func() { b.Op("Add", nil, g.ByName("x")) },
		`9223372036854775807 + 1 is out of range`:                     func() { Num(9223372036854775807).Add(Num(1)) },
	} {
		if err := Try(f); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if _, err := b.Define(Param, "x", Float32, nil); err == nil || err.Error() != `two values are named "x"` {
		t.Errorf("got %v", err)
	}
	y := b.Op("Any", nil, g.ByName("x"))
	panics(t, `graph: a rule uses operator "Nothing", which is not in the library`, func() { b.Op("Nothing", nil) })
	panics(t, `graph: a rule uses operator "com.example.Relu", which is not in the library`, func() { b.Op("com.example.Relu", nil) })
	panics(t, `graph: attribute i has type uint8`, func() { b.Op("Any", A{"i": uint8(1)}, y) })
	panics(t, `graph: renaming "rule/Any": "x" is in use`, func() { g.Rename(y, "x") })
	panics(t, `graph: operator Any does not declare attribute "z"`, func() { y.Def.Int("z") })
	panics(t, "mine", func() { _ = Try(func() { panic("mine") }) })
}

// TestFailedNodeLeavesNothing: an error appends no value, not even of an output
// before the one that is wrong.
func TestFailedNodeLeavesNothing(t *testing.T) {
	lib := &Library{}
	op := lib.Define(Op{Name: "Pair", In: "X", Out: "A, B", Infer: func(n *Node) {
		n.Set(0, Float32, n.Inputs[0].Shape)
		n.Set(1, Float32, Shape{n.Inputs[0].Shape[0].Sub(Num(10))})
	}})
	g, err := Parse(lib, "x f32[4] = input\n")
	if err != nil {
		t.Fatal(err)
	}
	before := g.String()
	if _, err := NewBuilder(g).Node(op, "n", nil, g.Inputs, []string{"a", "b"}); err == nil {
		t.Fatal("a negative dim was appended")
	}
	if err := g.Check(); err != nil || g.String() != before || g.ByName("a") != nil {
		t.Errorf("%v\n%s", err, g)
	}
}

func TestNodeAttributes(t *testing.T) {
	g := parse(t, "x f32[2] = input\ny = Any(x) f=2.5 fs=[1.5] is=[7] t=i64[1]{5}\n")
	n := g.Nodes[0]
	if n.Float("f") != 2.5 || n.Int("i") != 3 || n.Str("s") != "constant" || n.Ints("is")[0] != 7 || n.Floats("fs")[0] != 1.5 {
		t.Error("attributes are wrong")
	}
	if n.Attr("ss") != nil || !n.Has("f") || n.Has("i") {
		t.Error("absent attributes are wrong")
	}
	if n.In(0) != g.ByName("x") || n.In(1) != nil || n.Output(1) != nil {
		t.Error("inputs and outputs are wrong")
	}
}

func TestUses(t *testing.T) {
	g := parse(t, `x f32[2] = input
a = Add(x, x)
b = Dropout(x, _, a)
c = Relu(b)
d = Relu(b)
`)
	uses := g.Uses()
	for name, want := range map[string]string{"x": "a b", "a": "b", "b": "c d", "c": "", "d": ""} {
		var got []string
		for _, n := range uses.Of(g.ByName(name)) {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is read by %v, should be %s", name, got, want)
		}
	}
}

func TestValueTensor(t *testing.T) {
	g := parse(t, `x f32[n] = input
to i64[2] = const {2*n, 7}
few f32[2] = const {1, 2}
many f32[65] = const data
slot f32[n, 2] = state
`)
	b, err := Bind(map[string]int64{"n": 3})
	if err != nil {
		t.Fatal(err)
	}
	tensor := func(name string) *Tensor {
		t.Helper()
		x, err := g.ByName(name).Tensor(b)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if got := tensor("to").I64(); !slices.Equal(got, []int64{6, 7}) {
		t.Errorf("to is %v", got)
	}
	if got := tensor("few").F32(); !slices.Equal(got, []float32{1, 2}) {
		t.Errorf("few is %v", got)
	}
	if got := tensor("slot"); !slices.Equal(got.Shape, []int{3, 2}) || !slices.Equal(got.F32(), make([]float32, 6)) {
		t.Errorf("slot is %v of %v", got.F32(), got.Shape)
	}
	empty, err := Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"x":    `value "x": dim "n" has no value (needed for n)`,
		"to":   `value "to": dim "n" has no value (needed for 2*n)`,
		"many": `value "many" has no numbers`,
	} {
		if _, err := g.ByName(name).Tensor(empty); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if got := strings.Join(g.Names(), " "); got != "n" {
		t.Errorf("names are %q", got)
	}
}

func TestCheckBinding(t *testing.T) {
	g := parse(t, "x f32[a] = input\ny f32[2*b] = input\nz = Add(x, y)\n")
	for want, values := range map[string]map[string]int64{
		"": {"a": 6, "b": 3},
		`node "z" needs a = 2*b, but they are 6 and 8`:           {"a": 6, "b": 4},
		`node "z": dim "b" has no value (needed for 2*b)`:        {"a": 6},
		`node "z": 2*b: 2 × 9223372036854775807 is out of range`: {"a": 6, "b": 9223372036854775807},
	} {
		b, err := Bind(values)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := g.CheckBinding(b); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestSweep: what nobody reads of what was made since is gone, with its name.
func TestSweep(t *testing.T) {
	g := New(testLibrary, "swept")
	b := NewBuilder(g)
	x, err := b.Define(Input, "x", Float32, Shape{Num(2)})
	if err != nil {
		t.Fatal(err)
	}
	before := b.Op("Any", nil, x)
	nodes, values := len(g.Nodes), len(g.Values)
	read := b.Op("Any", nil, before)
	lost := b.Op("Any", nil, read)
	b.Int(Num(7))
	last := b.Op("Any", A{"i": 1}, read)
	b.Sweep(nodes, values, []*Value{{Kind: Sequence, Seq: []*Value{last}}})
	g.Outputs = append(g.Outputs, last)
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	if len(g.Nodes) != nodes+2 || len(g.Values) != values+2 || g.ByName(lost.Name) != nil || g.ByName(read.Name) != read {
		t.Errorf("is left:\n%s", g)
	}
}

package onnx

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"memopt/internal/graph"
)

func constant(out string, name string, kind int64, value wire) wire {
	return onnxNode("Constant", nil, names{out}, attr(name, kind, value))
}

func onnxFunction(name string, fields ...wire) wire {
	return in(modelFunction, text(funcName, name), text(funcDomain, "f"), onnxOpset(funcOpset, "", 20), msg(fields...))
}

func domain(d string) wire { return text(nodeDomain, d) }
func named(n string) wire  { return text(nodeName, n) }

// readable are models and the graphs that they are read as.
var readable = []struct {
	name  string
	model wire
	want  string
}{
	{"kinds of initializers, dims and the loss", onnxModel(text(graphName, "g"),
		input("x", "batch", "2*seq + 1", "past-length", nil, 3),
		onnxFloats("w", []float32{1, 2}, 2), onnxInts("i", []int64{3, -4}, 2),
		onnxNode("Relu", names{"x"}, names{"y"}, named("first")),
		onnxNode("Relu", names{"w"}, names{"v"}),
		onnxNode("Pair", names{"i"}, names{"j"}),
		onnxNode("Total", names{"x"}, names{"z"}),
		output("y"), output("v"), output("j"), output("z")), `
graph g
x f32[batch, 2*seq + 1, "past-length", x_dim3, 3] = input
w f32[2] = param
i i64[2] = const {3, -4}
y f32[batch, 2*seq + 1, "past-length", x_dim3, 3] = Relu(x) @first
v f32[2] = Relu(w)
j i64[2] = Pair(i)
z f32[] = Total(x)
output y
output v
output j
output z
loss z
`},
	{"a negative dim is an unknown size", onnxModel(input("x", -1, 3), input("y", -1, -2),
		onnxNode("Add", names{"x", "y"}, names{"z"}),
		output("z")), `
x f32[x_dim0, 3] = input
y f32[x_dim0, y_dim1] = input
z f32[x_dim0, 3] = Add(x, y)
output z
assume 3 == y_dim1 @z
assume y_dim0 == x_dim0 @z
`},
	{"a border parts the passes, whatever the order and the marks", onnxModel(
		input("x", "batch", 4), input("w", "batch", 4),
		onnxNode("Relu", names{"w"}, names{"kept"}, named("for backward alone")),
		onnxNode("Add", names{"x", "w"}, names{"h"}, attr("__backwardpass", 2, number(attrI, 1))),
		onnxNode("Total", names{"h"}, names{"l"}, attr("overload_name", 3, text(attrS, "vec"))),
		onnxNode("Yield", names{"l", "h"}, names{"dl", ""}, attr("operator", 3, text(attrS, "mine"))),
		onnxNode("Add", names{"kept", "dl"}, names{"w_grad"}, attr("__backwardpass", 2, number(attrI, 1))),
		output("w_grad")), `
x f32[batch, 4] = input
w f32[batch, 4] = input
h f32[batch, 4] = Add(x, w)
l f32[] = Total(h)
dl f32[], _ = Yield(l, h) operator="mine"
backward:
kept f32[batch, 4] = Relu(w) @"for backward alone"
w_grad f32[batch, 4] = Add(kept, dl)
output w_grad
output l
output h
loss l
grad w = w_grad
`},
	{"dims that must be one size get one name", onnxModel(
		input("x", "x_dim0", "x_dim1"), input("y", "y_dim0", "y_dim1"), input("z", "z_dim0", "x_dim1"),
		onnxNode("Add", names{"y", "x"}, names{"s"}),
		onnxNode("Add", names{"z", "y"}, names{"t"}),
		output("s"), output("t")), `
x f32[x_dim0, x_dim1] = input
y f32[x_dim0, x_dim1] = input
z f32[x_dim0, x_dim1] = input
s f32[x_dim0, x_dim1] = Add(y, x)
t f32[x_dim0, x_dim1] = Add(z, y)
output s
output t
assume y_dim0 == x_dim0 @s
assume y_dim1 == x_dim1 @s
assume z_dim0 == x_dim0 @t
`},
	{"chains of shapes fold", onnxModel(input("x", "batch", "seq", 64),
		onnxNode("Shape", names{"x"}, names{"b"}, attr("end", 2, number(attrI, 1))),
		onnxNode("Shape", names{"x"}, names{"s"}, attr("start", 2, number(attrI, 1)), attr("end", 2, number(attrI, 2))),
		onnxNode("Mul", names{"b", "s"}, names{"bs"}),
		onnxInts("c", []int64{64}, 1),
		onnxNode("Concat", names{"bs", "c"}, names{"to"}, attr("axis", 2, number(attrI, 0))),
		onnxNode("Reshape", names{"x", "to"}, names{"y"}),
		output("y")), `
x f32[batch, seq, 64] = input
to i64[2] = const {batch*seq, 64}
y f32[batch*seq, 64] = Reshape(x, to)
output y
`},
	{"an initializer that is an input too; old files say no attribute type", onnxModel(
		input("x", 2), input("w", 2), onnxFloats("w", []float32{1, 2}, 2),
		onnxNode("Add", names{"x", "w"}, names{"y"}),
		onnxNode("Scale", names{"y"}, names{"z"}, in(nodeAttr, text(attrName, "by"), float(attrF, 0.5))),
		output("z")), `
x f32[2] = input
w f32[2] = param
y f32[2] = Add(x, w)
z f32[2] = Scale(y) by=0.5
output z
`},
	{"all kinds of attributes, sorted", onnxModel(input("x", 2),
		onnxNode("Scale", names{"x"}, names{"y"},
			attr("tags", 8, text(attrStrings, "a"), text(attrStrings, "b")),
			attr("per", 6, in(attrFloats, protowire.AppendFixed32(nil, 0x3f800000)), float(attrFloats, 2)),
			attr("note", 3, text(attrS, "hello")),
			attr("by", 1, float(attrF, 3))),
		constant("c", "value_ints", 7, msg(in(attrInts, wire{1, 2}), number(attrInts, -1))),
		constant("d", "value", 4, in(attrT, number(tensorType, 1), number(tensorDims, 2), in(tensorRaw, wire{0, 0, 128, 63, 0, 0, 0, 64}))),
		onnxNode("Pair", names{"c"}, names{"cc"}), onnxNode("Pair", names{"d"}, names{"dd"}),
		output("y"), output("cc"), output("dd")), `
x f32[2] = input
c i64[3] = const {1, 2, -1}
d f32[2] = const {1, 2}
y f32[2] = Scale(x) by=3.0 note="hello" per=[1.0, 2.0] tags=["a", "b"]
cc i64[3] = Pair(c)
dd f32[2] = Pair(d)
output y
output cc
output dd
`},
	{"numbers in typed fields, packed and not", onnxModel(
		in(graphInit, tensorFields("a", 7, 3), in(tensorInt64s, wire{1, 2}), number(tensorInt64s, -3)),
		in(graphInit, tensorFields("b", 6, 2), number(tensorInt32s, -1), number(tensorInt32s, 7)),
		in(graphInit, tensorFields("c", 9, 2), in(tensorInt32s, wire{0, 1})),
		in(graphInit, tensorFields("d", 10, 1), number(tensorInt32s, 0x3c00)),
		in(graphInit, tensorFields("e", 1, 1), float(tensorFloats, 1.5)),
		in(graphInit, tensorFields("f", 12, 1), number(tensorUint64s, 5)),
		in(graphInit, tensorFields("g", 11), in(tensorDoubles, protowire.AppendFixed64(nil, 0x3ff0000000000000))),
		in(graphInit, tensorFields("h", 1, 0, 7)),
		msg(onnxNode("Pair", names{"a"}, names{"a2"}), onnxNode("Pair", names{"b"}, names{"b2"}), onnxNode("Pair", names{"c"}, names{"c2"})),
		msg(onnxNode("Pair", names{"d"}, names{"d2"}), onnxNode("Pair", names{"e"}, names{"e2"}), onnxNode("Pair", names{"f"}, names{"f2"})),
		onnxNode("Pair", names{"g"}, names{"g2"}), onnxNode("Pair", names{"h"}, names{"h2"}),
		output("a2"), output("b2"), output("c2"), output("d2"), output("e2"), output("f2"), output("g2"), output("h2")), `
a i64[3] = const {1, 2, -3}
b i32[2] = const {-1, 7}
c bool[2] = const {0, 1}
d f16[1] = param
e f32[1] = param
f u32[1] = const {5}
g f64[] = param
h f32[0, 7] = param
a2 i64[3] = Pair(a)
b2 i32[2] = Pair(b)
c2 bool[2] = Pair(c)
d2 f16[1] = Pair(d)
e2 f32[1] = Pair(e)
f2 u32[1] = Pair(f)
g2 f64[] = Pair(g)
h2 f32[0, 7] = Pair(h)
output a2
output b2
output c2
output d2
output e2
output f2
output g2
output h2
`},
	{"omitted inputs and outputs", onnxModel(input("x", 2),
		onnxNode("Pair", names{"x", ""}, names{"a", "", "c"}), output("a"), output("c")), `
x f32[2] = input
a f32[2], _, c f32[2] = Pair(x)
output a
output c
`},
	{"nodes out of order are sorted and else stay", onnxModel(input("x", 2),
		onnxNode("Relu", names{"x"}, names{"a"}),
		onnxNode("Relu", names{"c"}, names{"d"}),
		onnxNode("Relu", names{"a"}, names{"b"}),
		onnxNode("Add", names{"a", "b"}, names{"c"}),
		output("d")), `
x f32[2] = input
a f32[2] = Relu(x)
b f32[2] = Relu(a)
c f32[2] = Add(a, b)
d f32[2] = Relu(c)
output d
`},
	{"a name of the file wins over a made-up one", onnxModel(input("x", 2),
		onnxNode("Twice", names{"x"}, names{"t"}, named("t")),
		onnxNode("Relu", names{"t"}, names{"t/Relu"}),
		onnxNode("Alias", names{"t/Relu"}, names{"y"}),
		output("y")), `
x f32[2] = input
"t/Relu_2" f32[2] = Relu(x)
t f32[2] = Relu("t/Relu_2")
y f32[2] = Relu(t)
output y
`},
	{"running statistics are updates", onnxModel(input("x", 2), onnxFloats("m", []float32{0, 0}, 2),
		onnxNode("Add", names{"x", "m"}, names{"m.new"}), onnxNode("Total", names{"x"}, names{"y"}),
		output("y"), output("m.new")), `
x f32[2] = input
m f32[2] = param
"m.new" f32[2] = Add(x, m)
y f32[] = Total(x)
output y
output "m.new"
loss y
update m = "m.new"
`},
	{"functions are inlined, attributes by reference and default", msg(
		onnxModel(input("x", 2), onnxNode("Outer", names{"x"}, names{"y"}, domain("f"), named("call"), attr("by", 1, float(attrF, 2))), output("y")),
		onnxOpset(modelOpset, "f", 1),
		onnxFunction("Outer", text(funcInput, "a"), text(funcOutput, "c"), text(funcAttr, "by"),
			in(funcNode, text(nodeOp, "Inner"), domain("f"), text(nodeInput, "a"), text(nodeOutput, "b"), named("i"),
				in(nodeAttr, text(attrName, "of"), text(attrRef, "by"), number(attrKind, 1))),
			in(funcNode, text(nodeOp, "Relu"), text(nodeInput, "b"), text(nodeOutput, "c"))),
		onnxFunction("Inner", text(funcInput, "a"), text(funcOutput, "d"), text(funcAttr, "of"),
			in(funcAttrDefault, text(attrName, "word"), number(attrKind, 3), text(attrS, "hm")),
			onnxOpset(funcOpset, "f", 1),
			in(funcNode, text(nodeOp, "Scale"), text(nodeInput, "a"), text(nodeOutput, "b"), named("s"),
				in(nodeAttr, text(attrName, "by"), text(attrRef, "of"), number(attrKind, 1)),
				in(nodeAttr, text(attrName, "note"), text(attrRef, "word"), number(attrKind, 3)),
				in(nodeAttr, text(attrName, "tags"), text(attrRef, "absent"), number(attrKind, 8))),
			in(funcNode, text(nodeOp, "Relu"), text(nodeInput, "b"), text(nodeOutput, "d")))), `
x f32[2] = input
"call/i/b" f32[2] = Scale(x) by=2.0 note="hm" @"call/i/s"
"call/b" f32[2] = Relu("call/i/b") @"call/i/d"
y f32[2] = Relu("call/b") @"call/c"
output y
`},
	{"a branch whose condition is known", onnxModel(input("x", 2),
		in(graphInit, tensorFields("on", 9, 1), in(tensorRaw, wire{0})),
		onnxNode("Relu", names{"x"}, names{"a"}),
		onnxNode("Choose", names{"on"}, names{"y"},
			attr("then_branch", 5, in(attrG, onnxNode("Unheard", names{"a"}, names{"t"}), output("t"))),
			attr("else_branch", 5, in(attrG, onnxFloats("w", []float32{1, 2}, 2), onnxNode("Add", names{"a", "w"}, names{"e"}), output("e")))),
		output("y")), `
x f32[2] = input
w f32[2] = param
a f32[2] = Relu(x)
y f32[2] = Add(a, w) @e
output y
`},
}

func TestParse(t *testing.T) {
	for _, test := range readable {
		t.Run(test.name, func(t *testing.T) {
			g, err := Parse(test.model, "m.onnx", testLibrary)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), g.String()); diff != "" {
				t.Error(diff)
			}
			if err := g.CheckTypes(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	model := msg(onnxModel(
		input("x", 2),
		in(graphInit, tensorFields("words", 8, 1)),
		onnxNode("Unheard", names{"x"}, names{"u"}),
		onnxNode("Relu", names{"u"}, names{"after"}, attr("slope", 1, float(attrF, 1))),
		onnxNode("Unheard", names{"after"}, names{"u2"}),
		onnxNode("Odd", names{"x"}, names{"o"}, text(nodeDomain, "com.odd")),
		onnxNode("Late", names{"x"}, names{"l"}),
		onnxNode("Scale", names{"x"}, names{"s"}, attr("bye", 1, float(attrF, 1))),
		onnxNode("Reshape", names{"x", "x"}, names{"r"}),
		onnxNode("Loop", names{"x"}, names{"loop"}, attr("body", 5, in(attrG))),
		onnxNode("Choose", names{"x"}, names{"c"}, attr("then_branch", 5, in(attrG)), attr("else_branch", 5, in(attrG))),
		output("u2"), output("o"), output("l"), output("s"), output("r")))
	_, err := Parse(model, "m.onnx", testLibrary)
	var list *UnsupportedError
	if !errors.As(err, &list) {
		t.Fatalf("%v", err)
	}
	want := `m.onnx: 9 things are not supported:
  initializer "words" has element type string
  2 nodes (Unheard): the library has no such operator (opset 20): "u", "u2"
  node "after" (Relu): attribute "slope" is not known
  node "o" (com.odd.Odd): domain "com.odd" is not among the file's opset imports
  node "l" (Late): the library has this operator since opset 22, the file is for opset 20
  node "s" (Scale): attribute "bye" is not known; known are by, note, per, tags
  node "r" (Reshape): the shape is not known ahead
  node "loop" (Loop): the library does not support loops
  node "c" (Choose): the condition is not known ahead`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestTwoBorders(t *testing.T) {
	_, err := Parse(onnxModel(input("x", 2),
		onnxNode("Yield", names{"x"}, names{"a"}), onnxNode("Yield", names{"a"}, names{"b"}), output("b")), "m.onnx", testLibrary)
	if err == nil || err.Error() != `m.onnx: nodes "a" and "b" (Yield) both end the forward pass` {
		t.Error(err)
	}
}

// TestAlike: only formulas that are the same but for names, in one way, say
// which names are one size.
func TestAlike(t *testing.T) {
	order := map[string]int{"b": 0, "s": 1, "m": 2, "n": 3}
	for _, test := range []struct{ a, b, want string }{
		{"m", "b", "m=b"},
		{"m - 1", "b - 1", "m=b"},
		{"m*n - m", "b*s - b", "m=b n=s"},
		{"2*m + n", "2*b + s", "m=b n=s"},
		{"m*n", "b*s", ""},
		{"m*n", "m*s", "n=s"},
		{"m", "b - 1", ""},
		{"m", "3", ""},
		{"m + 1", "2*b", ""},
		{"m", "unheard", ""},
		{"floor(m/2)", "floor(b/2)", "m=b"},
	} {
		a, err := graph.ParseDim(test.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := graph.ParseDim(test.b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range alike(a, b, order) {
			got = append(got, p[0]+"="+p[1])
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s and %s: %q, not %q", test.a, test.b, s, test.want)
		}
	}
}

func TestOpsets(t *testing.T) {
	for v := int64(1); v < 30; v++ {
		model := msg(onnxOpset(modelOpset, "ai.onnx", v), in(modelGraph, input("x", 2), onnxNode("Relu", names{"x"}, names{"y"}), output("y")))
		_, err := Parse(model, "m.onnx", testLibrary)
		switch {
		case v >= oldestOpset && v <= newestOpset:
			if err != nil {
				t.Errorf("opset %d: %v", v, err)
			}
		case err == nil || !strings.Contains(err.Error(), fmt.Sprintf("opset %d; %d to %d are read", v, oldestOpset, newestOpset)):
			t.Errorf("opset %d: %v", v, err)
		}
	}
}

func TestDimParam(t *testing.T) {
	for _, test := range []struct{ param, dim string }{
		{"batch", "batch"},
		{"sequence-length", `"sequence-length"`},
		{"unk__12", "unk__12"},
		{"s0 - 1", "s0 - 1"},
		{"2*seq", "2*seq"},
		{"floor(seq/2)", "floor(seq/2)"},
		{"(s1//2) + 1", "floor(s1/2) + 1"},
		{"12", "12"},
		{"?", `"?"`},
		{"Max(1, s0)", `"Max(1, s0)"`},
		{"a b", `"a b"`},
		{"N.1", `"N.1"`},
	} {
		d := DimOf(test.param)
		if d.String() != test.dim {
			t.Errorf("%q is read as %s, not %s", test.param, d, test.dim)
		}
		if back := DimOf(paramOf(d)); !back.Equal(d) {
			t.Errorf("%s is written as %q and read as %s", d, paramOf(d), back)
		}
	}
}

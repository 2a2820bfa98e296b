package onnx

import (
	"fmt"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestParseKnown: an input with numbers is a constant; numbers that do not fit
// are refused.
func TestParseKnown(t *testing.T) {
	model := onnxModel(input("x", 2, 3), onnxValue(graphInput, "to", 7, 2), onnxNode("Reshape", names{"x", "to"}, names{"y"}), output("y"))
	if _, err := Parse(model, "m.onnx", testLibrary); err == nil || !strings.Contains(err.Error(), "not known ahead") {
		t.Fatalf("without numbers: %v", err)
	}
	g, err := ParseKnown(model, "m.onnx", testLibrary, map[string]*graph.Tensor{"to": graph.TensorOf(graph.Int64, []int64{3, 2}, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Inputs) != 1 || g.Outputs[0].Shape.String() != "[3, 2]" {
		t.Errorf("got\n%s", g)
	}
	for _, x := range []*graph.Tensor{graph.NewTensor(graph.Int32, 2), graph.NewTensor(graph.Int64, 3), graph.NewTensor(graph.Int64, 2, 1)} {
		_, err := ParseKnown(model, "m.onnx", testLibrary, map[string]*graph.Tensor{"to": x})
		if err == nil || !strings.Contains(err.Error(), `input "to" is i64[2], but its numbers are`) {
			t.Errorf("%s%v: %v", x.Type, x.Shape, err)
		}
	}
}

func TestParseTensor(t *testing.T) {
	for _, test := range []struct {
		src  wire
		want string
	}{
		{msg(tensorFields("a", 7, 2), in(tensorInt64s, wire{3, 4})), "a i64[2] [3 4]"},
		{msg(tensorFields("b", 9, 2), in(tensorInt32s, wire{1, 0})), "b bool[2] [1 0]"},
		{msg(tensorFields("c", 2, 2), in(tensorRaw, wire{5, 6})), "c u8[2] [5 6]"},
		{msg(tensorFields("d", 7, 0)), "d i64[0] []"},
		{msg(tensorFields("e", 8, 1)), `tensor "e": it has element type string`},
		{msg(tensorFields("f", 7, 2), in(tensorInt64s, wire{3})), `tensor "f": 1 numbers, but i64[2] takes 2`},
		{msg(tensorFields("g", 7, 1), number(tensorLocation, 1)), `tensor "g": external data "": the model has no folder`},
		{wire{0x0b}, "broken at byte 0, in a tensor: "},
	} {
		name, x, err := ParseTensor(test.src)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			ns := make([]int64, x.Len())
			for i := range ns {
				ns[i] = x.Int(i)
			}
			got = fmt.Sprintf("%s %s%v %v", name, x.Type, x.Shape, ns)
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestParseOutline(t *testing.T) {
	o, err := ParseOutline(onnxModel(input("x", 2), onnxValue(graphInput, "s", 8, 2), onnxInts("w", []int64{1}, 1),
		onnxNode("Nothing", names{"x"}, names{"y"}), onnxNode("Relu", names{"y"}, names{"z"}), output("z")))
	want := `[Nothing Relu] [x s] [z] [input "s" has element type string]`
	if got := fmt.Sprint(o.Ops, o.Inputs, o.Outputs, o.Foreign); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// FuzzTensor: any bytes give a tensor or an error.
func FuzzTensor(f *testing.F) {
	f.Add([]byte(msg(tensorFields("a", 7, 2), in(tensorInt64s, wire{3, 4}))))
	f.Add([]byte(msg(tensorFields("c", 2, 2), in(tensorRaw, wire{5, 6}))))
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, x, err := ParseTensor(src); err == nil && x.Len()*int(x.Type.Size()) != len(x.Bytes) {
			t.Errorf("%v of %d bytes", x.Shape, len(x.Bytes))
		}
		_, _ = ParseOutline(src)
	})
}

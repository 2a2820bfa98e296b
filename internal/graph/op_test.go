package graph

import (
	"fmt"
	"strings"
	"testing"
)

func TestLibrary(t *testing.T) {
	lib := testLibrary
	for _, c := range []struct {
		domain, name string
		opset        int
		since        int // -1: there is none
	}{
		{"", "Relu", 0, 14}, {"", "Relu", 14, 14}, {"", "Relu", 20, 14}, {"", "Relu", 13, 0}, {"ai.onnx", "Relu", 0, 14},
		{"memopt", "Relu", 0, -1}, {"", "Decay", 0, -1}, {"memopt", "Decay", 1, 0},
	} {
		since := -1
		if op := lib.Find(c.domain, c.name, c.opset); op != nil {
			since = op.Since
		}
		if since != c.since {
			t.Errorf("%s.%s of opset %d is since %d, should be %d", c.domain, c.name, c.opset, since, c.since)
		}
	}
	var names []string
	for _, op := range lib.All() {
		names = append(names, fmt.Sprintf("%s/%d", op.FullName(), op.Since))
	}
	const want = "Add/0 Alias/0 Any/0 Concat/0 Dropout/0 Gather/0 Half/0 List/0 MatMul/0 Mean/0 Mul/0 Narrow/0 Norm/0 " +
		"Relu/14 Relu/0 Reshape/0 Shape/0 Split/0 Square/0 Sum/0 TopK/0 Twice/0 memopt.Decay/0 org.example.v2.Deep/0"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if op := lib.Role(RoleSum); op == nil || op.Name != "Sum" {
		t.Errorf("the sum is %v", op)
	}
	if lib.Role(RoleClip) != nil || lib.Optimizer("sgd") != nil || lib.Optimizers() != nil {
		t.Error("there is what was not defined")
	}
	in, out := lib.Find("", "Dropout", 0).Ports()
	if got, want := fmt.Sprint(in, out), "[{data false false} {ratio true false} {on true false}] [{output false false} {mask true false}]"; got != want {
		t.Errorf("ports are %s, should be %s", got, want)
	}
	specs := lib.Find("", "Any", 0).AttrSpecs()
	if got, want := fmt.Sprint(specs), "[{f float <nil>} {i int 3} {s string constant} {t tensor <nil>} {fs floats <nil>} {is ints <nil>} {ss strings <nil>}]"; got != want {
		t.Errorf("attributes are %s, should be %s", got, want)
	}
}

func TestOptimizers(t *testing.T) {
	lib := &Library{}
	for _, name := range []string{"sgd", "adamw"} {
		lib.Define(Op{Name: strings.ToUpper(name), Optimizer: name})
	}
	if got := fmt.Sprint(lib.Optimizers()); got != "[adamw sgd]" || lib.Optimizer("sgd").Name != "SGD" {
		t.Errorf("optimizers are %s", got)
	}
}

// TestMalformedDeclarations: a declaration that is wrong is found as the program
// starts.
func TestMalformedDeclarations(t *testing.T) {
	for want, op := range map[string]Op{
		`graph: operator X: bad ports "a b"`:                                                           {Name: "X", In: "a b"},
		`graph: operator X: bad ports "a..., b"`:                                                       {Name: "X", Out: "a..., b"},
		`graph: operator X: bad attribute "axis"`:                                                      {Name: "X", Attrs: "axis"},
		`graph: operator X: bad attribute "axis number"`:                                               {Name: "X", Attrs: "axis number"},
		`graph: operator X: bad attribute "axis int=a": strconv.ParseInt: parsing "a": invalid syntax`: {Name: "X", Attrs: "axis int=a"},
		`graph: operator X: bad attribute "axes ints=1": no default for lists`:                         {Name: "X", Attrs: "axes ints=1"},
		`graph: operator Known since 0 defined twice`:                                                  {Name: "Known"},
	} {
		lib := &Library{}
		lib.Define(Op{Name: "Known"})
		panics(t, want, func() { lib.Define(op) })
	}
}

package onnx

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRaised: a file with an operator that ONNX took up later says that opset if
// nothing else becomes another operator by it, and else stays what it was.
func TestRaised(t *testing.T) {
	norm := func(fields ...wire) wire {
		return onnxNode("LayerNormalization", names{"x", "s"}, names{"y"}, append(fields, attr("axis", 2, number(attrI, -1)))...)
	}
	plain := []wire{input("x", "n", 4), input("s", 4), output("y")}
	with := func(nodes ...wire) []wire { return append(slices.Clone(plain), nodes...) }
	for _, c := range []struct {
		name    string
		opset   int64
		graph   []wire
		more    wire
		want    int
		strange string
	}{
		{"a norm", 15, with(norm()), nil, 17, ""},
		{"a norm of the opset that has it", 17, with(norm()), nil, 17, ""},
		{"none", 15, with(onnxNode("Relu", names{"x"}, names{"y"})), nil, 15, ""},
		{"others that only take more", 13, with(norm(), onnxNode("Where", names{"x", "x", "x"}, names{"w"}), onnxNode("Relu", names{"x"}, names{"r"})), nil, 17, ""},
		{"others that would be others", 15, with(norm(), onnxNode("RoiAlign", names{"x"}, names{"r"})), nil, 15, "LayerNormalization"},
		{"an old file", 12, with(norm(), onnxNode("Softmax", names{"x"}, names{"r"})), nil, 12, "LayerNormalization"},
		{"what ONNX never had", 15, with(norm(), onnxNode("SimplifiedLayerNormalization", names{"x", "s"}, names{"r"})), nil, 17, "SimplifiedLayerNormalization"},
		{"what it had later, and another", 15, with(onnxNode("Gelu", names{"x"}, names{"y"})), nil, 15, "Gelu"},
		{"an attribute that ONNX has not", 15, with(norm(attr("fast", 2, number(attrI, 1)))), nil, 15, "LayerNormalization"},
		{"types that ONNX has not", 15, []wire{input("x", "n", 4), onnxValue(graphInput, "s", 10, 4), output("y"), norm()}, nil, 15, "LayerNormalization"},
		{"types that the file does not tell", 15, with(onnxNode("Relu", names{"s"}, names{"t"}), onnxNode("LayerNormalization", names{"x", "t"}, names{"y"})), nil, 15, "LayerNormalization"},
		{"a norm in a branch", 15, with(onnxNode("If", names{"x"}, names{"y"}, attr("then_branch", 5, in(attrG, norm())))), nil, 15, "LayerNormalization"},
		{"functions", 15, with(norm()), onnxFunction("f"), 15, "LayerNormalization"},
		{"another domain", 15, with(onnxNode("LayerNormalization", names{"x"}, names{"y"}, domain("mine"))), nil, 15, ""},
	} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "a.onnx"), filepath.Join(dir, "b.onnx")
		model := msg(number(modelIR, 8), onnxOpset(modelOpset, "mine", 3), onnxOpset(modelOpset, "ai.onnx", c.opset), in(modelGraph, c.graph...), c.more)
		if err := os.WriteFile(from, model, 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := ReadOutline(from)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		order := make([]int, len(o.Nodes))
		for i := range order {
			order[i] = i
		}
		strange, err := WriteEdited(to, from, o, order)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		written, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		says, err := ParseOutline(written)
		if err != nil {
			t.Fatal(err)
		}
		if says.Opsets[""] != c.want || says.Opsets["mine"] != 3 || strings.Join(strange, " ") != c.strange {
			t.Errorf("%s: opset %d, not %d; strange are %q", c.name, says.Opsets[""], c.want, strange)
		}
	}
}

// schemas prints, by operator and opset, what the form of that opset changes of
// the one before, other than to take more.
const schemas = `
import json, sys
from onnx import defs
out = {}
for op, opsets in json.load(sys.stdin).items():
    for to in opsets:
        a, b = defs.get_schema(op, to - 1, ""), defs.get_schema(op, to, "")
        wrong = []
        if b.since_version != to: wrong.append("no form of this opset")
        for old, new in (a.inputs, b.inputs), (a.outputs, b.outputs):
            if [str(x.option) for x in old] != [str(x.option) for x in new]: wrong.append("other inputs or outputs")
            if any(not set(x.types) <= set(y.types) for x, y in zip(old, new)): wrong.append("types are gone")
        for name, x in a.attributes.items():
            y = b.attributes.get(name)
            if y is None or (x.type, x.required, x.default_value) != (y.type, y.required, y.default_value): wrong.append("attribute " + name)
        for name, y in b.attributes.items():
            if name not in a.attributes and y.required: wrong.append("attribute %s is required" % name)
        out["%s %d" % (op, to)] = wrong
json.dump(out, sys.stdout)
`

// TestWidened: the table of forms that only take more agrees with the ONNX
// project's schemas. That a new attribute's default is what was before is for
// people to read.
func TestWidened(t *testing.T) {
	python := os.Getenv("MEMOPT_PYTHON")
	if python == "" {
		t.Skip("MEMOPT_PYTHON names no Python with onnx; make test does")
	}
	table, err := json.Marshal(widened())
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, "-c", schemas)
	c.Stdin = strings.NewReader(string(table))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var wrong map[string][]string
	if err := json.Unmarshal(out, &wrong); err != nil {
		t.Fatal(err)
	}
	if len(wrong) < 24 {
		t.Errorf("%d forms were compared", len(wrong))
	}
	for form, why := range wrong {
		if len(why) > 0 {
			t.Errorf("%s: %v", form, why)
		}
	}
}

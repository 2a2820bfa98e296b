package verify

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

const schemasFile = "testdata/onnx-schemas-1.23.2.txt"

// TestSchemas compares every form of an operator that ONNX has with the one
// that the library would take for it: ports, attributes and their defaults. A
// form that changed and is not known here would be read wrongly in silence.
func TestSchemas(t *testing.T) {
	src, err := os.ReadFile(schemasFile)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for line := range strings.Lines(string(src)) {
		s := parseSchema(t, line)
		if kernels.Library.Find(s.domain, s.name, 0) == nil {
			continue
		}
		form := kernels.Library.Find(s.domain, s.name, s.since)
		key := fmt.Sprintf("%s %d", s.name, s.since)
		why, except := otherForms[key]
		wrong := ""
		if form == nil {
			wrong = "no form"
		} else {
			wrong = s.differs(form)
		}
		switch {
		case wrong == "" && except:
			t.Errorf("%s agrees, but is listed (%s)", key, why)
		case wrong != "" && !except:
			t.Errorf("%s: %s", key, wrong)
		case wrong == "":
			same++
		}
	}
	t.Logf("%d forms agree, %d do not for a reason", same, len(otherForms))
	if same == 0 {
		t.Error("nothing was compared")
	}
}

// otherForms are those that are not known, with what becomes of a file that has
// one: an error, in each case.
var otherForms = map[string]string{
	"GRU 1":                "refused: there is no form of so early an opset",
	"GRU 3":                "refused: there is no form of so early an opset",
	"LSTM 1":               "refused: there is no form of so early an opset",
	"RNN 1":                "refused: there is no form of so early an opset",
	"BatchNormalization 1": "refused: there is no form of so early an opset",
	"Selu 1":               "refused: there is no form of so early an opset",
	"Cast 1":               "refused: the type is a string",
	"Pad 1":                "refused: pads are called paddings",
	"Reshape 1":            "refused: the shape is an attribute",
	"Upsample 1":           "refused: there is no form of so early an opset",
	"Split 1":              "refused if the sizes are an input",
	"Tile 1":               "refused: the axis is an input",
}

// hints are attributes that no file has for a reason we know: given, they are
// refused as all unknown ones are.
var hints = map[string]bool{
	"consumed_inputs": true, // what may be overwritten, before opset 6
	"sparse_value":    true, // of Constant: graphs have no sparse tensors,
	"value_string":    true, // and no strings
	"value_strings":   true,
}

type schema struct {
	domain, name string
	since        int
	in, out      span
	attrs        []string
}

type span struct{ least, most int }

const anyNumber = 1 << 20

func parseSchema(t *testing.T, line string) schema {
	f := strings.Fields(line)
	if len(f) < 4 {
		t.Fatalf("%s: %q", schemasFile, line)
	}
	number := func(s string) int {
		if s == "*" {
			return anyNumber
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %q: %v", schemasFile, line, err)
		}
		return n
	}
	between := func(s string) span {
		least, most, _ := strings.Cut(s, "..")
		return span{number(least), number(most)}
	}
	s := schema{name: f[0], since: number(f[1]), in: between(f[2]), out: between(f[3]), attrs: f[4:]}
	if i := strings.LastIndexByte(s.name, '.'); i >= 0 {
		s.domain, s.name = s.name[:i], s.name[i+1:]
	}
	return s
}

// differs says what the form does not take as the schema has it.
func (s schema) differs(form *graph.Op) string {
	in, out := form.Ports()
	if p := ports(in); p.least > s.in.least || p.most < s.in.most {
		return fmt.Sprintf("inputs are %d to %d, not %d to %d", p.least, p.most, s.in.least, s.in.most)
	}
	if p := ports(out); p.least > s.out.least || p.most < s.out.most {
		return fmt.Sprintf("outputs are %d to %d, not %d to %d", p.least, p.most, s.out.least, s.out.most)
	}
	declared := map[string]graph.AttrSpec{}
	for _, a := range form.AttrSpecs() {
		declared[a.Name] = a
	}
	for _, a := range s.attrs {
		a = strings.TrimSuffix(a, "!")
		decl, def, hasDefault := strings.Cut(a, "=")
		name, kind, _ := strings.Cut(decl, ":")
		spec, ok := declared[name]
		switch {
		case !ok && hints[name]:
			continue
		case !ok:
			return fmt.Sprintf("attribute %s is not declared", a)
		}
		if spec.Kind.String() != kind {
			return fmt.Sprintf("attribute %s is %s", a, spec.Kind)
		}
		if hasDefault && !sameDefault(spec.Default, def) {
			return fmt.Sprintf("attribute %s is %v by default", a, spec.Default)
		}
	}
	return ""
}

func sameDefault(ours any, theirs string) bool {
	switch x := ours.(type) {
	case int64:
		return fmt.Sprint(x) == theirs
	case float64:
		y, err := strconv.ParseFloat(theirs, 64)
		return err == nil && float32(x) == float32(y)
	case string:
		return x == theirs
	}
	if strings.HasPrefix(theirs, "[") {
		return true // declarations have no lists; the operator's rule fills it in
	}
	// What a form leaves open it reads as zero.
	return theirs == "0" || theirs == "0.0" || theirs == ""
}

func ports(ps []graph.Port) (s span) {
	for _, p := range ps {
		switch {
		case p.Variadic:
			s.most = anyNumber
			if !p.Optional {
				s.least++
			}
		default:
			s.most++
			if !p.Optional {
				s.least = s.most
			}
		}
	}
	return s
}

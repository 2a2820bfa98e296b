package kernels

import (
	"strings"
	"testing"

	"memopt/internal/graph"
)

// sequences builds nodes by name. Sequences have no text, so the lines are
// done here one by one, and what is left is compared as text.
type sequences struct {
	t      *testing.T
	b      *graph.Builder
	values map[string]*graph.Value
}

func newSequences(t *testing.T) *sequences {
	s := &sequences{t, graph.NewBuilder(graph.New(Library, "")), map[string]*graph.Value{}}
	x, err := s.b.Define(graph.Input, "x", graph.Float32, graph.Shape{graph.Sym("batch"), graph.Num(7)})
	if err != nil {
		t.Fatal(err)
	}
	s.values["x"] = x
	for _, c := range []struct {
		name string
		v    *graph.Value
	}{
		{"two", s.b.Int(graph.Num(2))}, {"three", s.b.Int(graph.Num(3))}, {"last", s.b.Int(graph.Num(-1))},
		{"far", s.b.Int(graph.Num(9))}, {"big", s.b.Int(graph.Num(-9))}, {"sizes", s.b.Ints(graph.Num(5), graph.Num(2))},
	} {
		s.values[c.name] = c.v
	}
	return s
}

func (s *sequences) do(out, op, in string, attrs ...graph.Attr) error {
	var vs []*graph.Value
	for f := range strings.FieldsSeq(in) {
		v := s.values[f]
		if v == nil && f != "_" {
			s.t.Fatalf("no value %q", f)
		}
		vs = append(vs, v)
	}
	got, err := s.b.Node(Library.Find("", op, 0), out, attrs, vs, []string{out})
	if err == nil {
		s.values[out] = got[0]
	}
	return err
}

func TestSequences(t *testing.T) {
	axis := func(i int64) graph.Attr { return graph.Attr{Name: "axis", Value: i} }
	s := newSequences(t)
	for _, err := range []error{
		s.do("thirds", "SplitToSequence", "x three", axis(-1)),
		s.do("parts", "SplitToSequence", "x sizes", axis(1), graph.Attr{Name: "keepdims", Value: int64(0)}),
		s.do("ones", "SplitToSequence", "x _", axis(1), graph.Attr{Name: "keepdims", Value: int64(0)}),
		s.do("a", "SequenceAt", "thirds last"),
		s.do("none", "SequenceEmpty", ""),
		s.do("one", "SequenceInsert", "none a"),
		s.do("twice", "SequenceInsert", "one a last"),
		s.do("stack", "ConcatFromSequence", "twice", axis(0), graph.Attr{Name: "new_axis", Value: int64(1)}),
		s.do("most", "SequenceErase", "thirds"),
		s.do("rest", "SequenceErase", "parts last"),
		s.do("y", "ConcatFromSequence", "most", axis(1)),
		s.do("z", "SequenceAt", "rest last"),
		s.do("o", "SequenceAt", "ones two"),
		s.do("pair", "SequenceConstruct", "y z"),
		s.do("w", "ConcatFromSequence", "pair", axis(1)),
		s.do("n", "SequenceLength", "ones"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, want string }{
		{"a", "[batch, 1]"}, {"y", "[batch, 6]"}, {"z", "[batch, 5]"}, {"o", "[batch]"}, {"w", "[batch, 11]"}, {"stack", "[2, batch, 1]"},
	} {
		if got := s.values[c.name].Shape.String(); got != c.want {
			t.Errorf("%s is %s, not %s", c.name, got, c.want)
		}
	}
	if n := s.values["n"]; !n.Ints[0].Is(7) || n.Type != graph.Int64 || n.Rank() != 0 {
		t.Errorf("length is %s %v", n, n.Ints)
	}
	if got := s.b.Graph.ByName("w"); got == nil || got != s.values["w"] {
		t.Error("w has lost its name")
	}
	s.b.Graph.Outputs = []*graph.Value{s.values["w"], s.values["o"], s.values["stack"]}
	if err := s.b.Graph.Check(); err != nil {
		t.Error(err)
	}
	for _, n := range s.b.Graph.Nodes {
		if strings.Contains(n.Op.Name, "Sequence") {
			t.Errorf("%s is left", n.Op.Name)
		}
	}
}

func TestSequenceErrors(t *testing.T) {
	for _, c := range []struct{ op, in, want string }{
		{"SplitToSequence", "x", "the sequence has batch parts"},
		{"SplitToSequence", "x big", "split is -9"},
		{"SequenceAt", "x two", "input 0 is not a sequence"},
		{"SequenceAt", "empty two", "outside [0, -1]"},
		{"SequenceErase", "empty", "the sequence is empty"},
		{"SequenceInsert", "empty two", "the tensor is i64, but the sequence has f32"},
		{"SequenceInsert", "empty x far", "outside [0, 0]"},
		{"ConcatFromSequence", "empty", "attribute axis is missing"},
		{"Relu", "empty", "is a sequence"},
	} {
		s := newSequences(t)
		if err := s.do("empty", "SequenceEmpty", ""); err != nil {
			t.Fatal(err)
		}
		if err := s.do("y", c.op, c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s(%s): error %v, not %q", c.op, c.in, err, c.want)
		}
	}
}

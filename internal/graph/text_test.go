package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestText: what is read prints, and what is printed reads back to the same.
func TestText(t *testing.T) {
	cases(t, "testdata/text.txt", func(t *testing.T, src string) string {
		g := parse(t, src)
		text := g.String()
		if again := parse(t, text).String(); again != text {
			t.Errorf("read back it is\n%s", again)
		}
		if err := g.CheckTypes(); err != nil {
			t.Error(err)
		}
		for _, n := range g.Nodes {
			if !strings.Contains(text, n.String()+"\n") {
				t.Errorf("node prints %q alone", n)
			}
		}
		return text
	})
}

// TestErrors: a text that is wrong gives one line that says where.
func TestErrors(t *testing.T) {
	cases(t, "testdata/errors.txt", func(t *testing.T, src string) string {
		g, err := Parse(testLibrary, src)
		if err == nil {
			return "read as\n" + g.String()
		}
		return err.Error()
	})
}

// TestTextKeepsNames: any name of a value, node, dim or graph survives.
func TestTextKeepsNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := rapid.OneOf(
			rapid.SampledFrom([]string{"_", "graph", "output", "update", "input", "const", "f32", "max", "Relu", "Inf", "a.b", "0", "", "\n", "\xff", `"`, "#", "größe", "a b"}),
			rapid.String(), rapid.StringMatching(`[a-z_]{1,3}`))
		names := rapid.SliceOfNDistinct(any.Filter(func(s string) bool { return s != "" }), 3, 3, rapid.ID[string]).Draw(t, "names")
		b := NewBuilder(New(testLibrary, any.Draw(t, "graph")))
		x, err := b.Define(Input, names[0], Float32, Shape{Sym(any.Draw(t, "dim")), Num(2)})
		if err != nil {
			t.Fatal(err)
		}
		outs, err := b.Node(testLibrary.Find("", "Relu", 0), rapid.OneOf(rapid.Just(names[1]), any.Filter(func(s string) bool { return s != "" })).Draw(t, "node"), nil, []*Value{x}, names[1:2])
		if err != nil {
			t.Fatal(err)
		}
		if _, err = b.Node(testLibrary.Find("", "Relu", 0), names[2], nil, outs, names[2:]); err != nil {
			t.Fatal(err)
		}
		g := b.Graph
		g.Outputs = outs
		back, err := Parse(testLibrary, g.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		for _, s := range names {
			if quote(s) != strconv.Quote(s) {
				t.Fatalf("%q is spelled %s", s, quote(s))
			}
		}
		if back.String() != g.String() || back.Name != g.Name || back.Nodes[0].Name != g.Nodes[0].Name || back.Values[0].Name != names[0] {
			t.Fatalf("%s\nis read as\n%s", g, back)
		}
	})
}

// TestTextKeepsNumbers: constants and attributes come back to the bit.
func TestTextKeepsNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for d := range DType(32) {
		if !d.Valid() {
			continue
		}
		x := NewTensor(d, 2, 31)
		for i := range x.Bytes {
			x.Bytes[i] = byte(r.Uint32())
		}
		for i := range x.Len() {
			switch {
			case d == Bool:
				x.Bytes[i] &= 1
			case d.Bits() < 8:
				x.SetInt(i, int64(x.Bytes[i]))
			case d.IsReal() && math.IsNaN(x.Float(i)): // which NaN it is is not text
				x.SetFloat(i, math.NaN())
			}
		}
		x.SetFloat(0, math.Inf(1)) // an integer type takes what it takes
		x.SetFloat(1, math.Copysign(0, -1))
		b := NewBuilder(New(testLibrary, ""))
		c, err := b.Const("c", x)
		if err != nil {
			t.Fatal(err)
		}
		b.Op("Any", A{"t": x, "f": math.Inf(-1), "fs": []float64{1, math.Pi, 1e300, math.Inf(1), 5e-324}, "is": []int64{math.MinInt64, math.MaxInt64}}, c)
		back := parse(t, b.Graph.String())
		if back.String() != b.Graph.String() {
			t.Errorf("%s\nis read as\n%s", b.Graph, back)
		}
		attr := back.Nodes[0].Attr("t").(*Tensor)
		if !slices.Equal(attr.Bytes, x.Bytes) {
			t.Errorf("%s attribute: %x is read as %x", d, x.Bytes, attr.Bytes)
		}
		nothing, err := Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		y, err := back.ByName("c").Tensor(nothing)
		if err != nil || !slices.Equal(y.Bytes, x.Bytes) || !slices.Equal(y.Shape, x.Shape) {
			t.Errorf("%s constant: %x is read as %x, %v", d, x.Bytes, y.Bytes, err)
		}
		for _, name := range []string{"f", "fs", "is"} {
			if got, want := attrText(back.Nodes[0].Attr(name)), attrText(b.Graph.Nodes[0].Attr(name)); got != want {
				t.Errorf("%s=%s is read as %s", name, want, got)
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	const src = "x f32[n] = input\ny f32[n] = Relu(x)\n"
	a, b := parse(t, src), parse(t, src)
	if a.Fingerprint() != b.Fingerprint() || !strings.HasPrefix(a.Fingerprint(), "sha256:") {
		t.Errorf("%s and %s", a.Fingerprint(), b.Fingerprint())
	}
	if c := parse(t, strings.ReplaceAll(src, "Relu", "Mean")[:len("x f32[n] = input\n")]); c.Fingerprint() == a.Fingerprint() {
		t.Error("another graph has the same fingerprint")
	}
}

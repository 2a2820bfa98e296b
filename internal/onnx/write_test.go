package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/internal/graph"
	"memopt/internal/weights"
)

// sameAfterWriting writes a graph, reads it back and compares texts and numbers.
func sameAfterWriting(t *testing.T, g *graph.Graph, lib *graph.Library) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := Encode(&file, g); err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	back, err := Parse(file.Bytes(), "back.onnx", lib)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	if diff := cmp.Diff(g.String(), back.String()); diff != "" {
		t.Errorf("after writing and reading (-before +after):\n%s", diff)
	}
	sameNumbers(t, g, back)
	return file.Bytes()
}

func sameNumbers(t *testing.T, g, back *graph.Graph) {
	t.Helper()
	for _, v := range g.Values {
		if v.Data == nil {
			continue
		}
		w := back.ByName(v.Name)
		if w == nil || w.Data == nil {
			t.Errorf("%s has lost its numbers", v)
			continue
		}
		a, err := v.Data.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Data.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s has other numbers", v)
		}
	}
}

// parseText reads a graph's text and gives every parameter numbers.
func parseText(t *testing.T, src string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(testLibrary, src)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Values {
		if v.Kind == graph.Param {
			n, _ := v.Bytes().Const()
			v.Data = graph.Bytes(bytes.Repeat([]byte{byte(len(v.Name)), 2, 3, 64}, int(n+3)/4)[:n])
		}
	}
	return g
}

func TestRoundTrip(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"forward", `
graph g
x f32[batch, "odd-name", 2*n + 1, 3] = input
w f32[3] = param
c f32[2] = const {1, -0.5}
i i64[2] = const {1, 2}
h f16[3] = param
s f32[] = param
a, _, b f32[3] = Pair(w, c)
y f32[2] = Scale(c) by=0.5 note="" per=[1.0] tags=["a"] @"node y"
z i64[2] = Pair(i) @z2
v f16[3] = Relu(h)
l f32[] = Total(s)
k f32[batch, "odd-name", 2*n + 1, 3] = Relu(x)
output a
output b
output y
output z
output v
output k
output l
`},
		{"loss is not guessed in our own files", `
x f32[2] = input
l f32[] = Total(x)
output l
`},
		{"a training step", `
graph step
x f32[2, 3] = input
w f32[2, 3] = param
m f32[2, 3] = state
n i64[] = state
mean f32[2, 3] = const data
lr f32[] = input
one i64[] = const {1}
h f32[2, 3] = Add(x, w)
h.new f32[2, 3] = Relu(h)
l f32[] = Total(h)
backward:
g f32[2, 3] = Relu(h) @"grad of w"
g2 f32[2, 3] = Relu(g)
update:
m2 f32[2, 3] = Add(m, g2)
w2 f32[2, 3] = memopt.Decay(w, m2) by=0.1
n2 i64[] = Add(n, one)
output l
output h
loss l
update m = m2
update w = w2
update n = n2
update mean = h.new
grad w = g
`},
		{"what is assumed", `
x f32[a, b] = input
y f32[c, b] = input
z f32[a, b] = Add(x, y)
output z
`},
		{"contents known as formulas", `
x f32[batch, 3, 2*n + 1] = input
y i32[seq] = input
c i64[3] = const {batch*seq, 64, 3*n}
d i64[] = const {batch**3 - seq + 2}
e i32[2] = const {floor(batch/2), max(batch, seq)}
f i64[2, 2] = const {floor((batch - seq)/4), 1, batch, min(n, 7)}
u f32[batch, 3, 2*n + 1] = Relu(x)
oc i64[3] = Pair(c)
od i64[] = Pair(d)
oe i32[2] = Pair(e)
of i64[2, 2] = Pair(f)
output u
output oc
output od
output oe
output of
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := strings.ReplaceAll(test.text, "h.new", `"h.new"`)
			g := parseText(t, src)
			if v := g.ByName("mean"); v != nil {
				v.Data = graph.Bytes(make([]byte, 24))
			}
			sameAfterWriting(t, g, testLibrary)
		})
	}
}

func TestCeilComesBackEqual(t *testing.T) {
	g := parseText(t, `
x f32[n] = input
c i64[1] = const {ceil(n/3)}
o i64[1] = Pair(c)
output o
`)
	var file bytes.Buffer
	if err := Encode(&file, g); err != nil {
		t.Fatal(err)
	}
	back, err := Parse(file.Bytes(), "m.onnx", testLibrary)
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(20) {
		b, err := graph.Bind(map[string]int64{"n": n + 1})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := b.Eval(g.ByName("c").Ints[0])
		got, _ := b.Eval(back.ByName("c").Ints[0])
		if got != want {
			t.Errorf("n=%d: %d, not %d", n+1, got, want)
		}
	}
}

// A gradient that nothing reads and the next values of states are outputs of
// the file, so that other programs see them.
func TestOutputsOfTheFile(t *testing.T) {
	g := parseText(t, `
x f32[2] = input
w f32[2] = param
v f32[2] = param
l f32[] = Total(x)
backward:
gw f32[2] = Relu(x)
gv f32[2] = Relu(x)
update:
w2 f32[2] = memopt.Decay(w, gw)
output l
loss l
update w = w2
grad w = gw
grad v = gv
`)
	file := sameAfterWriting(t, g, testLibrary)
	r := newReader(file, "", "", testLibrary, nil)
	r.readModel()
	var outputs []string
	for _, b := range r.readBody("the graph", r.model.graph).outputs {
		outputs = append(outputs, r.valueInfo("output", b).name)
	}
	if want := []string{"l", "w.new", "gv"}; !slices.Equal(outputs, want) {
		t.Errorf("outputs are %q, not %q", outputs, want)
	}
}

func TestWriteErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"w f32[2] = param\nx f32[2] = input\noutput x\n", `param "w" has no numbers to write`},
		{"x f32[n] = input\ns f32[n] = state\noutput x\n", `state s f32[n]: the shape of an initializer must be numbers`},
		{"x f32[2] = input\nc i64[1] = const {k}\no = Pair(c)\noutput o\n", `const "c": no input has a dim that determines "k"`},
	} {
		g, err := graph.Parse(testLibrary, test.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := Encode(&bytes.Buffer{}, g); err == nil || err.Error() != test.want {
			t.Errorf("error is %v, not %s", err, test.want)
		}
		path := filepath.Join(t.TempDir(), "m.onnx")
		if err := Write(path, g); err == nil {
			t.Errorf("no error")
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// TestBrought: what is brought anew for every step is an input, and has no bytes in the file.
func TestBrought(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	g := parseText(t, `
x f32[300] = input
some f32[300] = param
mean f32[300] = buffer
some_more f32[300] = state
a f32[300] = Add(x, some)
b f32[300] = Add(a, mean)
c f32[300] = Add(b, some_more)
output c
`)
	if err := Write(path, g, Brought); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 2000 { // the state's zeros alone
		t.Errorf("%v, %v bytes", err, info.Size())
	}
	back, _, err := Open(path, testLibrary)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range back.Inputs {
		names = append(names, v.Name)
	}
	if diff := cmp.Diff([]string{"x", "some", "mean"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestWriteExternal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	g := parseText(t, `
x f32[2] = input
small f32[2] = param
some f32[1000] = param
more f32[300000] = param
zeros f32[300] = state
last f32[300000] = param
a f32[2] = Relu(small)
b f32[1000] = Relu(some)
c f32[300000] = Add(more, last)
d f32[300] = Relu(zeros)
output a
output b
output c
output d
`)
	if err := Write(path, g, External); err != nil {
		t.Fatal(err)
	}
	before := weights.Snapshot()
	back, _, err := Open(path, testLibrary)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(g.String(), back.String()); diff != "" {
		t.Error(diff)
	}
	sameNumbers(t, g, back)
	model, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"m.onnx.data", "4096", "1208320"} {
		if !bytes.Contains(model, []byte(want)) {
			t.Errorf("the model does not contain %q", want)
		}
	}
	// Writing over the file that the graph is read from.
	if err := Write(path, back); err != nil {
		t.Fatal(err)
	}
	sameNumbers(t, g, back)
	again, _, err := Open(path, testLibrary)
	if err != nil {
		t.Fatal(err)
	}
	sameNumbers(t, g, again)
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("the folder holds %v", left)
	}
	for _, h := range []*graph.Graph{back, again} {
		for _, v := range h.Values {
			if b, ok := v.Data.(*weights.Block); ok {
				b.Drop()
			}
		}
	}
	if after := weights.Snapshot(); after.Mapped != before.Mapped || after.Blocks != before.Blocks {
		t.Errorf("blocks are left: %+v, before %+v", after, before)
	}
}

func TestTooLargeForOneMessage(t *testing.T) {
	g := parseText(t, "x f32[2] = input\ns f32[600000000] = state\ny = Relu(s)\noutput y\n")
	err := Encode(&bytes.Buffer{}, g)
	if want := "but the limit without external data is 2147483647"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, not … %s", err, want)
	}
}

// TestPacked: integers of less than a byte are packed in files, inside and beside them, and come
// back as they were.
func TestPacked(t *testing.T) {
	for _, typ := range []graph.DType{graph.Uint4, graph.Int4, graph.Uint2, graph.Int2} {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 20001} {
			x := graph.NewTensor(typ, n)
			for i := range n {
				x.SetInt(i, int64(5*i-3))
			}
			if packed := pack(typ, x.Bytes); len(packed) != (n*typ.Bits()+7)/8 {
				t.Errorf("%d numbers of %s take %d bytes", n, typ, len(packed))
			}
			b := graph.NewBuilder(graph.New(testLibrary, ""))
			c, err := b.Const("c", x)
			if err != nil {
				t.Fatal(err)
			}
			b.Graph.Outputs = []*graph.Value{b.Op("Relu", nil, c)}
			for _, opts := range [][]Option{nil, {External}} {
				path := filepath.Join(t.TempDir(), "packed.onnx")
				if err := Write(path, b.Graph, opts...); err != nil {
					t.Fatal(err)
				}
				back, source, err := Open(path, testLibrary)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(b.Graph.String(), back.String()); diff != "" {
					t.Error(diff)
				}
				sameNumbers(t, b.Graph, back)
				source.Close()
			}
		}
	}
}

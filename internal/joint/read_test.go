package joint

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/planner"
)

// TestPeak: with everything kept the peak is what the recorder counted.
func TestPeak(t *testing.T) {
	for _, c := range []struct {
		file                  string
		nodes, forward, grads int
		floor                 int64
	}{
		{"testdata/small.json", 18, 9, 2, 0},
		{"../../memopt/lab/corpus/steps/resnet18.json.gz", 207, 109, 62, 0},
		{"../../memopt/lab/corpus/steps/gpt2-6L.json.gz", 528, 193, 77, 100663300},
		{"../../memopt/lab/corpus/steps/convnext.json.gz", 519, 177, 110, 0},
		{"../../memopt/lab/corpus/steps/lstm.json.gz", 1544, 423, 10, 0},
	} {
		g, err := Read(c.file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := planner.Make(g, planner.Request{Strategy: "keep-all"})
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := unpack(data)
		if err != nil {
			t.Fatal(err)
		}
		if want := gjson.GetBytes(text, "totals.peak_bytes_in_order").Int(); p.Baseline.Peak != want {
			t.Errorf("%s: the peak is %d, not %d", c.file, p.Baseline.Peak, want)
		}
		if c.floor > 0 && p.Floor.Peak != c.floor {
			t.Errorf("%s: the floor is %d, not %d", c.file, p.Floor.Peak, c.floor)
		}
		forward := 0
		for _, n := range g.Nodes {
			if n.Phase == 0 {
				forward++
			}
		}
		if len(g.Nodes) != c.nodes || forward != c.forward || len(g.Grads) != c.grads || g.Loss == nil {
			t.Errorf("%s: %d nodes, %d of them forward, %d gradients, loss %v; not %d, %d, %d and one",
				c.file, len(g.Nodes), forward, len(g.Grads), g.Loss, c.nodes, c.forward, c.grads)
		}
		if err := g.CheckTypes(); err != nil {
			t.Error(err)
		}
	}
}

// TestGraph shows what becomes of views, parts of views, outputs that are left
// out of the list, and operators that draw.
func TestGraph(t *testing.T) {
	g, err := Read("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "%-8s %-5v %-6s %s\n", n.Phase, n.Op.View, n.Op.Recompute, n)
	}
	golden.File(t, "testdata/small.txt", b.String())
}

// held is the small graph with what the program holds, and a node that runs once.
func held(t testing.TB) []byte {
	text, err := os.ReadFile("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(node, from, to string) {
		at := bytes.Index(text, []byte(fmt.Sprintf("{%q: %q", "name", node)))
		edited := bytes.Replace(text[at:], []byte(from), []byte(to), 1)
		if at < 0 || bytes.Equal(edited, text[at:]) {
			t.Fatalf("nothing of %s is changed", node)
		}
		text = append(text[:at:at], edited...)
	}
	edit("primals_1", `"bytes": 256`, `"bytes": 256, "held_until": "mm"`)          // it is there in any case
	edit("t", `"bytes": 256`, `"bytes": 256, "held_until": "mm_2"`)                // a view of that
	edit("getitem", `"bytes": 256`, `"bytes": 256, "held_until": "mul"`)           // a part of a view, which holds all of it
	edit("gelu", `"bytes": 256`, `"bytes": 256, "held_until": "expand"`)           // until a view, so until the last that runs before it
	edit("native_dropout", `"bytes": 64`, `"bytes": 64, "held_until": "sum_1"`)    // the second output
	edit("getitem_2", `"bytes": 256`, `"bytes": 256, "held_until": "getitem_5"`)   // the first one, by what selects it, until what another makes
	edit("add", `"bytes": 256`, `"bytes": 256, "held_until": ""`)                  // it is not
	edit("sum_1", `"bytes": 4`, `"bytes": 4, "held_until": "add"`)                 // nor is this, when it is made
	edit("mul", `"bytes": 256`, `"bytes": 256, "held_until": "mul_2"`)             // long after its last reader
	edit("mul", `"is_backward": false`, `"is_backward": false, "flags": ["once"]`) // others of the name may run again
	return text
}

// TestHeld shows what becomes of holds and of a node that runs once, that a plan counts what
// is held, and that another reading of the file is another graph.
func TestHeld(t *testing.T) {
	g, err := parseGraph(context.Background(), held(t))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range g.Nodes {
		if n.Op.Name == "mul.Tensor" {
			fmt.Fprintf(&b, "%-8s %-6s %s\n", n.Phase, n.Op.Recompute, n)
		}
	}
	for _, h := range g.Holds {
		fmt.Fprintf(&b, "%s until %s\n", h.Value.Name, h.Until.Name)
	}
	plain, err := Read("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*graph.Graph{plain, g} {
		p, err := planner.Make(g, planner.Request{Strategy: "keep-all"})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "peak %d at %s, floor %d at %s\n", p.Baseline.Peak, p.Baseline.PeakNode, p.Floor.Peak, p.Floor.Node)
	}
	if g.Fingerprint() == plain.Fingerprint() {
		t.Error("with holds the graph has the same fingerprint")
	}
	golden.File(t, "testdata/held.txt", b.String())
}

// TestBudget: a plan under a budget of a graph with partial views is replayed.
func TestBudget(t *testing.T) {
	g, err := Read("../../memopt/lab/corpus/steps/gpt2-6L.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Percent: 90}})
	if err != nil {
		t.Fatal(err)
	}
	if limit := p.Baseline.Arena * 9 / 10; p.Arena > limit || p.Result.Again == 0 {
		t.Errorf("the arena is %d, over %d, with %d nodes run again", p.Arena, limit, p.Result.Again)
	}
}

// small is the least joint graph; edits of it are wrong in one place each.
const small = `{"format": "memopt-fx-joint/1", "model": "m", "num_fwd_outputs": 1, "outputs": ["b"],
"nodes": [
{"name": "a", "op": "input", "kind": "data", "inputs": [], "outputs": [{"shape": [4], "dtype": "float32", "bytes": 16}]},
{"name": "b", "op": "aten.sum.default", "inputs": ["a"], "outputs": [{"shape": [], "dtype": "float32", "bytes": 4}], "flops": 4}
]}`

// TestBeyondNumbers: literals that JSON has no numbers for do no harm, and what
// looks like them in a name stays.
func TestBeyondNumbers(t *testing.T) {
	text, err := unpack([]byte(strings.Replace(small, `"flops": 4`, `"module": "NaN\"Infinity", "attrs": [-Infinity, [Infinity], NaN, "NaN"]`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	g, err := parseGraph(context.Background(), text)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(g.Nodes[0].Attrs)
	for _, want := range []string{`["-Infinity",["Infinity"],"NaN","NaN"]`, `NaN"Infinity`} {
		if !strings.Contains(got, want) {
			t.Errorf("attributes are %s, without %s", got, want)
		}
	}
}

// TestHostile: what is wrong is said, with its place.
func TestHostile(t *testing.T) {
	var out strings.Builder
	try := func(what, text string) {
		_, err := parseGraph(context.Background(), []byte(text))
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		fmt.Fprintf(&out, "%s\n\t%s\n", what, where("f.json", []byte(text), err))
	}
	if _, err := parseGraph(context.Background(), []byte(small)); err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct{ what, from, to string }{
		{"another format", "joint/1", "joint/2"},
		{"no format", `"format": "memopt-fx-joint/1", `, ""},
		{"a comma too many", `"flops": 4}`, `"flops": 4,}`},
		{"not closed", "\n]}", "\n]"},
		{"more behind it", "\n]}", "\n]} x"},
		{"a key twice", `"model": "m"`, `"model": "m", "model": "n"`},
		{"nodes are an object", `"nodes": [`, `"nodes": {"x": 1}, "more": [`},
		{"a text for a number", `"bytes": 4`, `"bytes": "4"`},
		{"no formula", `"bytes": 4`, `"bytes": "4 bytes"`},
		{"a formula too large", `"bytes": 4`, `"bytes": "9223372036854775807*n + 9223372036854775807*n"`},
		{"a fraction", `"flops": 4`, `"flops": 4.5`},
		{"negative flops", `"flops": 4`, `"flops": -4`},
		{"negative calls", `"flops": 4`, `"calls": -4`},
		{"calls beyond measure", `"flops": 4`, `"calls": 4000000`},
		{"flops beyond measure", `"flops": 4`, `"flops": 9000000000000000000`},
		{"negative bytes", `"bytes": 4`, `"bytes": -4`},
		{"bytes beyond measure", `"bytes": 16`, `"bytes": 9000000000000000000`},
		{"no such input", `"inputs": ["a"]`, `"inputs": ["c"]`},
		{"reads itself", `"inputs": ["a"]`, `"inputs": ["b"]`},
		{"no such output", `"outputs": ["b"]`, `"outputs": ["c"]`},
		{"more results than outputs", `"num_fwd_outputs": 1`, `"num_fwd_outputs": 3`},
		{"no outputs", `"outputs": ["b"]`, `"outputs": [null]`},
		{"a name twice", `"name": "b"`, `"name": "a"`},
		{"no name", `"name": "b"`, `"name": ""`},
		{"no operator", `aten.sum.default`, ``},
		{"an operator with a newline", `aten.sum.default`, `aten\nsum`},
		{"an input of no kind", `"kind": "data"`, `"kind": "date"`},
		{"a view of nothing", `"flops": 4`, `"flags": ["view"], "alias_of": "c"`},
		{"changes its input", `"flops": 4`, `"flags": ["mutates"]`},
		{"selects from an input", `aten.sum.default`, `getitem`},
		{"selects from two", `"op": "aten.sum.default", "inputs": ["a"]`, `"op": "getitem", "inputs": ["a", "a"]`},
		{"a node that is a number", "\n]}", ",\n7\n]}"},
		{"no flops in the time of a byte", `"model": "m"`, `"model": "m", "flops_per_byte": 0`},
		{"threads in words", `"model": "m"`, `"model": "m", "threads": "four"`},
		{"a layout that is no text", `"model": "m"`, `"model": "m", "layout": ["channels_last"]`},
		{"held until nothing", `"bytes": 4}`, `"bytes": 4, "held_until": "c"}`},
		{"held until a number", `"bytes": 4}`, `"bytes": 4, "held_until": 1}`},
		{"an output that is no text", `"outputs": ["b"]`, `"outputs": [1]`},
	} {
		text := strings.Replace(small, e.from, e.to, 1)
		if text == small {
			t.Fatalf("%s: nothing is changed", e.what)
		}
		try(e.what, text)
	}
	try("empty", "")
	try("a list", "[]")
	try("an object", "{}")
	golden.File(t, "testdata/hostile.txt", out.String())
}

// TestUnlikeSelection: a getitem that no output is like.
func TestUnlikeSelection(t *testing.T) {
	text, err := os.ReadFile("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"index": 2, "outputs": [{"shape": [4]`), []byte(`"index": 2, "outputs": [{"shape": [5]`), 1)
	if _, err := parseGraph(context.Background(), text); err == nil || !strings.Contains(err.Error(), `selects output 2 of "linear_backward"`) {
		t.Errorf("error %v", err)
	}
}

// TestBomb: a file that unpacks to far more than it is stops early.
func TestBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 64 {
		z.Write(bytes.Repeat([]byte(" "), 1<<20))
	}
	z.Close()
	if _, err := unpack(b.Bytes()); err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("error %v", err)
	}
	if _, err := unpack(b.Bytes()[:b.Len()/2]); err == nil {
		t.Error("half a file has no error")
	}
}

// TestBombsMemory: files that are refused for their size, or for their last node, take memory in proportion to what they are.
func TestBombsMemory(t *testing.T) {
	packed := func(size int, head, piece, tail string) []byte {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		z.Write([]byte(head))
		block := bytes.Repeat([]byte(piece), 1<<20/len(piece)+1)
		for n := 0; n < size; n += len(block) {
			z.Write(block)
		}
		z.Write([]byte(tail))
		z.Close()
		return b.Bytes()
	}
	noise := make([]byte, 4<<20) // which does not compress, so that much may follow
	for i := range noise {
		noise[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	for name, c := range map[string]struct {
		data []byte
		want string
		most uint64 // bytes allocated
	}{
		"spaces":       {packed(256<<20, "", " ", ""), "unpacks to more than", 4 << 20},
		"behind noise": {packed(192<<20, `{"x": "`+string(noise)+`"`, " ", ""), "unpacks to more than", 4 << 20},
		"empty nodes":  {packed(96<<20, `{"format": "memopt-fx-joint/1", "x": "`+string(noise)+`", "nodes": [`, "{},", "{}]}"), "a node has no name", 160 << 20},
		"cut off":      {packed(128<<20, `{"x": "`+string(noise)+`"`, " ", "")[:1<<20], "ends badly", 4 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(context.Background(), "bomb.json.gz", c.data)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > c.most {
				t.Errorf("a file of %d bytes took %d MiB", len(c.data), took>>20)
			}
		})
	}
}

// TestIs goes by content.
func TestIs(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]bool{small: true, "\xef\xbb\xbf \n{": true, "\x1f\x8b\x08": true, "\x08\x07\x12": false, "": false, "[1]": false} {
		path := filepath.Join(dir, "model.onnx")
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if Is(path) != want {
			t.Errorf("%.10q: %v", content, !want)
		}
	}
	if Is(dir) || Is(filepath.Join(dir, "none")) {
		t.Error("a folder, or nothing, is a joint graph")
	}
}

// FuzzRead: any bytes give a graph that checks, or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	text, err := os.ReadFile("testdata/small.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(held(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := unpack(data)
		if err != nil {
			return
		}
		g, err := parseGraph(context.Background(), text)
		if err != nil {
			_ = where("f", text, err)
			return
		}
		if err := g.CheckTypes(); err != nil {
			t.Fatal(err)
		}
		if _, err := planner.Make(g, planner.Request{Strategy: "keep-all"}); err != nil {
			t.Logf("planning: %v", err)
		}
	})
}

// TestFormulas: sizes that are formulas are planned at any size as numbers of that size are.
func TestFormulas(t *testing.T) {
	const text = `{"format": "memopt-fx-joint/1", "model": "m", "num_fwd_outputs": 1, "outputs": ["loss", "gw", null], "nodes": [
{"name": "w", "op": "input", "kind": "param", "source": "w", "inputs": [], "outputs": [{"shape": [8], "dtype": "float32", "bytes": 32}]},
{"name": "x", "op": "input", "kind": "data", "inputs": [], "outputs": [{"shape": [%[1]s, %[2]s], "dtype": "float32", "bytes": %[3]s}]},
{"name": "a", "op": "aten.mm.default", "inputs": ["x", "w"], "flops": %[4]s, "outputs": [{"shape": [%[1]s, %[2]s], "dtype": "float32", "bytes": %[3]s}]},
{"name": "b", "op": "aten.gelu.default", "inputs": ["a"], "outputs": [{"shape": [%[1]s, %[2]s], "dtype": "bool", "bytes": %[3]s}, {"shape": [7], "dtype": "uint8", "bytes": 7}]},
{"name": "b.0", "op": "getitem", "index": 0, "inputs": ["b"], "outputs": [{"shape": [%[1]s, %[2]s], "dtype": "bool", "bytes": %[3]s}]},
{"name": "loss", "op": "aten.mean.default", "inputs": ["b.0"], "outputs": [{"shape": [], "dtype": "float32", "bytes": 4}]},
{"name": "back", "op": "aten.mul.default", "inputs": ["loss", "a", "b.0"], "outputs": [{"shape": [%[1]s, %[2]s], "dtype": "float32", "bytes": %[3]s}], "is_backward": true},
{"name": "gw", "op": "aten.mm.default", "inputs": ["back", "x"], "flops": %[4]s, "outputs": [{"shape": [8], "dtype": "float32", "bytes": 32}], "is_backward": true}]}`
	formulas, err := parseGraph(context.Background(), fmt.Appendf(nil, text, `"batch"`, `"seq"`, `"4*batch*seq"`, `"16*batch*seq**2"`))
	if err != nil {
		t.Fatal(err)
	}
	if names := formulas.Names(); !slices.Equal(names, []string{"batch", "seq"}) {
		t.Fatalf("the dims are %v", names)
	}
	for _, at := range [][2]int64{{1, 1}, {4, 100}, {7, 33}} {
		b, s := at[0], at[1]
		fixed, err := parseGraph(context.Background(), fmt.Appendf(nil, text, fmt.Sprint(b), fmt.Sprint(s), fmt.Sprint(4*b*s), fmt.Sprint(16*b*s*s)))
		if err != nil {
			t.Fatal(err)
		}
		want, err := planner.Make(fixed, planner.Request{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := planner.Make(formulas, planner.Request{Dims: map[string]int64{"batch": b, "seq": s}})
		if err != nil {
			t.Fatal(err)
		}
		got.Baseline.PeakFormula, want.Baseline.PeakFormula = "", ""
		if got.Floor.Peak != want.Floor.Peak || got.Baseline != want.Baseline || got.Baseline.Peak < 8*b*s {
			t.Errorf("batch %d, seq %d: %+v, not %+v", b, s, got.Baseline, want.Baseline)
		}
	}
}

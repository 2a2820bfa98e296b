package onnx

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile are files that must give one line that says what and where, soon and
// without much memory.
var hostile = []struct {
	name  string
	model wire
	want  string
}{
	{"nothing", nil, "holds no graph; is it an ONNX model?"},
	{"text", []byte("hello, this is not a model\n"), "broken at byte 2, in the model: field 13"},
	{"a length of 2 GB in a small file", msg(number(modelIR, 10), claim(modelGraph, 1<<31, make(wire, 900))),
		"broken at byte 2, in the model: field 7 says 2147483648 bytes, but 900 are left"},
	{"a length of 2⁶³", msg(claim(modelGraph, 1<<63, nil)), "field 7 says"},
	{"a length of 2 GB inside", onnxModel(claim(graphInit, 1<<31, make(wire, 100))), "in the graph: field 5 says 2147483648 bytes"},
	{"a number without end", wire{8, 0xff, 0xff}, "broken at byte 0, in the model: field 1 ends too early"},
	{"a group", wire{0x0b, 0x0c}, "wire type 3, which ONNX does not use"},
	{"wrong wire type", msg(text(modelIR, "ten"), in(modelGraph)), "field 1 has wire type 2, not 0"},
	{"two graphs", msg(in(modelGraph), in(modelGraph)), "holds two graphs"},
	{"no outputs", onnxModel(input("x", 2)), "the graph has no outputs"},
	{"name that is not UTF-8", onnxModel(input("\xff", 2)), "is not UTF-8"},
	{"opset of nothing", msg(onnxOpset(modelOpset, "", 0), in(modelGraph)), `opset 0 of domain "" is not a version`},
	{"opset twice", msg(onnxOpset(modelOpset, "", 20), onnxOpset(modelOpset, "ai.onnx", 21), in(modelGraph)), "is imported as opset 20 and 21"},

	{"input larger than memory can be", onnxModel(input("x", 1<<40, 1<<40), output("x")), `input "x": shape [1099511627776, 1099511627776]: `},
	{"negative dim of an initializer", onnxModel(in(graphInit, tensorFields("w", 1, -2), in(tensorRaw, make(wire, 8))), output("w")),
		`initializer "w": shape [-2] is not a size`},
	{"dims that overflow", onnxModel(in(graphInit, tensorFields("w", 1, 1<<32, 1<<32), in(tensorRaw)), output("w")),
		`initializer "w": shape [4294967296 4294967296] is not a size`},
	{"dims that overflow but for a 0", onnxModel(in(graphInit, tensorFields("w", 1, 1<<40, 0, 1<<40)), output("w")), "is not a size"},
	{"more dims than there are", onnxModel(in(graphInit, in(tensorDims, make(wire, 1000)), tensorFields("w", 1)), output("w")), "more than 64 dims"},
	{"a huge tensor without numbers", onnxModel(in(graphInit, tensorFields("w", 1, 1<<20, 1<<20)), output("w")),
		`initializer "w": 0 numbers, but f32[1048576 1048576] takes 1099511627776`},
	{"too few bytes", onnxModel(in(graphInit, tensorFields("w", 1, 3), in(tensorRaw, make(wire, 8))), output("w")),
		`initializer "w": 8 bytes of raw_data, but f32[3] takes 12`},
	{"too many numbers", onnxModel(in(graphInit, tensorFields("w", 7, 1), in(tensorInt64s, make(wire, 2))), output("w")),
		`initializer "w": 2 numbers, but i64[1] takes 1`},
	{"numbers in the wrong field", onnxModel(in(graphInit, tensorFields("w", 7, 1), in(tensorInt32s, make(wire, 1))), output("w")), "0 numbers"},
	{"floats that are cut", onnxModel(in(graphInit, tensorFields("w", 1, 1), in(tensorFloats, make(wire, 3))), output("w")), "holds 3 bytes of 4-byte numbers"},

	{"two inputs of one name", onnxModel(input("x", 2), input("x", 2), output("x")), `input "x": two inputs are named so`},
	{"two initializers of one name", onnxModel(onnxInts("w", []int64{1}, 1), onnxInts("w", []int64{1}, 1), output("w")), `initializer "w": two values are named so`},
	{"a node makes what is there", onnxModel(input("x", 2), onnxNode("Relu", names{"x"}, names{"x"}), output("x")),
		`node "x" (Relu): two values are named "x"`},
	{"two nodes make one value", onnxModel(input("x", 2), onnxNode("Relu", names{"x"}, names{"y"}), onnxNode("Relu", names{"y"}, names{"y"}), output("y")),
		`node "y" (Relu): two values are named "y"`},
	{"a node makes one value twice", onnxModel(input("x", 2), onnxNode("Pair", names{"x"}, names{"y", "y"}), output("y")), `node "y" (Pair): two outputs are named "y"`},
	{"a missing input", onnxModel(input("x", 2), onnxNode("Add", names{"x", "ghost"}, names{"y"}), output("y")),
		`node "y" (Add): input "ghost" is made by no node before it`},
	{"a missing output", onnxModel(input("x", 2), output("ghost")), `output "ghost" is made by no node`},
	{"a cycle", onnxModel(input("x", 2), onnxNode("Relu", names{"x"}, names{"o"}),
		onnxNode("Add", names{"x", "c"}, names{"a"}), onnxNode("Relu", names{"a"}, names{"b"}), onnxNode("Relu", names{"b"}, names{"c"}), output("c")),
		`node "a" (Add): is part of a cycle: "a" → "c" → "b" → "a"`},
	{"a node that reads itself", onnxModel(onnxNode("Relu", names{"a"}, names{"a"}), output("a")), `node "a" (Relu): is part of a cycle: "a" → "a"`},
	{"a node without operator", onnxModel(in(graphNode, text(nodeName, "n")), output("n")), `node "n" has no operator`},
	{"a node of nothing", onnxModel(in(graphNode), output("n")), `node 0 of the graph has no operator`},
	{"an attribute twice", onnxModel(input("x", 2), onnxNode("Scale", names{"x"}, names{"y"}, attr("by", 1), attr("by", 1)), output("y")), `attribute "by" is given twice`},
	{"a reference outside of functions", onnxModel(input("x", 2), onnxNode("Scale", names{"x"}, names{"y"}, attr("by", 1, text(attrRef, "z"))), output("y")), "is not in a function"},

	{"outside of the folder", onnxModel(external("w", "../../etc/passwd")), `initializer "w": external data location "../../etc/passwd" of `},
	{"an absolute path", onnxModel(external("w", "/etc/passwd")), "is absolute"},
	{"a note about memory", onnxModel(external("w", "*/_ORT_MEM_ADDR_/*")), "another process's memory"},
	{"no such file", onnxModel(external("w", "gone.bin")), "gone.bin"},
	{"external bytes beyond the end", onnxModel(external("w", "few.bin", "offset", "9")), "12 bytes at offset 9 do not fit into its 16 bytes"},
	{"external length of another shape", onnxModel(external("w", "few.bin", "length", "11")), `initializer "w": 11 bytes of external data, but f32[3] takes 12`},
	{"external offset below 0", onnxModel(external("w", "few.bin", "offset", "-8")), `external data offset "-8" is not a number of bytes`},

	{"a function that calls itself", msg(onnxModel(input("x", 2), onnxNode("F0", names{"x"}, names{"y"}, text(nodeDomain, "f")), output("y")), functions(1, 1, 0)),
		"the function calls itself"},
	{"functions in a ring", msg(onnxModel(input("x", 2), onnxNode("F0", names{"x"}, names{"y"}, text(nodeDomain, "f")), output("y")), functions(5, 1, 0)),
		"the function calls itself"},
	{"functions that double", msg(onnxModel(input("x", 2), onnxNode("F0", names{"x"}, names{"y"}, text(nodeDomain, "f")), output("y")), functions(40, 2, -1)),
		"inlining functions would make more than"},
	{"functions too deep", msg(onnxModel(input("x", 2), onnxNode("F0", names{"x"}, names{"y"}, text(nodeDomain, "f")), output("y")), functions(100, 1, -1)),
		"nested more than 64 deep"},
	{"branches too deep", onnxModel(nested(500)), "nested more than 64 deep"},
	{"branches too deep that have to be sorted", onnxModel(onnxNode("Choose", names{"late"}, names{"y"}, attr("then_branch", 5, in(attrG, nested(500)))), output("y")), "nested more than 64 deep"},

	{"metadata about nobody", msg(onnxModel(input("x", 2), output("x")), in(modelMetadata, text(entryKey, metaLoss), text(entryValue, "ghost"))),
		`metadata memopt.loss: no value is named "ghost"`},
	{"metadata that is not a list", msg(onnxModel(input("x", 2), output("x")), in(modelMetadata, text(entryKey, metaLoss)),
		in(modelMetadata, text(entryKey, metaGrads), text(entryValue, "{"))), "metadata memopt.grads: "},
	{"a name longer than a line", onnxModel(input("x", 2), onnxNode("Relu", names{strings.Repeat("long", 10000)}, names{"y"})), "… (40000 bytes)"},
}

func external(name, location string, entries ...string) wire {
	b := msg(tensorFields(name, 1, 3), number(tensorLocation, 1), in(tensorExternal, text(entryKey, "location"), text(entryValue, location)))
	for i := 0; i < len(entries); i += 2 {
		b = append(b, in(tensorExternal, text(entryKey, entries[i]), text(entryValue, entries[i+1]))...)
	}
	return in(graphInit, b)
}

// functions are n that call the next one several times, the last one the one
// numbered last.
func functions(n, times, last int) wire {
	b := onnxOpset(modelOpset, "f", 1)
	for i := range n {
		f := msg(text(funcName, fmt.Sprint("F", i)), text(funcDomain, "f"), text(funcInput, "v0"), text(funcOutput, fmt.Sprint("v", times)))
		next := fmt.Sprint("F", i+1)
		if i == n-1 {
			next = fmt.Sprint("F", last)
		}
		for k := range times {
			call := msg(text(nodeOp, next), text(nodeDomain, "f"), text(nodeInput, fmt.Sprint("v", k)), text(nodeOutput, fmt.Sprint("v", k+1)))
			if last < 0 && i == n-1 {
				call = msg(text(nodeOp, "Relu"), text(nodeInput, fmt.Sprint("v", k)), text(nodeOutput, fmt.Sprint("v", k+1)))
			}
			f = append(f, in(funcNode, call)...)
		}
		b = append(b, in(modelFunction, f)...)
	}
	return b
}

// nested is the graph of a branch in a branch in a branch.
func nested(depth int) wire {
	on := in(graphInit, tensorFields("on", 9, 1), in(tensorRaw, wire{1}))
	g := msg(on, onnxNode("Pair", names{"on"}, names{"y"}), output("y"))
	for range depth {
		g = msg(on, onnxNode("Choose", names{"on"}, names{"y"}, attr("then_branch", 5, in(attrG, g)), attr("else_branch", 5, in(attrG))), output("y"))
	}
	return g
}

func TestHostile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "few.bin"), make([]byte, 16), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "m.onnx")
	for _, test := range hostile {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(path, test.model, 0o666); err != nil {
				t.Fatal(err)
			}
			allocated := allocation(func() {
				start := time.Now()
				g, _, err := Open(path, testLibrary)
				if err == nil {
					t.Fatalf("read as\n%s", g)
				}
				s := err.Error()
				if !strings.HasPrefix(s, ""+path+": ") || !strings.Contains(s, test.want) || strings.Contains(s, "\n") || len(s) > 1000 {
					t.Errorf("error is\n  %s\nnot one line with\n  %s", s, test.want)
				}
				if d := time.Since(start); d > 2*time.Second {
					t.Errorf("took %v", d)
				}
			})
			// Inlining may make 20000 nodes of a few.
			if most := int64(64*len(test.model) + 1<<20); allocated > most && !strings.Contains(test.want, "inlining") {
				t.Errorf("%d bytes allocated for a file of %d", allocated, len(test.model))
			}
		})
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("the folder holds %v (%v)", left, err)
	}
}

// allocation is the bytes that f allocates.
func allocation(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Every beginning of a good file is refused or read, never a panic.
func TestTruncated(t *testing.T) {
	whole, err := os.ReadFile("../../memopt/testdata/models/mlp/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if n > 2000 && n%97 != 0 {
			continue
		}
		if _, err := Parse(whole[:n], "m.onnx", testLibrary); err == nil {
			t.Fatalf("the first %d bytes are read", n)
		}
	}
}

func TestMillionNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a file of 20 MB")
	}
	for name, node := range map[string]func(i int) wire{
		"empty":    func(int) wire { return in(graphNode) },
		"nameless": func(int) wire { return in(graphNode, text(nodeOp, "Unheard")) },
		"unheard":  func(i int) wire { return onnxNode("Unheard", nil, names{fmt.Sprint("n", i)}) },
		"each its own operator": func(i int) wire {
			return onnxNode(fmt.Sprint("Op", i), nil, names{fmt.Sprint("n", i)})
		},
		"backwards": func(i int) wire { return onnxNode("Relu", names{fmt.Sprint("n", i+1)}, names{fmt.Sprint("n", i)}) },
	} {
		t.Run(name, func(t *testing.T) {
			var g bytes.Buffer
			for i := range 300_000 {
				g.Write(node(i))
			}
			g.Write(output("y"))
			model := onnxModel(g.Bytes())
			start := time.Now()
			var err error
			allocated := allocation(func() { _, err = Parse(model, "m.onnx", testLibrary) })
			if err == nil || len(err.Error()) > 1<<16 {
				t.Errorf("error %.200v", err)
			}
			t.Logf("%d bytes: %v, %d bytes allocated: %.100v", len(model), time.Since(start), allocated, err)
			if allocated > 30*int64(len(model)) {
				t.Errorf("%d bytes allocated for a file of %d", allocated, len(model))
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	models, err := filepath.Glob("../../memopt/testdata/models/*/model*.onnx")
	if err != nil || len(models) == 0 {
		f.Fatal("no models in testdata", err)
	}
	for _, m := range models {
		b, err := os.ReadFile(m)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 100_000 {
			f.Add(b)
		}
	}
	for _, h := range hostile {
		f.Add(h.model)
	}
	for _, r := range readable {
		f.Add(r.model)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Parse(b, "m.onnx", testLibrary)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "m.onnx: ") {
				t.Errorf("error is %v", err)
			}
			return
		}
		if err := g.Check(); err != nil {
			t.Error(err)
		}
		sameAfterWriting(t, g, testLibrary)
	})
}

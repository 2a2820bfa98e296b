package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"memopt/internal/golden"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"memopt": main})
}

// TestScripts runs what people type, in a folder of its own for each script.
func TestScripts(t *testing.T) {
	models, err := filepath.Abs("../../memopt/testdata/models")
	if err != nil {
		t.Fatal(err)
	}
	joint, err := filepath.Abs("../../internal/joint/testdata")
	if err != nil {
		t.Fatal(err)
	}
	corpus, err := filepath.Abs("../../memopt/lab/corpus/steps")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: golden.Updating(),
		Setup: func(e *testscript.Env) error {
			e.Setenv("MODELS", models)
			e.Setenv("JOINT", joint)
			e.Setenv("CORPUS", corpus)
			e.Setenv("COLUMNS", "9999") // patterns are of whole lines; output.txt has what fits a terminal
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "interrupt": interrupt, "mask": mask, "json": jsonAt, "keys": keys, "joined": joined, "onnx": hostile, "oneline": oneLine,
		},
	})
}

// mask [LINES] writes the last command's standard output to the file seen, or its first
// lines, without what differs from run to run and from machine to machine.
func mask(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile("stdout")
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.by)
	}
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		lines := strings.SplitAfter(text, "\n")
		text = strings.Join(lines[:min(n, len(lines))], "")
	}
	ts.Check(os.WriteFile(ts.MkAbs("seen"), []byte(text), 0o666))
}

var masks = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)^the profile is off: .*\n`), ""},
	{regexp.MustCompile(` +[0-9.]+ µs measured`), " _ ms measured"},
	{regexp.MustCompile(`(extra time: .* promised, )[-+.0-9]+ % measured`), "${1}_ % measured"},
	{regexp.MustCompile(` +[0-9.]+ ms`), " _ ms"},
	{regexp.MustCompile(`(loss +|loss |, )([0-9]+\.[0-9]{2})[0-9]+`), "$1${2}_"},
	{regexp.MustCompile(`[0-9.]+e-[0-9]+`), "_e-_"},
	{regexp.MustCompile(`(?m)^(anonymous memory +).*`), "${1}_"},
	{regexp.MustCompile(`(budgets do not include: )[0-9,]+`), "${1}_"},
	{regexp.MustCompile(`(amd64|arm64), [0-9]+ workers`), "_, _ workers"},
	{regexp.MustCompile(`(?m)^(ok|–)  ( *)(memopt|cpu device|memory|operators|vulkan|python|service folder)( .*)?(\n {20}.*)*$`), "_   $2$3 _"},
}

// exits CODE COMMAND… runs a command and wants its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	if got := exitCode(ts.Exec(args[1], args[2:]...)); got != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

func exitCode(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &exit):
		return fmt.Sprint(exit.ExitCode())
	}
	return err.Error()
}

// interrupt [-HUP] [-after TIME] COMMAND… starts a command, interrupts it after its
// first line or a time, or takes its terminal away, and writes its output to out.txt
// and err.txt, its exit code to code.txt.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	with := os.Signal(os.Interrupt)
	if args[0] == "-HUP" {
		with, args = syscall.SIGHUP, args[1:]
	}
	after := time.Duration(0)
	if args[0] == "-after" {
		var err error
		after, err = time.ParseDuration(args[1])
		ts.Check(err)
		args = args[2:]
	}
	var path string
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, args[0])); err == nil && path == "" {
			path = filepath.Join(dir, args[0])
		}
	}
	c := exec.Command(path, args[1:]...)
	c.Dir = ts.MkAbs(".")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	ts.Check(err)
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, with) // or what is ignored here, as under nohup, would be there too
	ts.Check(c.Start())
	signal.Stop(taken)
	r := bufio.NewReader(out)
	first := ""
	if time.Sleep(after); after == 0 {
		first, err = r.ReadString('\n')
		ts.Check(err)
	}
	ts.Check(c.Process.Signal(with))
	rest, err := io.ReadAll(r)
	ts.Check(err)
	code := exitCode(c.Wait())
	ts.Check(os.WriteFile(ts.MkAbs("out.txt"), []byte(first+string(rest)), 0o666))
	ts.Check(os.WriteFile(ts.MkAbs("err.txt"), stderr.Bytes(), 0o666))
	ts.Check(os.WriteFile(ts.MkAbs("code.txt"), []byte(code+"\n"), 0o666))
}

// jsonAt FILE PATH [VALUE] wants a path in a JSON file, and its text if given.
func jsonAt(ts *testscript.TestScript, neg bool, args []string) {
	doc := parse(ts, args[0])
	got := doc.Get(args[1])
	if holds := got.Exists() && (len(args) < 3 || got.String() == args[2]); holds == neg {
		ts.Fatalf("%s: %s is %s", args[0], args[1], got.Raw)
	}
}

func parse(ts *testscript.TestScript, file string) gjson.Result {
	text := ts.ReadFile(file)
	if !gjson.Valid(text) {
		ts.Fatalf("%s is not JSON:\n%s", file, text)
	}
	return gjson.Parse(text)
}

// keys FILE WANT wants every path of a JSON file that others rely on, each a
// line of WANT with its type. The file may have more.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	var lines []string
	var walk func(path string, v gjson.Result)
	walk = func(path string, v gjson.Result) {
		switch {
		case v.IsObject():
			v.ForEach(func(k, x gjson.Result) bool {
				walk(strings.TrimPrefix(path+"."+k.String(), "."), x)
				return true
			})
		case v.IsArray() && len(v.Array()) > 0:
			for _, x := range v.Array() {
				walk(path+"[]", x)
			}
		case v.IsArray():
			lines = append(lines, path+" empty array")
		case v.IsBool():
			lines = append(lines, path+" bool")
		default:
			lines = append(lines, path+" "+strings.ToLower(v.Type.String()))
		}
	}
	walk("", parse(ts, args[0]))
	for want := range strings.Lines(ts.ReadFile(args[1])) {
		if !slices.Contains(lines, strings.TrimSpace(want)) {
			ts.Fatalf("%s has no %s", args[0], want)
		}
	}
}

// joined WHOLE PATH PART… wants the array at PATH of WHOLE to be those of the
// parts, one after the other.
func joined(ts *testscript.TestScript, neg bool, args []string) {
	want, got := parse(ts, args[0]).Get(args[1]).Raw, "["
	var parts []string
	for _, file := range args[2:] {
		for _, x := range parse(ts, file).Get(args[1]).Array() {
			parts = append(parts, x.Raw)
		}
	}
	got += strings.Join(parts, ",") + "]"
	if squeeze(got) != squeeze(want) {
		ts.Fatalf("%s of %s is\n%s\nof the others together\n%s", args[1], args[0], want, got)
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// oneLine wants the last command's standard error to be one line, and nothing
// on standard output.
func oneLine(ts *testscript.TestScript, neg bool, args []string) {
	out, err := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if out != "" || strings.Count(err, "\n") != 1 || !strings.HasPrefix(err, "memopt") {
		ts.Fatalf("want one line on standard error, have\n%s\nand on standard output\n%s", err, out)
	}
}

// hostile KIND FILE writes an ONNX file that is not what it should be.
func hostile(ts *testscript.TestScript, neg bool, args []string) {
	make, ok := hostileFiles[args[0]]
	if !ok {
		ts.Fatalf("no hostile file is called %s", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), make(), 0o666))
}

// hostileFiles are models with one thing wrong each; "good" has nothing wrong.
var hostileFiles = map[string]func() []byte{
	"good":      func() []byte { return smallModel(nil, mul("x", "w", "y"), sum("y", "loss")) },
	"truncated": func() []byte { m := smallModel(nil, mul("x", "w", "y"), sum("y", "loss")); return m[:len(m)-20] },
	"length":    func() []byte { return protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.BytesType), 2<<30) },
	"escape":    func() []byte { return smallModel(external("../../etc/passwd"), mul("x", "w", "y"), sum("y", "loss")) },
	"absolute":  func() []byte { return smallModel(external("/etc/passwd"), mul("x", "w", "y"), sum("y", "loss")) },
	"cycle":     func() []byte { return smallModel(nil, mul("x", "z", "y"), mul("y", "w", "z"), sum("y", "loss")) },
	"twice":     func() []byte { return smallModel(nil, mul("x", "w", "y"), mul("x", "w", "y"), sum("y", "loss")) },
	"unknown":   func() []byte { return smallModel(nil, node("Frobnicate", "x", "y"), sum("y", "loss")) },
}

// smallModel is loss = Σ x·w for four numbers each; w is inline unless given.
func smallModel(w []byte, nodes ...[]byte) []byte {
	if w == nil {
		w = field(nil, 8, []byte("w"))
		w = number4(w)
		w = field(w, 9, bytes.Repeat([]byte{0, 0, 128, 63}, 4))
	}
	var g []byte
	for _, n := range nodes {
		g = field(g, 1, n)
	}
	g = field(g, 2, []byte("small"))
	g = field(g, 5, w)
	g = field(g, 11, value("x", 4))
	g = field(g, 12, value("loss"))
	m := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 8)
	m = field(m, 7, g)
	return field(m, 8, protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 17))
}

// number4 says of a tensor that it is four float32.
func number4(t []byte) []byte {
	t = protowire.AppendVarint(protowire.AppendTag(t, 1, protowire.VarintType), 4)
	return protowire.AppendVarint(protowire.AppendTag(t, 2, protowire.VarintType), 1)
}

func external(path string) []byte {
	entry := field(field(nil, 1, []byte("location")), 2, []byte(path))
	w := field(number4(field(nil, 8, []byte("w"))), 13, entry)
	return protowire.AppendVarint(protowire.AppendTag(w, 14, protowire.VarintType), 1)
}

func value(name string, dims ...uint64) []byte {
	var shape []byte
	for _, d := range dims {
		shape = field(shape, 1, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), d))
	}
	t := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	t = field(t, 2, shape)
	return field(field(nil, 1, []byte(name)), 2, field(nil, 1, t))
}

func node(op, in, out string, more ...string) []byte {
	var n []byte
	for _, name := range append([]string{in}, more...) {
		n = field(n, 1, []byte(name))
	}
	n = field(n, 2, []byte(out))
	n = field(n, 3, []byte(out))
	return field(n, 4, []byte(op))
}

func mul(a, b, out string) []byte { return node("Mul", a, out, b) }

func sum(in, out string) []byte {
	keep := field(nil, 1, []byte("keepdims"))
	keep = protowire.AppendVarint(protowire.AppendTag(keep, 3, protowire.VarintType), 0)
	keep = protowire.AppendVarint(protowire.AppendTag(keep, 20, protowire.VarintType), 2)
	return field(node("ReduceSum", in, out), 5, keep)
}

func field(b []byte, n protowire.Number, x []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), x)
}

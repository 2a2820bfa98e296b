package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/memopt/lab/bench"
)

// TestDocs runs every command block of README.md and docs/*.md, each file in a folder
// of its own, block after block:
//
//	```console   lines that begin with "$ " are commands; what follows is their output,
//	             where a line "…" stands for any lines
//	```sh        commands that must succeed
//	```python    a program that must succeed; one that imports torch runs in the peers' Python
//
// Figures may differ where they depend on the machine: see sameText. A file that a
// command writes and that also lies in docs/ must be the same there. With -update,
// outputs and files are written back into the documents.
//
// A block may be run by another test instead: <!-- run by FILE --> above it names it.
func TestDocs(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append([]string{filepath.Join(root, "README.md")}, files...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			d := &document{t: t, root: root, path: path, dir: t.TempDir()}
			// Blocks name files of the repository as from a clone's root.
			if err := os.Symlink(filepath.Join(root, "memopt"), filepath.Join(d.dir, "memopt")); err != nil {
				t.Fatal(err)
			}
			d.run()
		})
	}
}

// document is a Markdown file while its blocks are run.
type document struct {
	t         *testing.T
	root      string
	path, dir string
	line      int
}

var runBy = regexp.MustCompile(`^<!-- run by (\S+) -->$`)

// run executes the blocks in order and compares, or rewrites, their output.
func (d *document) run() {
	src, err := os.ReadFile(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	lines := strings.Split(string(src), "\n")
	var out []string
	elsewhere := false
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		if m := runBy.FindStringSubmatch(lines[i]); m != nil {
			if _, err := os.Stat(filepath.Join(d.root, m[1])); err != nil {
				d.t.Errorf("%s:%d: %v", filepath.Base(d.path), i+1, err)
			}
			elsewhere = true
			continue
		}
		kind, opens := strings.CutPrefix(lines[i], "```")
		if !opens {
			elsewhere = elsewhere && lines[i] == ""
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			d.t.Fatalf("%s:%d: the block does not end", filepath.Base(d.path), begin)
		}
		block := lines[begin:i]
		d.line = begin
		switch {
		case elsewhere:
		case kind == "console":
			block = d.console(block)
		case kind == "sh":
			d.mustRun("bash", "-euo", "pipefail", "-c", strings.Join(block, "\n"))
		case kind == "python":
			d.python(strings.Join(block, "\n"))
		case kind == "":
			d.t.Errorf("%s:%d: a block without a language; use text for what is no command", filepath.Base(d.path), begin)
		}
		elsewhere = false
		out = append(append(out, block...), "```")
	}
	d.files()
	if golden.Updating() {
		if err := os.WriteFile(d.path, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			d.t.Fatal(err)
		}
	}
}

// exec runs a program in the document's folder.
func (d *document) exec(name string, args ...string) (output string, err error) {
	c := exec.Command(name, args...)
	c.Dir = d.dir
	// No build of the native module, which goes on when the example has ended.
	c.Env = append(os.Environ(), "COLUMNS=100", "NO_COLOR=1", "MEMOPT_NATIVE=0", "XDG_CACHE_HOME="+filepath.Join(d.dir, ".cache"), "MEMOPT_PLUGIN_PATH="+which("memopt"), "PYTHONPATH="+filepath.Join(d.root, "plugin/python"))
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err = c.Run()
	return both.String(), err
}

func which(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

func (d *document) mustRun(name string, args ...string) {
	if out, err := d.exec(name, args...); err != nil {
		d.t.Errorf("%s:%d: %v\n%s", filepath.Base(d.path), d.line, err, out)
	}
}

// python runs a program with the interpreter that has what it imports.
func (d *document) python(program string) {
	variable, installs := "MEMOPT_PYTHON", ".ci/python"
	if strings.Contains(program, "torch") {
		variable, installs = "MEMOPT_TORCH_PYTHON", ".ci/peers"
	}
	python := os.Getenv(variable)
	if python == "" {
		// What follows may need what this block makes. make test sets both variables.
		d.t.Skipf("%s:%d: %s names no Python; %s makes one", filepath.Base(d.path), d.line, variable, installs)
	}
	d.mustRun(python, "-c", program)
}

// console runs the commands of a block and returns it with their output.
func (d *document) console(block []string) (out []string) {
	for i := 0; i < len(block); {
		command, ok := strings.CutPrefix(block[i], "$ ")
		if !ok {
			d.t.Errorf("%s:%d: a console block begins with a command after \"$ \"", filepath.Base(d.path), d.line+i+1)
			return block
		}
		out = append(out, block[i])
		for i++; strings.HasSuffix(command, "\\"); i++ {
			command += "\n" + block[i]
			out = append(out, block[i])
		}
		from := i
		for i < len(block) && !strings.HasPrefix(block[i], "$ ") {
			i++
		}
		want := block[from:i]
		text, err := d.exec("bash", "-c", command)
		if err != nil && !strings.Contains(text, "memopt: ") { // a refusal is output like any other
			d.t.Errorf("%s:%d: %s: %v", filepath.Base(d.path), d.line+from, command, err)
		}
		got := strings.Split(strings.TrimRight(text, "\n"), "\n")
		if text == "" {
			got = nil
		}
		matched, wrong := match(want, got)
		if wrong != "" && !golden.Updating() {
			d.t.Errorf("%s:%d: %s\n%s\n(-update accepts this) the whole output:\n%s", filepath.Base(d.path), d.line+from, command, wrong, text)
		}
		out = append(out, matched...)
	}
	return out
}

// match compares lines of expected output with those there are, and returns the
// expected ones as they should be: elisions stay where the lines around them do.
func match(want, got []string) (updated []string, wrong string) {
	next := 0
	for i := 0; i < len(want); i++ {
		if want[i] != "…" {
			if next >= len(got) {
				return got, fmt.Sprintf("no output for %q", want[i])
			}
			if !sameText(want[i], got[next]) {
				return got, fmt.Sprintf("want %q\nhave %q", want[i], got[next])
			}
			updated = append(updated, want[i]) // as it is written: only the machine differs
			next++
			continue
		}
		updated = append(updated, "…")
		if i == len(want)-1 {
			return updated, ""
		}
		for next < len(got) && !sameText(want[i+1], got[next]) {
			next++
		}
	}
	if next < len(got) {
		return got, fmt.Sprintf("more output: %q", got[next])
	}
	return updated, ""
}

var (
	spaces = regexp.MustCompile(`\s+`)
	// A time, or a rate, is the machine's.
	times   = regexp.MustCompile(`\d+(?:\.\d+)? (?:ns|µs|ms|s|GFLOP/s|GB/s)\b`)
	decimal = regexp.MustCompile(`\d+\.\d+`)
)

// sameText compares two lines: but for times, and losses up to the last digits that
// processors with other vector units round otherwise.
func sameText(want, got string) bool {
	flat := func(s string) string {
		return spaces.ReplaceAllString(times.ReplaceAllString(strings.TrimSpace(s), "TIME"), " ")
	}
	want, got = flat(want), flat(got)
	a, b := decimal.FindAllString(want, -1), decimal.FindAllString(got, -1)
	if len(a) != len(b) || decimal.ReplaceAllString(want, "#") != decimal.ReplaceAllString(got, "#") {
		return false
	}
	for i := range a {
		x, _ := strconv.ParseFloat(a[i], 64)
		y, _ := strconv.ParseFloat(b[i], 64)
		if math.Abs(x-y) > 1e-3*math.Abs(x) {
			return false
		}
	}
	return true
}

// files compares what the commands wrote with the files of that name in docs/.
func (d *document) files() {
	made, err := os.ReadDir(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, f := range made {
		shown := filepath.Join(d.root, "docs", f.Name())
		if _, err := os.Stat(shown); err != nil || strings.HasSuffix(f.Name(), ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(d.dir, f.Name()))
		if err != nil {
			d.t.Fatal(err)
		}
		golden.File(d.t, shown, string(text))
	}
}

// TestMeasurements: docs/measurements.md is what the files in docs/measurements come to.
func TestMeasurements(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "measurements")
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no measurements: %v", err)
	}
	var files []bench.AnyFile
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var f bench.AnyFile
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		files = append(files, f)
	}
	head, err := os.ReadFile(filepath.Join(folder, "head.md"))
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.Write(head)
	page.WriteString("\n")
	bench.Markdown(&page, files)
	golden.File(t, folder+".md", page.String())
	for _, f := range files {
		var chart strings.Builder
		if drawn, err := bench.TorchSVG(&chart, f); err != nil {
			t.Error(err)
		} else if drawn {
			golden.File(t, filepath.Join(folder, "..", "torch.svg"), chart.String())
		}
	}
}

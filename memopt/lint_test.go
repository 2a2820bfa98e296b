package memopt_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"memopt/kernels"
)

// floors are the folders at the top, from the cellar up. A package imports from its own folder and from lower floors alone, so
// that no two folders import each other.
var floors = [][]string{
	{"internal"},
	{"configs", "autograd", "kernels", "planner"},
	{"plugin"},
	{"memopt"},
	{"cmd"},
}

// mayImport is who may know whom: the table of rooms. Tests are free.
var mayImport = map[string][]string{
	"memopt/internal/arena":             {},
	"memopt/internal/bytesize":          {},
	"memopt/internal/compare":           {"memopt/internal/graph", "memopt/internal/tensorfile"},
	"memopt/internal/fitwords":          {},
	"memopt/internal/golden":            {},
	"memopt/internal/graph":             {"memopt/internal/stop"},
	"memopt/internal/joint":             {"memopt/internal/graph", "memopt/internal/stop", "memopt/internal/whole"},
	"memopt/internal/loader":            {"memopt/internal/arena", "memopt/internal/graph", "memopt/internal/stop"},
	"memopt/internal/onnx":              {"memopt/internal/graph", "memopt/internal/stop", "memopt/internal/weights", "memopt/internal/whole"},
	"memopt/internal/schedule":          {"memopt/internal/graph"},
	"memopt/internal/spill":             {"memopt/internal/bytesize"},
	"memopt/internal/stop":              {},
	"memopt/internal/stop/stoptest":     {},
	"memopt/internal/tensorfile":        {"memopt/internal/graph", "memopt/internal/weights", "memopt/internal/whole"},
	"memopt/internal/visible":           {},
	"memopt/internal/weights":           {},
	"memopt/internal/weights/blocktest": {"memopt/internal/weights"},
	"memopt/internal/whole":             {},
	"memopt/configs":                    {"memopt/internal/bytesize", "memopt/internal/visible", "memopt/internal/whole"},
	"memopt/autograd":                   {"memopt/internal/graph", "memopt/internal/stop"},
	"memopt/kernels":                    {"memopt/internal/graph", "memopt/kernels/internal/f32", "memopt/kernels/internal/gelu", "memopt/kernels/internal/index", "memopt/kernels/internal/spirv", "memopt/kernels/lower"},
	"memopt/kernels/cpu":                {"memopt/internal/arena", "memopt/internal/graph", "memopt/internal/loader", "memopt/internal/schedule", "memopt/internal/stop"},
	"memopt/kernels/internal/f32":       {"memopt/kernels/internal/gelu"},
	"memopt/kernels/internal/gelu":      {},
	"memopt/kernels/internal/index":     {},
	"memopt/kernels/internal/rowgen":    {"memopt/kernels/internal/gelu"},
	"memopt/kernels/internal/spirv":     {},
	"memopt/kernels/lower":              {"memopt/internal/graph", "memopt/kernels/internal/f32", "memopt/kernels/internal/index", "memopt/kernels/internal/spirv"},
	"memopt/kernels/nodes":              {"memopt/internal/graph"},
	"memopt/kernels/vulkan":             {"memopt/internal/graph", "memopt/internal/loader", "memopt/internal/schedule", "memopt/internal/weights", "memopt/internal/whole", "memopt/kernels/cpu", "memopt/kernels/vulkan/vk"},
	"memopt/kernels/vulkan/vk":          {},
	"memopt/planner":                    {"memopt/internal/bytesize", "memopt/internal/graph", "memopt/internal/schedule", "memopt/internal/stop", "memopt/planner/chains", "memopt/planner/check", "memopt/planner/cluster", "memopt/planner/formulas", "memopt/planner/launch", "memopt/planner/limits", "memopt/planner/moving", "memopt/planner/operators", "memopt/planner/outside", "memopt/planner/pack", "memopt/planner/profile", "memopt/planner/recompute", "memopt/planner/rewrite"},
	"memopt/planner/chains":             {"memopt/internal/bytesize", "memopt/internal/graph", "memopt/internal/schedule"},
	"memopt/planner/check":              {"memopt/internal/graph", "memopt/internal/schedule", "memopt/internal/stop", "memopt/planner/launch", "memopt/planner/moving", "memopt/planner/operators", "memopt/planner/outside", "memopt/planner/profile"},
	"memopt/planner/cluster":            {"memopt/internal/graph", "memopt/internal/stop", "memopt/internal/visible"},
	"memopt/planner/flow":               {"memopt/internal/stop"},
	"memopt/planner/forms":              {"memopt/internal/graph", "memopt/internal/stop", "memopt/internal/weights", "memopt/planner", "memopt/planner/cluster", "memopt/planner/planfile", "memopt/planner/shrink"},
	"memopt/planner/formulas":           {"memopt/internal/graph", "memopt/internal/stop"},
	"memopt/planner/internal/answer":    {"memopt/planner/recompute"},
	"memopt/planner/internal/numbers":   {},
	"memopt/planner/launch":             {"memopt/internal/graph", "memopt/internal/schedule", "memopt/internal/stop", "memopt/planner/operators", "memopt/planner/outside"},
	"memopt/planner/limits":             {},
	"memopt/planner/mixes":              {"memopt/internal/stop"},
	"memopt/planner/moving":             {},
	"memopt/planner/operators":          {"memopt/internal/graph", "memopt/planner/profile"},
	"memopt/planner/outside":            {"memopt/internal/graph", "memopt/internal/schedule", "memopt/planner/moving", "memopt/planner/profile"},
	"memopt/planner/pack":               {"memopt/internal/stop", "memopt/internal/visible"},
	"memopt/planner/planfile":           {"memopt/internal/graph", "memopt/internal/stop", "memopt/internal/visible", "memopt/internal/whole", "memopt/planner", "memopt/planner/cluster", "memopt/planner/formulas", "memopt/planner/profile"},
	"memopt/planner/profile":            {"memopt/internal/graph", "memopt/internal/whole"},
	"memopt/planner/recompute":          {"memopt/internal/stop", "memopt/planner/flow", "memopt/planner/internal/numbers", "memopt/planner/mixes"},
	"memopt/planner/rewrite":            {"memopt/internal/graph"},
	"memopt/planner/shrink":             {"memopt/internal/graph", "memopt/internal/stop"},
	"memopt/plugin":                     {"memopt/internal/visible", "memopt/internal/weights", "memopt/plugin/pb"},
	"memopt/plugin/host":                {"memopt/plugin", "memopt/plugin/pb"},
	"memopt/plugin/internal/echo":       {"memopt/plugin"},
	"memopt/plugin/internal/gen":        {"memopt/configs", "memopt/internal/fitwords", "memopt/internal/graph", "memopt/planner/forms", "memopt/planner/planfile", "memopt/planner/profile"},
	"memopt/plugin/internal/testserver": {"memopt/plugin/internal/echo"},
	"memopt/plugin/pb":                  {},
	"memopt/memopt":                     {"memopt/configs", "memopt/internal/schedule", "memopt/internal/stop", "memopt/internal/weights", "memopt/kernels/vulkan", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/leak", "memopt/memopt/phases", "memopt/memopt/step", "memopt/memopt/training", "memopt/planner", "memopt/planner/forms", "memopt/planner/planfile"},
	"memopt/memopt/devices":             {"memopt/configs", "memopt/internal/arena", "memopt/internal/graph", "memopt/internal/loader", "memopt/internal/schedule", "memopt/internal/spill", "memopt/internal/stop", "memopt/kernels", "memopt/kernels/cpu", "memopt/kernels/nodes", "memopt/kernels/vulkan", "memopt/kernels/vulkan/vk", "memopt/memopt/exit", "memopt/memopt/machine", "memopt/planner", "memopt/planner/profile"},
	"memopt/memopt/exit":                {"memopt/planner"},
	"memopt/memopt/export":              {"memopt/configs", "memopt/internal/bytesize", "memopt/internal/graph", "memopt/memopt/exit", "memopt/memopt/policy", "memopt/memopt/step", "memopt/planner", "memopt/planner/planfile"},
	"memopt/memopt/feed":                {"memopt/autograd", "memopt/configs", "memopt/internal/graph", "memopt/internal/tensorfile", "memopt/memopt/exit"},
	"memopt/memopt/fit":                 {"memopt/configs", "memopt/internal/bytesize", "memopt/planner", "memopt/planner/limits"},
	"memopt/memopt/forward":             {"memopt/configs", "memopt/internal/arena", "memopt/internal/bytesize", "memopt/internal/graph", "memopt/internal/joint", "memopt/internal/onnx", "memopt/internal/schedule", "memopt/internal/stop", "memopt/internal/tensorfile", "memopt/internal/weights", "memopt/internal/whole", "memopt/kernels", "memopt/kernels/vulkan", "memopt/kernels/vulkan/vk", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/feed", "memopt/memopt/fit", "memopt/memopt/machine", "memopt/memopt/phases", "memopt/memopt/quantize", "memopt/memopt/session", "memopt/planner"},
	"memopt/memopt/held":                {"memopt/autograd", "memopt/configs", "memopt/internal/graph", "memopt/internal/loader", "memopt/internal/schedule", "memopt/internal/stop", "memopt/internal/weights", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/machine", "memopt/memopt/step", "memopt/memopt/training", "memopt/planner", "memopt/planner/forms"},
	"memopt/memopt/lab/bench":           {"memopt/autograd", "memopt/internal/graph", "memopt/internal/joint", "memopt/internal/onnx", "memopt/internal/schedule", "memopt/internal/whole", "memopt/kernels", "memopt/kernels/cpu", "memopt/kernels/vulkan", "memopt/kernels/vulkan/vk", "memopt/memopt/lab/corpus", "memopt/memopt/lab/zoo", "memopt/memopt/report", "memopt/planner", "memopt/planner/pack", "memopt/planner/profile", "memopt/plugin/host", "memopt/plugin/pb"},
	"memopt/memopt/lab/corpus":          {"memopt/autograd", "memopt/internal/graph", "memopt/internal/joint", "memopt/kernels", "memopt/memopt/lab/zoo", "memopt/planner/pack"},
	"memopt/memopt/lab/verify":          {"memopt/internal/graph", "memopt/internal/onnx", "memopt/internal/schedule", "memopt/internal/visible", "memopt/kernels", "memopt/kernels/cpu", "memopt/planner"},
	"memopt/memopt/lab/zoo":             {"memopt/autograd", "memopt/internal/graph", "memopt/kernels/nodes"},
	"memopt/memopt/leak":                {"memopt/internal/arena", "memopt/internal/weights", "memopt/memopt/machine"},
	"memopt/memopt/load":                {"memopt/configs", "memopt/internal/bytesize", "memopt/internal/graph", "memopt/internal/joint", "memopt/internal/loader", "memopt/internal/onnx", "memopt/internal/stop", "memopt/internal/weights", "memopt/kernels", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/fit", "memopt/memopt/forward", "memopt/memopt/machine", "memopt/planner"},
	"memopt/memopt/machine":             {"memopt/configs", "memopt/internal/arena", "memopt/memopt/exit", "memopt/planner"},
	"memopt/memopt/phases":              {"memopt/configs", "memopt/internal/arena", "memopt/internal/graph", "memopt/internal/loader", "memopt/internal/schedule", "memopt/internal/tensorfile", "memopt/kernels", "memopt/kernels/vulkan", "memopt/kernels/vulkan/vk", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/feed", "memopt/memopt/machine", "memopt/memopt/session"},
	"memopt/memopt/policy":              {"memopt/internal/whole", "memopt/planner", "memopt/planner/profile"},
	"memopt/memopt/quantize":            {"memopt/internal/graph", "memopt/internal/onnx", "memopt/internal/stop"},
	"memopt/memopt/report":              {"memopt/internal/bytesize", "memopt/internal/fitwords", "memopt/internal/loader", "memopt/internal/schedule", "memopt/internal/visible", "memopt/planner", "memopt/planner/formulas", "memopt/planner/planfile"},
	"memopt/memopt/session":             {"memopt/internal/arena", "memopt/internal/graph", "memopt/internal/loader", "memopt/internal/onnx", "memopt/internal/schedule", "memopt/internal/stop", "memopt/internal/weights", "memopt/kernels", "memopt/kernels/cpu", "memopt/planner"},
	"memopt/memopt/step":                {"memopt/autograd", "memopt/configs", "memopt/internal/bytesize", "memopt/internal/fitwords", "memopt/internal/graph", "memopt/internal/joint", "memopt/internal/loader", "memopt/internal/onnx", "memopt/internal/schedule", "memopt/internal/stop", "memopt/internal/visible", "memopt/internal/weights", "memopt/internal/whole", "memopt/kernels", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/feed", "memopt/memopt/fit", "memopt/memopt/machine", "memopt/memopt/phases", "memopt/memopt/policy", "memopt/planner", "memopt/planner/chains", "memopt/planner/cluster", "memopt/planner/forms", "memopt/planner/planfile", "memopt/planner/profile"},
	"memopt/memopt/training":            {"memopt/autograd", "memopt/configs", "memopt/internal/compare", "memopt/internal/graph", "memopt/internal/loader", "memopt/internal/onnx", "memopt/internal/schedule", "memopt/internal/stop", "memopt/internal/tensorfile", "memopt/internal/visible", "memopt/internal/weights", "memopt/internal/whole", "memopt/kernels/cpu", "memopt/kernels/vulkan", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/feed", "memopt/memopt/machine", "memopt/memopt/phases", "memopt/memopt/step", "memopt/planner", "memopt/planner/chains", "memopt/planner/forms", "memopt/planner/planfile"},
	"memopt/cmd/memopt":                 {"memopt/configs", "memopt/internal/compare", "memopt/internal/fitwords", "memopt/internal/graph", "memopt/internal/loader", "memopt/internal/onnx", "memopt/internal/schedule", "memopt/internal/stop", "memopt/internal/tensorfile", "memopt/internal/visible", "memopt/internal/weights", "memopt/internal/whole", "memopt/kernels", "memopt/memopt", "memopt/memopt/devices", "memopt/memopt/exit", "memopt/memopt/export", "memopt/memopt/forward", "memopt/memopt/held", "memopt/memopt/lab/bench", "memopt/memopt/lab/verify", "memopt/memopt/lab/zoo", "memopt/memopt/load", "memopt/memopt/machine", "memopt/memopt/phases", "memopt/memopt/report", "memopt/memopt/session", "memopt/memopt/step", "memopt/memopt/training", "memopt/planner", "memopt/planner/chains", "memopt/planner/pack", "memopt/planner/planfile", "memopt/planner/profile", "memopt/plugin"},
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = ".."
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestImports(t *testing.T) {
	folder := func(path string) string { return strings.Split(path, "/")[1] }
	floor := map[string]int{}
	for i, folders := range floors {
		for _, name := range folders {
			floor[name] = i
		}
	}
	for line := range strings.Lines(command(t, "go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...")) {
		fields := strings.Fields(line)
		allowed, listed := mayImport[fields[0]]
		if !listed {
			t.Errorf("package %s is not in the table of rooms", fields[0])
		}
		for _, imp := range fields[1:] {
			if !strings.HasPrefix(imp, "memopt/") {
				continue
			}
			if !slices.Contains(allowed, imp) {
				t.Errorf("%s imports %s, which the table of rooms does not allow", fields[0], imp)
			}
			if from, to := folder(fields[0]), folder(imp); from != to && floor[to] >= floor[from] {
				t.Errorf("%s imports %s, which is on no lower floor", fields[0], imp)
			}
		}
	}
}

// mayName are the places beside kernels that name operators, and why: what others know of
// an operator are its facets (graph.Op).
var mayName = map[string]string{
	"planner/cluster":                 "tables of ONNX Runtime's memory optimizer",
	"memopt/quantize":                 "ONNX Runtime's tables of dynamic and static quantization, and the nodes that files get",
	"internal/onnx/names.go":          "which inputs of ONNX's operators are weights, in files that do not say",
	"internal/onnx/fxnode.go":         "which of PyTorch's operators an exported node came from",
	"internal/onnx/apart.go":          "nodes that files get, and layers whose weights the exporter reorders",
	"internal/onnx/raise.go":          "which operators ONNX changed, by opset",
	"internal/onnx/shapes.go":         "formulas of dims as nodes of a file",
	"memopt/lab/bench/cpu.go":         "rows of measurements",
	"memopt/lab/bench/vulkancases.go": "rows of measurements",
	"memopt/lab/bench/plugin.go":      "rows of measurements",
}

// TestOperatorNames: no package but kernels mentions an operator by name.
func TestOperatorNames(t *testing.T) {
	names := map[string]bool{}
	for _, op := range kernels.Library.All() {
		names[op.Name], names[op.FullName()] = true, true
	}
	delete(names, "Size") // a kind of setting
	used := map[string]bool{}
	fset := token.NewFileSet()
	for line := range strings.Lines(command(t, "git", "ls-files", "*.go")) {
		path := strings.TrimSpace(line)
		if strings.HasPrefix(path, "kernels/") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join("..", path), nil, 0)
		if err != nil {
			continue // deleted, not yet committed
		}
		place := path
		if _, ok := mayName[place]; !ok {
			place = filepath.ToSlash(filepath.Dir(path))
		}
		ast.Inspect(f, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(l.Value); err == nil && names[text] {
				if used[place] = true; mayName[place] == "" {
					t.Errorf("%s names the operator %s: ask for a facet of graph.Op, or build with kernels/nodes", fset.Position(l.Pos()), text)
				}
			}
			return true
		})
	}
	for place := range mayName {
		if !used[place] {
			t.Errorf("%s names no operator any more", place)
		}
	}
}

// mayStart are the files that start goroutines, and why these need no stop.Go: none but the first two
// reads bytes of a model.
var mayStart = map[string]string{
	"internal/stop/stop.go":            "stop.Go itself",
	"kernels/cpu/pool.go":              "workers, whose faults are panics of the caller",
	"internal/loader/loader.go":        "a device copies from its own ring",
	"internal/loader/recorder.go":      "a clock",
	"kernels/cpu/copier.go":            "copies of the arena and of optimizer states, which no file is mapped in",
	"memopt/machine/anonymous.go":      "a clock",
	"internal/whole/pending.go":        "waits for the disk",
	"memopt/lab/bench/cpu.go":          "copies of memory",
	"memopt/lab/bench/plannerclock.go": "a clock",
	"plugin/watch_linux.go":            "waits for the host's end",
	"plugin/watch.go":                  "waits for the host's end",
	"plugin/serve.go":                  "waits for signals and calls",
	"plugin/internal/echo/echo.go":     "panics on purpose",
	"cmd/memopt/progress.go":           "a clock",
	"cmd/memopt/interrupt.go":          "waits for signals",
}

// TestGoroutines: a model's file may be truncated while it is read. A goroutine that stop.Go starts
// survives that; another may end the process.
func TestGoroutines(t *testing.T) {
	used := map[string]bool{}
	fset := token.NewFileSet()
	for line := range strings.Lines(command(t, "git", "ls-files", "*.go")) {
		path := strings.TrimSpace(line)
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join("..", path), nil, 0)
		if err != nil {
			continue // deleted, not yet committed
		}
		ast.Inspect(f, func(n ast.Node) bool {
			starts := false
			switch n := n.(type) {
			case *ast.GoStmt:
				starts = true
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
					x, ok := s.X.(*ast.Ident)
					starts = !ok || x.Name != "stop"
				}
			}
			if starts {
				if used[path] = true; mayStart[path] == "" {
					t.Errorf("%s starts a goroutine: use stop.Go, which survives a file that is truncated", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
	for path := range mayStart {
		if !used[path] {
			t.Errorf("%s starts no goroutine any more: take it out of the table", path)
		}
	}
}

// TestFloors: the list of floors in docs/architecture.md has every package, each above all that it imports.
func TestFloors(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("## Who imports whom\n"))
	_, text, _ = bytes.Cut(text, []byte("```text\n"))
	text, _, _ = bytes.Cut(text, []byte("```"))
	floor, at := map[string]int{}, 0
	for _, word := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			at = n
		} else {
			floor["memopt/"+word] = at
		}
	}
	packages := strings.Split(strings.TrimSpace(command(t, "go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...")), "\n")
	for _, line := range packages {
		fields := strings.Fields(line)
		if floor[fields[0]] == 0 {
			t.Errorf("%s is on no floor", fields[0])
		}
		for _, imp := range fields[1:] {
			if strings.HasPrefix(imp, "memopt/") && floor[imp] >= floor[fields[0]] {
				t.Errorf("%s on floor %d imports %s on floor %d", fields[0], floor[fields[0]], imp, floor[imp])
			}
		}
	}
	if len(floor) != len(packages) {
		t.Errorf("%d packages are on floors, and there are %d", len(floor), len(packages))
	}
}

// TestWalks: the files that docs/architecture.md has a reader open exist, have what it says, and are no more than it says.
func TestWalks(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("## Five walks\n"))
	text, _, _ = bytes.Cut(text, []byte("\n## "))
	title := regexp.MustCompile(`^\*\*(.+)\*\* \(at most (\d+) files\)`)
	row := regexp.MustCompile("^\\| `([^`]+)` \\| `(\\w+)` \\|")
	walks, files := map[string]int{}, map[string]int{}
	walk := ""
	for line := range strings.Lines(string(text)) {
		if m := title.FindStringSubmatch(line); m != nil {
			walk = m[1]
			walks[walk], _ = strconv.Atoi(m[2])
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		files[walk]++
		source, err := os.ReadFile(filepath.Join("..", m[1]))
		if err != nil || !regexp.MustCompile(`\b`+m[2]+`\b`).Match(source) {
			t.Errorf("%s: %s has no %s: %v", walk, m[1], m[2], err)
		}
	}
	if len(walks) != 5 {
		t.Errorf("there are %d walks", len(walks))
	}
	for walk, most := range walks {
		if n := files[walk]; n == 0 || n > most {
			t.Errorf("%s takes %d files, at most %d", walk, n, most)
		}
	}
}

func TestVet(t *testing.T) { command(t, "go", "vet", "./...") }

func TestStaticcheck(t *testing.T) { command(t, "go", "tool", "staticcheck", "./...") }

// platforms are those that everything builds for, without C: what stands in for assembly
// and for Linux's calls is compiled nowhere else.
var platforms = []string{"linux/arm64", "darwin/arm64", "darwin/amd64", "windows/amd64"}

func TestPlatforms(t *testing.T) {
	if os.Getenv("MEMOPT_TEST_LONG") == "" {
		t.Skip("builds everything four times; MEMOPT_TEST_LONG=1 runs it")
	}
	for _, p := range platforms {
		t.Run(p, func(t *testing.T) {
			system, processor, _ := strings.Cut(p, "/")
			for _, what := range []string{"build", "vet"} { // which compiles tests too
				if what == "vet" && system == "windows" {
					break // some tests count processor time as Unix does
				}
				c := exec.Command("go", what, "./...")
				c.Dir, c.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("go %s: %v\n%s", what, err, out)
				}
			}
		})
	}
}

func TestFormat(t *testing.T) {
	if out := command(t, "gofmt", "-l", "."); out != "" {
		t.Errorf("gofmt would change:\n%s", out)
	}
}

// TestComments: every exported name says what it is.
func TestComments(t *testing.T) {
	fset := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "testdata" || d.Name() == "pb") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			for _, name := range uncommented(d) {
				t.Errorf("%s: exported %s has no comment", fset.Position(d.Pos()), name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func uncommented(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedType(d.Recv.List[0].Type)) && !standard[d.Name.Name] {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// standard methods say what they do by their names.
var standard = map[string]bool{"Error": true, "String": true, "Unwrap": true, "ExitCode": true}

func exportedType(e ast.Expr) bool {
	if s, ok := e.(*ast.StarExpr); ok {
		e = s.X
	}
	id, ok := e.(*ast.Ident)
	return ok && id.IsExported()
}

// TestNoLeftovers keeps words out that would speak of anything but the project.
func TestNoLeftovers(t *testing.T) {
	for line := range strings.Lines(command(t, "git", "ls-files")) {
		path := strings.TrimSpace(line)
		if strings.Contains(path, "testdata/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			continue // deleted, not yet committed
		}
		for _, word := range []string{"TO" + "DO", "FIX" + "ME", "/home" + "/", "/root" + "/"} {
			if strings.Contains(string(data), word) {
				t.Errorf("%s holds %q", path, word)
			}
		}
	}
}

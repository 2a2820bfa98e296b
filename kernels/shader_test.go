package kernels

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/kernels/internal/spirv"
	"memopt/kernels/lower"
)

// compilerFlags are what every shader is compiled with. The optimizer comes behind
// it, by itself and in two runs: it fuses products and sums of floats that are not
// marked, and what it copies in unrolling loops has no marks.
var (
	compilerFlags = []string{"-O0", "--target-env=vulkan1.2"}
	unrollerFlags = []string{"--wrap-opkill", "--eliminate-dead-branches", "--merge-return", "--inline-entry-points-exhaustive", "--eliminate-dead-functions",
		"--private-to-local", "--eliminate-local-single-block", "--eliminate-local-single-store", "--eliminate-dead-code-aggressive",
		"--scalar-replacement=100", "--convert-local-access-chains", "--eliminate-local-single-block", "--eliminate-local-single-store",
		"--ssa-rewrite", "--eliminate-dead-code-aggressive", "--ccp", "--loop-unroll", "--target-env=vulkan1.2"}
	optimizerFlags = []string{"-O", "--target-env=vulkan1.2"}
)

const shaderManifest = "lower/spv/MANIFEST"

// compiler is a glslc and a spirv-opt.
type compiler struct {
	run      []string // what runs them
	packages string   // what brings them
}

var (
	plainCompiler = compiler{packages: "packages glslc and spirv-tools"}
	// newestCompiler is for shaders that ask for more than Debian 12's knows.
	newestCompiler = compiler{run: []string{"../.ci/vulkan", "--newest"}, packages: "Debian's newest, which .ci/vulkan unpacks"}
)

// compilerFor is the one that a shader's text wants.
func compilerFor(text string) compiler {
	if strings.Contains(text, "GL_KHR_cooperative_matrix") {
		return newestCompiler
	}
	return plainCompiler
}

func (c compiler) command(tool string, args ...string) *exec.Cmd {
	all := slices.Concat(c.run, []string{tool}, args)
	return exec.Command(all[0], all[1:]...)
}

// version is what the two say that they are.
func (c compiler) version(t *testing.T) string {
	var all []string
	for _, tool := range []string{"glslc", "spirv-opt"} {
		out, err := c.command(tool, "--version").CombinedOutput() // spirv-opt says it on the second
		first, _, _ := strings.Cut(string(out), "\n")
		if err != nil || first == "" {
			t.Fatalf("compiling shaders needs %s (%s), and its version: %v", tool, c.packages, err)
		}
		all = append(all, first)
	}
	return strings.Join(all, ", ")
}

// updating is the flag -update, which the package's outer tests declare.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// TestShaders: what is embedded is what the sources make. The manifest has a
// hash of each one's source and arguments, so a stale shader is seen where
// there is no compiler, too; -update compiles all that have changed. A shader of
// another compiler than the rest has that behind its hash, and is only compiled
// when it has changed itself: not everybody has that one.
func TestShaders(t *testing.T) {
	have, versions := map[string]string{}, map[string]string{}
	old, err := os.ReadFile(shaderManifest)
	if err != nil && !updating() {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(old)), "\n")
	for _, line := range lines[1:] {
		if name, rest, ok := strings.Cut(line, " "); ok {
			hash, version, _ := strings.Cut(rest, " ")
			have[name], versions[name] = hash, version
		}
	}
	plain := lines[0]
	if updating() {
		plain = plainCompiler.version(t)
	}
	all := slices.SortedFunc(slices.Values(lower.Shaders()), func(a, b lower.Source) int { return strings.Compare(a.Kernel.Name, b.Kernel.Name) })
	manifest := plain + "\n"
	names := map[string]bool{filepath.Base(shaderManifest): true}
	for i, s := range all {
		if i > 0 && all[i-1].Kernel.Name == s.Kernel.Name {
			t.Errorf("two shaders are called %s", s.Kernel.Name)
		}
		text := shaderText(t, s)
		path, version := "lower/spv/"+s.Kernel.Name+".spv", plain
		hashed := func() string {
			return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(slices.Concat([]string{version, text}, compilerFlags, unrollerFlags, optimizerFlags, s.Args), "\x00"))))
		}
		named := ""
		if c := compilerFor(text); c.run != nil {
			version = versions[s.Kernel.Name]
			if updating() && have[s.Kernel.Name] != hashed() {
				version = c.version(t)
			}
			named = " " + version
		}
		hash := hashed()
		names[s.Kernel.Name+".spv"] = true
		switch code, err := os.ReadFile(path); {
		case updating() && (err != nil || have[s.Kernel.Name] != hash):
			compileShader(t, s, text, path)
		case err != nil || !bytes.Equal(code, s.Kernel.Code()):
			t.Errorf("%s is not what is embedded: %v", path, err)
		case have[s.Kernel.Name] != hash:
			t.Errorf("%s is stale: run go generate ./kernels", path)
		}
		manifest += s.Kernel.Name + " " + hash + named + "\n"
	}
	files, err := os.ReadDir("lower/spv")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if names[f.Name()] {
			continue
		}
		if !updating() {
			t.Errorf("lower/spv/%s is of no shader", f.Name())
		} else if err := os.Remove("lower/spv/" + f.Name()); err != nil {
			t.Error(err)
		}
	}
	if updating() && !t.Failed() {
		if err := os.WriteFile(shaderManifest, []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func shaderText(t *testing.T, s lower.Source) string {
	text, err := os.ReadFile("lower/" + s.File)
	if err != nil {
		t.Fatal(err)
	}
	if s.Edit == nil {
		return string(text)
	}
	return s.Edit(string(text))
}

// compileShader compiles, marks what must not be fused, and optimizes.
func compileShader(t *testing.T, s lower.Source, text, to string) {
	pipe := func(in []byte, tool string, args ...string) []byte {
		var out, said bytes.Buffer
		c := compilerFor(text).command(tool, args...)
		c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &said
		if err := c.Run(); err != nil {
			t.Errorf("%s: %s: %v\n%s", s.Kernel.Name, tool, err, said.Bytes())
		}
		return out.Bytes()
	}
	code := pipe([]byte(text), "glslc", slices.Concat(compilerFlags, s.Args, []string{"-fshader-stage=compute", "-o", "-", "-"})...)
	if t.Failed() {
		return
	}
	passes := [][]string{unrollerFlags, optimizerFlags}
	if s.Library {
		code, passes = spirv.Exact(code), nil
	}
	for _, flags := range passes {
		code = pipe(code, "spirv-opt", slices.Concat(flags, []string{"-o", "-", "-"})...)
		if t.Failed() {
			return
		}
		code = spirv.Exact(code)
	}
	if err := os.WriteFile(to, code, 0o644); err != nil {
		t.Error(err)
	}
}

// TestNothingFuses: what lies in lower/spv computes floats as it is written.
func TestNothingFuses(t *testing.T) {
	rounding := 0
	for _, s := range lower.Shaders() {
		all, loose := spirv.Roundings(s.Kernel.Code())
		if rounding += all; loose > 0 {
			t.Errorf("%s: a driver may fuse %d operations", s.Kernel.Name, loose)
		}
		if spirv.Fuses(s.Kernel.Code()) && !strings.Contains(shaderText(t, s), "fma(") {
			t.Errorf("%s: a product and a sum are fused, and its source does not say so", s.Kernel.Name)
		}
	}
	if rounding < 1000 {
		t.Errorf("only %d operations were seen", rounding)
	}
}

// largestShader is the most bytes that a shader may have: drivers for the
// processor have crashed on code that was made by unrolling without end.
const largestShader = 256 << 10

// TestShaderSizes: no shader is so large that drivers fail on it.
func TestShaderSizes(t *testing.T) {
	for _, s := range lower.Shaders() {
		if n := len(s.Kernel.Code()); n == 0 || n > largestShader {
			t.Errorf("%s has %d bytes; at most %d", s.Kernel.Name, n, largestShader)
		}
	}
}

// TestSubgroupsWhole: no shader asks a whole subgroup for something where only some of its
// lanes may have come, for each team of a row (team.glsl) and owner of a line.
func TestSubgroupsWhole(t *testing.T) {
	asked := 0
	for _, s := range lower.Shaders() {
		forms := []map[uint32]uint32{nil}
		switch text := shaderText(t, s); {
		case strings.Contains(text, "join("):
			forms = nil
			for _, team := range []uint32{1, 32, 256} {
				forms = append(forms, map[uint32]uint32{0: 256, 1: team, 2: 4, 3: 32}, map[uint32]uint32{0: 256, 1: team, 2: 0, 3: 32, 12: 1},
					map[uint32]uint32{0: 256, 1: team, 2: 4, 3: 32, 11: 100, 12: 1})
			}
		case strings.Contains(text, "ALONG"): // whether a subgroup or a lane owns a line
			forms = []map[uint32]uint32{{1: 0}, {1: 1}}
		}
		for _, form := range forms {
			n, partly := spirv.Subgroups(s.Kernel.Code(), form)
			asked += n
			for _, p := range partly {
				t.Errorf("%s, %v: %s", s.Kernel.Name, form, p)
			}
		}
	}
	if asked < 100 {
		t.Errorf("only %d instructions for subgroups were found", asked)
	}
}

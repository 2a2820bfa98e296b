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

const shaderManifest = "spv/MANIFEST"

// updating is the flag -update, which the package's outer tests declare.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// TestShaders: what is embedded is what the sources make. The manifest has a
// hash of each one's source and arguments, so a stale shader is seen where
// there is no compiler, too; -update compiles all that have changed.
func TestShaders(t *testing.T) {
	have := map[string]string{}
	old, err := os.ReadFile(shaderManifest)
	if err != nil && !updating() {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(old)), "\n")
	for _, line := range lines[1:] {
		if name, hash, ok := strings.Cut(line, " "); ok {
			have[name] = hash
		}
	}
	version := lines[0]
	if updating() {
		version = toolVersion(t, "glslc") + ", " + toolVersion(t, "spirv-opt")
	}
	all := slices.SortedFunc(slices.Values(shaders), func(a, b shaderSource) int { return strings.Compare(a.kernel.Name, b.kernel.Name) })
	manifest := version + "\n"
	names := map[string]bool{filepath.Base(shaderManifest): true}
	for i, s := range all {
		if i > 0 && all[i-1].kernel.Name == s.kernel.Name {
			t.Errorf("two shaders are called %s", s.kernel.Name)
		}
		text := shaderText(t, s)
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(slices.Concat([]string{version, text}, compilerFlags, unrollerFlags, optimizerFlags, s.args), "\x00"))))
		path := "spv/" + s.kernel.Name + ".spv"
		names[s.kernel.Name+".spv"] = true
		switch code, err := os.ReadFile(path); {
		case updating() && (err != nil || have[s.kernel.Name] != hash):
			compileShader(t, s, text, path)
		case err != nil || !bytes.Equal(code, s.kernel.Code):
			t.Errorf("%s is not what is embedded: %v", path, err)
		case have[s.kernel.Name] != hash:
			t.Errorf("%s is stale: run go generate ./kernels", path)
		}
		manifest += s.kernel.Name + " " + hash + "\n"
	}
	files, err := os.ReadDir("spv")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if names[f.Name()] {
			continue
		}
		if !updating() {
			t.Errorf("spv/%s is of no shader", f.Name())
		} else if err := os.Remove("spv/" + f.Name()); err != nil {
			t.Error(err)
		}
	}
	if updating() && !t.Failed() {
		if err := os.WriteFile(shaderManifest, []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func shaderText(t *testing.T, s shaderSource) string {
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	if s.edit == nil {
		return string(text)
	}
	return s.edit(string(text))
}

// toolVersion is the first line of what a tool says that it is.
func toolVersion(t *testing.T, tool string) string {
	out, err := exec.Command(tool, "--version").Output()
	if err != nil {
		t.Fatalf("compiling shaders needs %s (packages glslc and spirv-tools): %v", tool, err)
	}
	version, _, _ := strings.Cut(string(out), "\n")
	return version
}

// compileShader compiles, marks what must not be fused, and optimizes.
func compileShader(t *testing.T, s shaderSource, text, to string) {
	pipe := func(in []byte, tool string, args ...string) []byte {
		var out, said bytes.Buffer
		c := exec.Command(tool, args...)
		c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &said
		if err := c.Run(); err != nil {
			t.Errorf("%s: %s: %v\n%s", s.kernel.Name, tool, err, said.Bytes())
		}
		return out.Bytes()
	}
	code := pipe([]byte(text), "glslc", slices.Concat(compilerFlags, s.args, []string{"-fshader-stage=compute", "-o", "-", "-"})...)
	if t.Failed() {
		return
	}
	passes := [][]string{unrollerFlags, optimizerFlags}
	if s.library {
		code, passes = marked(code), nil
	}
	for _, flags := range passes {
		code = pipe(code, "spirv-opt", slices.Concat(flags, []string{"-o", "-", "-"})...)
		if t.Failed() {
			return
		}
		code = marked(code)
	}
	if err := os.WriteFile(to, code, 0o644); err != nil {
		t.Error(err)
	}
}

package kernels

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"memopt/kernels/internal/spirv"
	"memopt/kernels/lower"
)

// TestAddressedForms: every kernel with push constants has a form for addresses, and
// it is valid.
func TestAddressedForms(t *testing.T) {
	validator, err := exec.LookPath("spirv-val")
	if err != nil {
		t.Skip(err)
	}
	valid := func(name string, code []byte) {
		path := filepath.Join(t.TempDir(), "kernel.spv")
		if err := os.WriteFile(path, code, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(validator, "--target-env", "vulkan1.2", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	without := 0
	for _, s := range lower.Shaders() {
		if s.Library || compilerFor(shaderText(t, s)).run != nil {
			continue
		}
		code := spirv.Addressed(s.Kernel.Code())
		if code == nil {
			without++
			continue
		}
		if n := len(spirv.Bindings(code)); n > 0 {
			t.Errorf("%s still binds %d buffers", s.Kernel.Name, n)
		}
		valid(s.Kernel.Name, code)
	}
	if without != 1 {
		t.Errorf("%d kernels have no form for addresses; count has no push constants", without)
	}
}

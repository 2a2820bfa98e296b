package vulkan

import (
	"os"
	"path/filepath"
	"testing"

	"memopt/kernels/vulkan/vk"
)

// TestMayBe: a graphics processor is seen by its node, and where none is seen Vulkan
// has none either.
func TestMayBe(t *testing.T) {
	for _, c := range []struct {
		node string
		is   bool
	}{{"null", false}, {"dri/renderD128", true}, {"nvidia0", true}, {"nvhost-gpu", true}, {"dxg", true}, {"kgsl-3d0", true}, {"mali0", true}} {
		folder := t.TempDir()
		path := filepath.Join(folder, c.node)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if mayBe(folder) != c.is {
			t.Errorf("%s: %v", c.node, !c.is)
		}
	}
	if mayBe("/dev") {
		return
	}
	if p, err := Choose(""); err == nil && (p.Kind == vk.Discrete || p.Kind == vk.Integrated) {
		t.Errorf("%s is a graphics processor, but has no node that is known", p.Name)
	}
}

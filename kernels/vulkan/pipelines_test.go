package vulkan_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
)

// TestKeptPipelines: what a driver compiles is kept in one file, read again, and made again where the file is broken.
func TestKeptPipelines(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("MEMOPT_VULKAN_PIPELINES", folder)
	run := func() {
		d, in := openedWith(t, vulkan.Options{}, "x f32[8, 8] = input\nz = MatMul(x, x) @m\noutput z\n")
		if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	kept := must(os.ReadFile(files[0]))
	run()
	if again := must(os.ReadFile(files[0])); len(again) != len(kept) {
		t.Errorf("%d bytes were kept of one kernel, and then %d", len(kept), len(again))
	}
	broken := bytes.Clone(kept)
	broken[len(broken)-1] ^= 1
	if err := os.WriteFile(files[0], broken, 0o600); err != nil {
		t.Fatal(err)
	}
	run()
	if again := must(os.ReadFile(files[0])); bytes.Equal(again, broken) {
		t.Error("a broken file stays")
	}
}

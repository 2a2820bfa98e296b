package configs

import (
	"slices"
	"testing"
)

// TestStrayEnv: mistyped names are reported with the name that was meant; variables that are not
// settings, and those that only ONNX Runtime uses, are ignored.
func TestStrayEnv(t *testing.T) {
	got := StrayEnv([]string{
		"PATH=/bin", "MEMOPT_BUDGET=1GiB", "MEMOPT_DEVICE=", "ORTMODULE_MEMORY_OPT_LEVEL=1", "ORTMODULE_MEMORY_OPT_PROBE_RECOMPUTE_LEVEL=1",
		"MEMOPT_PLUGIN_PATH=x", "MEMOPT_PYTHON=x", "MEMOPT_TEST_LONG=1", "MEMOPT_TEST_VULKAN=1", "MEMOPT_NEED_VULKAN=1", "MEMOPT_PARENT_PID=1",
		"MEMOPT_VULKAN_LIBRARY=x", "MEMOPT_VULKAN_VALIDATE=1", "MEMOPT_VULKAN_HIDDEN=1", "MEMOPT_VULKAN_GROUPS=1", "MEMOPT_WHEEL_PLATFORM=x", "MEMOPT_TEST_SOLVER=x",
		"ORTMODULE_FALLBACK_POLICY=x", "ORTMODULE_USE_TRITON=1", "ORTMODULE_CACHE_DIR=x", "ORTMODULE_ENABLE_COMPUTE_OPTIMIZER=1", "ORTMODULE_SKIPCHECK_POLICY=x",
		"ORTMODULE_ENABLE_EMBEDDING_SPARSE_OPTIMIZER=1", "ORTMODULE_DEEPCOPY_BEFORE_MODEL_EXPORT=1", "ORTMODULE_MEMORY_OPT_CONFG=x", "MEMOPT_BUGDET=1GiB", "MEMOPT_DEVCE=cpu", "MEMOPT_DEVCIE=",
		"MEMOPT_LR=1", "MEMOPT_CONFIG=x", "MEMOPT_LEVEL=1", "memopt_budget=1",
	})
	want := []string{
		"MEMOPT_BUGDET is ignored, did you mean MEMOPT_BUDGET?",
		"MEMOPT_DEVCE is ignored, did you mean MEMOPT_DEVICE?",
		"ORTMODULE_MEMORY_OPT_CONFG is ignored, did you mean ORTMODULE_MEMORY_OPT_CONFIG?",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

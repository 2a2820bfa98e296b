package machine

import (
	"math"
	"strings"
	"testing"

	"memopt/configs"
)

// TestServiceBudget: what is asked for is held against the limit less what is in use, and
// a share is one of the machine's.
func TestServiceBudget(t *testing.T) {
	used := AnonymousMemory()
	defer Limit(configs.Budget{Bytes: used + 64<<20})()
	if err := Fits(32<<20, "the step", ""); err != nil {
		t.Error(err)
	}
	if err := Fits(128<<20, "the step", "; less fits"); err == nil || !strings.Contains(err.Error(), "the step takes 128 MiB of memory, and of the ") || !strings.Contains(err.Error(), "in use; less fits") {
		t.Errorf("128 MiB of 64: error %v", err)
	}
	if err := Fits(math.MaxInt64, "the step", ""); err == nil {
		t.Error("all the memory there could ever be fits")
	}
	Limit(configs.Budget{Percent: 50})
	if got, most := memoryLimit.Load(), Memory(); got < most/4 || got > most*3/4 {
		t.Errorf("50%% of %d bytes are %d", most, got)
	}
}

package planner_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain spares a seventh of the tests' time: planning makes much garbage, and no test here
// measures memory.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

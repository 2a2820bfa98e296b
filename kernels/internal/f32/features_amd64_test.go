package f32

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDebugSettingsTurnInstructionsOff: GODEBUG takes instruction sets away from a process, as another
// processor does; tests of other processors stand on that.
func TestDebugSettingsTurnInstructionsOff(t *testing.T) {
	if os.Getenv("MEMOPT_TEST_LEVELS") != "" {
		os.Stdout.WriteString("levels: " + strings.Join(Levels(), " ") + "\n")
		if vectors != (Levels()[0] != "go") || lanes != lanesOf(Levels()[0] == "avx512") {
			t.Errorf("%v: vectors %v of %d floats", Levels(), vectors, lanes)
		}
		return
	}
	under := func(setting string) []string {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "MEMOPT_TEST_LEVELS=1", "GODEBUG="+setting)
		out, err := cmd.CombinedOutput()
		_, after, found := strings.Cut(string(out), "levels: ")
		if err != nil || !found {
			t.Fatalf("GODEBUG=%s: %v\n%s", setting, err, out)
		}
		line, _, _ := strings.Cut(after, "\n")
		return strings.Fields(line)
	}
	all := under("")
	for setting, gone := range map[string][]string{
		"cpu.avx512f=off":             {"avx512"},
		"cpu.avx2=off":                {"avx512", "avx2"},
		"cpu.fma=off,cpu.avx512f=off": {"avx512", "avx2"},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(level string) bool { return slices.Contains(gone, level) })
		if got := under(setting); !slices.Equal(got, want) {
			t.Errorf("GODEBUG=%s leaves %v of %v, want %v", setting, got, all, want)
		}
	}
}

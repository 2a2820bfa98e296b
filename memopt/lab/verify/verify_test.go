package verify

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/internal/graph"
)

const (
	casesFile    = "testdata/onnx-node-1.23.2.zip"
	expectedFile = "testdata/expected.txt"
	looseReason  = "passed: within two units of the last place; equal bits would take a softmax that rounds every step to 16 bits, see TestHalfFloatsRoundedSoftmax"
	noiseReason  = "passed: within two units of the last place of the output's greatest number; where sums are 0 the expected numbers are what NumPy's rounding leaves"
)

// bars are how many cases each part has; all of them pass.
var bars = map[string]int{
	"core types": 619, "core types and small integers": 701, "all of these and half floats": 730, "8-bit floats": 54, "expanded graphs": 357,
	"PyTorch's layers": 80, "PyTorch's operators": 34, "preview gradients": 2,
}

// TestONNX runs the vendored node tests. Cases that do not pass are listed with
// their reasons, so that none is passed over in silence and none stays listed
// when it passes.
func TestONNX(t *testing.T) {
	cases, closer, err := OpenZip(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	report, err := Run(cases)
	if err != nil {
		t.Fatal(err)
	}
	if len(bars) != len(parts) {
		t.Errorf("%d bars for %d parts", len(bars), len(parts))
	}
	for _, p := range parts {
		passed, loose, total := p.count(report)
		t.Logf("%s: %d of %d, %d of them within %d units of 16-bit floats only", p.name, passed, total, loose, units)
		if bar := bars[p.name]; total != bar || passed < bar {
			t.Errorf("%s: %d of %d pass; %d should", p.name, passed, total, bar)
		}
	}
	t.Logf("all: %d of %d pass, %d fail, %d are not applicable", report.Count(Passed), len(report.Results), report.Count(Failed), report.Count(NotApplicable))
	listed := readList(t, expectedFile)
	if golden.Updating() {
		writeExpected(t, report, listed)
		return
	}
	for _, r := range report.Results {
		want, is := listed[r.Case]
		delete(listed, r.Case)
		switch {
		case r.Loose:
			if want != reasonOf(r) {
				t.Errorf("%s passes only loosely, but is listed as %q", r.Case, want)
			}
		case r.Outcome == Passed && is:
			t.Errorf("%s passes, but is listed (%s)", r.Case, want)
		case r.Outcome != Passed && !is:
			t.Errorf("%s is %s and not listed: %s", r.Case, r.Outcome, r.Reason)
		case r.Outcome != Passed && !strings.HasPrefix(want, r.Outcome.String()+": "):
			t.Errorf("%s is %s (%s), but listed as %s", r.Case, r.Outcome, r.Reason, want)
		case r.Outcome == NotApplicable && want != r.Outcome.String()+": "+r.Reason:
			t.Errorf("%s: the reason is %q, but listed as %q", r.Case, r.Reason, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("%s is listed, but there is no such case", name)
	}
}

// reasonOf is why a case passes only loosely.
func reasonOf(r Result) string {
	if slices.Contains(r.Types, graph.Float32) {
		return noiseReason
	}
	return looseReason
}

// readList reads a list of cases: on a line the case, two spaces and the reason.
func readList(t *testing.T, file string) map[string]string {
	src, err := os.ReadFile(file)
	if err != nil && !golden.Updating() {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, why, ok := strings.Cut(line, "  ")
		if _, twice := listed[name]; !ok || twice {
			t.Fatalf("%s: %q is not a case and a reason, or listed twice", file, line)
		}
		listed[name] = why
	}
	return listed
}

// writeExpected keeps the reasons that were given for failures: a wrong number
// is no reason.
func writeExpected(t *testing.T, report *Report, listed map[string]string) {
	var sb strings.Builder
	sb.WriteString("# The cases of " + casesFile + " that do not pass, or only loosely, with the reason.\n")
	for _, r := range report.Results {
		if r.Loose {
			fmt.Fprintf(&sb, "%s  %s\n", r.Case, reasonOf(r))
		}
		if r.Outcome == Passed {
			continue
		}
		why := fmt.Sprintf("%s: %s", r.Outcome, r.Reason)
		if old := listed[r.Case]; r.Outcome == Failed && strings.HasPrefix(old, Failed.String()+": ") {
			why = old
		}
		fmt.Fprintf(&sb, "%s  %s\n", r.Case, why)
	}
	if err := os.WriteFile(expectedFile, []byte(sb.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

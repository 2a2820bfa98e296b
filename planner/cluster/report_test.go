package cluster_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/planner/cluster"
)

var unsaved = regexp.MustCompile(`\[\(\(empty_dim_param\d+\).*?\)\]`)

// kinds takes a report apart: its blocks as text with what ONNX Runtime leaves
// to chance put in order, and how often each is there. A shape that the session
// inferred and did not save is unknown.
func kinds(report string) map[string]int {
	out := map[string]int{}
	freq, lines := 0, []string(nil)
	flush := func() {
		if lines != nil {
			slices.Sort(lines)
			out[strings.Join(lines, "\n")] += freq
		}
		lines = nil
	}
	option := ""
	for line := range strings.SplitSeq(report, "\n") {
		cell := strings.Split(line, "|")
		if len(cell) != 4 || strings.Contains(cell[1], "Freq") {
			continue
		}
		if strings.HasPrefix(cell[1], "_") {
			flush()
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(cell[1])); err == nil {
			freq, lines, option = n, []string{}, ""
		}
		text := unsaved.ReplaceAllString(strings.TrimSpace(cell[2]), "[unknown]")
		if strings.HasPrefix(text, ">>") {
			option = text[:len(">>Option 1")]
		}
		lines = append(lines, option+text)
	}
	return out
}

// TestReport: under Compat the node-level report is the recorded one, byte for
// byte where ONNX Runtime's has an order, else block by block.
func TestReport(t *testing.T) {
	exact := 0
	for _, r := range recordedBlocks(t, "testdata/ort/reports.txt") {
		level, boundary, _ := strings.Cut(r.what, ":")
		a := probe(t, byIndex(t, r.model), cluster.Rules{ProbeLevel: int(level[0] - '0'), Boundary: boundary == "1", Compat: "1.19"})
		got, want := a.Report(nil, ""), strings.Join(r.lines, "\n")+"\n"
		if diff := cmp.Diff(kinds(want), kinds(got)); diff != "" {
			t.Errorf("%s %s:\n%s", r.model, r.what, diff)
		}
		if strings.Contains(want, "Output 1") {
			continue
		}
		exact++
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s %s:\n%s", r.model, r.what, diff)
		}
	}
	if exact < 2 {
		t.Errorf("%d reports are compared byte for byte", exact)
	}
}

// TestReportStatus: what was asked for beside what was done. Upstream counts the
// places that match; we count those that are made again.
func TestReportStatus(t *testing.T) {
	asked := []cluster.Request{{ID: "Gelu+", Type: cluster.Full, Count: 1}, {ID: "Cast+", Type: cluster.Compromise, Count: -1}, {ID: "Expand+", Type: cluster.Full}}
	for compat, want := range map[string][]string{
		"1.19": {"Gelu+ Enabled, requested count=1, actual applied count=2", "Cast+ Enabled, requested count=-1, actual applied count=1", "Expand+ Disabled.", "Tile+Reshape+ Disabled."},
		"":     {"Gelu+ Enabled, requested count=1, actual applied count=1", "Cast+ Enabled, requested count=-1, actual applied count=1", "Expand+ Disabled.", "Tile+Reshape+ Disabled."},
	} {
		a := probe(t, training(t, "mlp"), cluster.Rules{ProbeLevel: 1, Compat: compat})
		report := a.Report(asked, "plans.json")
		if !strings.HasPrefix(report, "MemoryInsight Summary - User config file path: plans.json\n") {
			t.Errorf("the report begins with %.80s", report)
		}
		lines := strings.Split(report, "\n")
		for _, w := range want {
			id, status, _ := strings.Cut(w, " ")
			i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "subgraph "+id+" ") })
			if i < 0 || !strings.Contains(lines[i+1], ": "+status+" ") {
				t.Errorf("compat %q: %s is not there\n%s", compat, w, report)
			}
		}
	}
}

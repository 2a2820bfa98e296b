package fitwords

import (
	"strings"
	"testing"
)

// TestWords: each word has a name of its own, and what stands in braces is filled in by name, in any order.
func TestWords(t *testing.T) {
	known := map[string]bool{}
	for _, w := range Words {
		if known[w.Name] || w.Text == "" || w.Name != strings.ToUpper(w.Name) {
			t.Errorf("%q is %q", w.Name, w.Text)
		}
		known[w.Name] = true
	}
	if got := Fill(Beyond, "binds", "{floor}", "floor", "1 B", "peak", "3 B", "budget", "2 B"); got != "does not fit 2 B: 3 B as it is, and no plan goes below 1 B, set by {floor}" {
		t.Error(got)
	}
	var names []string
	for _, r := range Rungs() {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, "|"); got != "plan at no cost|plan within +5 %|plan within +10 %|plan within +30 %|lowest plan" {
		t.Error(got)
	}
}

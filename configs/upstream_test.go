package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesThatUpstreamMistakes: plan files that ONNX Runtime 1.19.2 rejects
// without a reason, or takes for something else, or drops in silence. Each is an
// error that names the place and the text, or is read for what it says; what no
// model has is for the planner to say.
func TestFilesThatUpstreamMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty file", "", `1:1: `},
		{"only blanks", " \n", `2:1: `},
		{"no end", `["Gelu+:1:-1"`, `1:1: '[' is never closed`},
		{"comma before the end", `["Gelu+:1:-1",]`, `1:14: comma before ']', remove it`},
		{"no JSON", `Gelu+:1:-1`, `1:1: `},
		{"object", `{"Gelu+":1}`, `1:2: unknown field "Gelu+"`},
		{"numbers", `[1,2]`, `1:2: element 0 is a number, need a cluster string like "BiasGelu+:1:-1"`},
		{"strategy 3", `["Gelu+:3:-1"]`, `1:9: "3" in "Gelu+:3:-1" is not a strategy, use 0 (off), 1 (recompute) or 2 (recompute with compromise)`},
		{"strategy -1", `["Gelu+:-1:-1"]`, `1:9: "-1" in "Gelu+:-1:-1" is not a strategy`},
		{"count -2", `["Gelu+:1:-2"]`, `1:11: "-2" in "Gelu+:1:-2" is not a count`},
		{"two parts", `["Gelu+:1"]`, `1:3: "Gelu+:1" has 2 of 3 parts`},
		{"four parts", `["Gelu+:1:-1:x"]`, `1:3: "Gelu+:1:-1:x" has 4 parts instead of 3`},
		{"blank before the strategy", `["Gelu+: 1:-1"]`, `1:9: ' ' in "Gelu+: 1:-1", remove it`},
		{"no number", `["Gelu+:1:x"]`, `1:11: "x" in "Gelu+:1:x" is not a count`},
		{"more than a number", `["Gelu+:1abc:-1"]`, `1:9: "1abc" in "Gelu+:1abc:-1" is not a strategy`},
		{"an empty part", `["Gelu+::1:-1"]`, `1:3: "Gelu+::1:-1" has 4 parts instead of 3`},
		{"blank in front", `[" Gelu+:1:-1"]`, `1:3: ' ' in " Gelu+:1:-1", remove it`},
		{"comma at the end of a string", `["Gelu+:1:-1,"]`, `: comma in "Gelu+:1:-1," with no request on one side, remove it`},
		{"a count beyond all numbers", `["Gelu+:1:99999999999"]`, `1:11: "99999999999" in "Gelu+:1:99999999999" is not a count`},
		{"twice the same", `["Gelu+:1:-1","Gelu+:1:2"]`, `1:16: "Gelu+:1" is asked for a second time, first at`},
		{"on another line", "[\n \"Mul+:1:-1\",\n  \"Gelu+:7:-1\"\n]", `3:10: "7" in "Gelu+:7:-1" is not a strategy`},

		{"nothing", `[]`, ""},
		{"an empty string", `[""]`, ""},
		{"unknown", `["Foo+:1:-1"]`, "Foo+:1:-1"},
		{"another strategy than any", `["Gelu+:2:-1"]`, "Gelu+:2:-1"},
		{"off", `["Gelu+:0:-1"]`, "Gelu+:0:-1"},
		{"two in a string", `["Gelu+:1:-1,Foo+:1:-1"]`, "Gelu+:1:-1,Foo+:1:-1"},
		{"both strategies of an ID", `["Cast+:1:-1","Cast+:2:-1"]`, "Cast+:1:-1,Cast+:2:-1"},
		{"none, one and three", `["A+:1:0","B+:1:1","C+:1:3"]`, "A+:1:0,B+:1:1,C+:1:3"},
	} {
		path := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := ParseFile(path)
		env, _, envErr := FromEnv(func(name string) (string, bool) { return path, name == configVariable })
		if strings.Contains(c.want, ": ") {
			want := c.want
			if want[0] >= '1' && want[0] <= '9' {
				want = path + ":" + want
			}
			for _, err := range []error{err, envErr} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want it to say %s", c.name, err, want)
				}
			}
			continue
		}
		if got := printRequests(cfg.Requests); err != nil || envErr != nil || got != c.want || printRequests(env.Requests) != got {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// TestWhatIsNoFile: a path without a file is said to be that, and the string that
// stood in its place before 1.19 is read.
func TestWhatIsNoFile(t *testing.T) {
	look := func(value string) func(string) (string, bool) {
		return func(name string) (string, bool) { return value, name == configVariable }
	}
	if _, _, err := FromEnv(look("nowhere/plan.json")); err == nil || !strings.Contains(err.Error(), `no file "nowhere/plan.json"`) {
		t.Error(err)
	}
	cfg, warnings, err := FromEnv(look("BiasGelu+:1:-1,Foo+:1:-1"))
	if got := printRequests(cfg.Requests); err != nil || got != "BiasGelu+:1:-1,Foo+:1:-1" || len(warnings) != 1 {
		t.Errorf("%q, %v, %v", got, warnings, err)
	}
	if _, _, err := FromEnv(look("BiasGelu+:7:-1")); err == nil || !strings.Contains(err.Error(), configVariable+`:1:11: "7"`) {
		t.Error(err)
	}
}

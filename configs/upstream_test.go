package configs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestUpstream runs testdata/upstream.txt: plan files and variables that ONNX Runtime 1.19.2
// rejects without a reason, misunderstands, or silently drops. The comments say what it was
// observed to do, the output is what memopt does, the same whether a flag or a variable names the
// file.
func TestUpstream(t *testing.T) {
	variable := regexp.MustCompile(`^[A-Z_]+=`)
	withoutComments(t, "upstream.txt", func(input string) string {
		if variable.MatchString(input) {
			env := map[string]string{}
			for line := range strings.Lines(input) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				env[name] = value
			}
			c, warnings, err := FromEnv(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
			return "ours: " + strings.Join(append([]string{show(c, err)}, warnings...), "warning: ")
		}
		text := input
		if s, err := strconv.Unquote(input); err == nil {
			text = s
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "plan.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := ParseFile(path)
		out := "reads " + strconv.Quote(printRequests(c.Requests))
		if err != nil {
			out = err.Error()
		}
		env, _, envErr := FromEnv(func(name string) (string, bool) { return path, name == configVariable })
		if (err == nil) != (envErr == nil) || err != nil && err.Error() != envErr.Error() || printRequests(env.Requests) != printRequests(c.Requests) {
			t.Errorf("%s: by a variable %v, %v", input, env.Requests, envErr)
		}
		return "ours: " + strings.ReplaceAll(out, dir+string(filepath.Separator), "")
	})
}

package configs

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"memopt/internal/golden"
)

// withoutComments runs a file of cases without their comment lines.
func withoutComments(t *testing.T, file string, run func(input string) string) {
	t.Helper()
	golden.Files(t, filepath.Join("testdata", file), func(t *testing.T, input string) string {
		var body []string
		for line := range strings.SplitSeq(input, "\n") {
			if !strings.HasPrefix(line, "# ") {
				body = append(body, line)
			}
		}
		return run(strings.Join(body, "\n"))
	})
}

// lines runs each line of a case by itself and puts the answers beside them. A line in quotes is
// unquoted, for invisible characters.
func lines(run func(string) string) func(string) string {
	return func(input string) string {
		width := 0
		for line := range strings.SplitSeq(input, "\n") {
			width = max(width, len(line))
		}
		var out strings.Builder
		for line := range strings.SplitSeq(input, "\n") {
			s, err := strconv.Unquote(line)
			if err != nil {
				s = line
			}
			out.WriteString(line + strings.Repeat(" ", width-len(line)) + "  " + run(s) + "\n")
		}
		return out.String()
	}
}

// show prints what was given in a config, and where.
func show(c Config, err error) string {
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, f := range rows {
		if from, ok := c.Source(f.Name); ok {
			out.WriteString(f.Name + " = " + f.print(&c) + "  (" + from.String() + ")\n")
		}
	}
	if out.Len() == 0 {
		return "nothing set"
	}
	return out.String()
}

func TestJSON(t *testing.T) {
	withoutComments(t, "json/*.txt", func(input string) string {
		return show(ParseJSON([]byte(input), "plan.json"))
	})
}

func TestBudget(t *testing.T) {
	withoutComments(t, "budget.txt", lines(func(s string) string {
		b, err := ParseBudget(s)
		if err != nil {
			return err.Error()
		}
		return b.String()
	}))
}

func TestDims(t *testing.T) {
	withoutComments(t, "dims.txt", lines(func(s string) string {
		dims, err := ParseDims(s)
		if err != nil {
			return err.Error()
		}
		return FormatDims(dims)
	}))
}

func TestRequests(t *testing.T) {
	withoutComments(t, "requests.txt", lines(func(s string) string {
		rs, err := ParseRequests(s, "var")
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, r := range rs {
			out = append(out, r.String()+" @"+r.Pos.String())
		}
		return strings.Join(out, " ")
	}))
}

// Flags are fields of Set: name value.
func TestFlags(t *testing.T) {
	withoutComments(t, "flags.txt", lines(func(line string) string {
		name, s, _ := strings.Cut(line, " ")
		var c Config
		if err := c.Set(name, s, Source{Origin: OriginFlag, Name: "--" + name}); err != nil {
			return err.Error()
		}
		f, _ := Find(name)
		return f.print(&c)
	}))
}

func TestEnv(t *testing.T) {
	withoutComments(t, "env.txt", func(input string) string {
		env := map[string]string{}
		for line := range strings.Lines(input) {
			name, s, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
			env[name] = s
		}
		c, warnings, err := FromEnv(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
		out := show(c, err)
		for _, w := range warnings {
			out += "warning: " + w + "\n"
		}
		return out
	})
}

func TestNearest(t *testing.T) {
	known := []string{"BiasGelu+", "Dropout+", "Gelu+", "FusedMatMul+Add+", "budget", "activation_budget"}
	withoutComments(t, "nearest.txt", lines(func(s string) string {
		near, ok := Nearest(s, known)
		if !ok {
			return "-"
		}
		return near
	}))
}

package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// variables are the environment variables that hold one setting each. Of two for
// the same setting the later wins.
var variables = []struct {
	name, field string
	words       []string // where the variable takes only these
}{
	{"ORTMODULE_MEMORY_OPT_LEVEL", "level", nil},
	{"ORTMODULE_LOG_LEVEL", "log", []string{"VERBOSE", "DEVINFO", "INFO", "WARNING", "ERROR", "FATAL"}},
	{"ORTMODULE_SAVE_ONNX_PATH", "save_onnx_path", nil},
	{"MEMOPT_BUDGET", "budget", nil},
	{"MEMOPT_DEVICE", "device", nil},
	{"MEMOPT_FAST_PATHS", "fast_paths", nil},
	{"MEMOPT_LOG", "log", nil},
	{"MEMOPT_CACHE", "cache", nil},
}

// configVariable names a config file, or before ONNX Runtime 1.19 held the requests themselves.
const configVariable = "ORTMODULE_MEMORY_OPT_CONFIG"

// probeVariable was ONNX Runtime's until 1.16.
const probeVariable = "ORTMODULE_MEMORY_OPT_PROBE_RECOMPUTE_LEVEL"

// FromEnv reads the settings in the environment; os.LookupEnv is the usual lookup. A
// variable that is set but empty counts as not set. What a config file named
// there says is a file's word: weaker than the variables, and weaker than a file named before it in Merge.
func FromEnv(lookup func(string) (string, bool)) (Config, []string, error) {
	c := Default()
	var warnings []string
	for _, v := range variables {
		s, ok := lookup(v.name)
		if !ok || s == "" {
			continue
		}
		if v.words != nil && !slices.Contains(v.words, strings.ToUpper(s)) {
			return Config{}, nil, &Error{Pos{File: v.name}, fmt.Sprintf("%s is not a log level, use %s", quote(s), or(v.words))}
		}
		if old, ok := c.Source(v.field); ok {
			warnings = append(warnings, fmt.Sprintf("%s is set and wins over %s", v.name, old.Name))
		}
		if err := c.Set(v.field, s, Source{Origin: OriginEnv, Name: v.name}); err != nil {
			return Config{}, nil, err
		}
	}
	if s, ok := lookup(probeVariable); ok && s != "" {
		warnings = append(warnings, probeVariable+" has had no effect since ONNX Runtime 1.17 and has none here")
	}
	if s, ok := lookup(configVariable); ok && s != "" {
		file, bare, err := ParseConfig(s, configVariable)
		if err != nil {
			return Config{}, nil, err
		}
		for setting, from := range file.given {
			from.Name = configVariable
			file.give(setting, from)
		}
		if bare {
			warnings = append(warnings, configVariable+" holds cluster strings, ONNX Runtime's form before 1.19; it takes the path of a JSON file with them too")
		}
		c = overlay([]Config{c, file})
	}
	return c, warnings, nil
}

// ParseConfig reads what a flag or variable holds that names a config: the path of
// a file, or, if there is none, the JSON itself, or cluster strings, which have
// colons. Bare reports whether it was these, as before ONNX Runtime 1.19. Name is
// the flag or variable.
func ParseConfig(s, name string) (c Config, bare bool, err error) {
	_, err = os.Stat(s)
	absent := err != nil
	switch {
	case absent && isJSON(s):
		c, err = ParseJSON([]byte(s), name)
	case absent && isClusters(s):
		c = Default()
		f, _ := find("config")
		t := &text{name: name, s: s}
		if err := f.read(&c, textValue(t)); err != nil {
			return Config{}, true, err
		}
		c.give("config", Source{Origin: OriginFile, Name: name, Pos: t.pos(0)})
		return c, true, nil
	case errors.Is(err, fs.ErrNotExist):
		err = &Error{Pos{File: name}, fmt.Sprintf("no file %s, need the path of a JSON file like [\"BiasGelu+:1:-1\"]", quote(s))}
	default:
		c, err = ParseFile(s)
	}
	return c, false, err
}

func isJSON(s string) bool     { return strings.IndexAny(s, "[{") == 0 }
func isClusters(s string) bool { return strings.Contains(s, ":") }

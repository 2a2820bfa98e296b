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
		file, warning, err := configFromEnv(s)
		if err != nil {
			return Config{}, nil, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
		c = overlay([]Config{c, file})
	}
	return c, warnings, nil
}

// configFromEnv reads what ORTMODULE_MEMORY_OPT_CONFIG holds: the path of a file, or,
// if there is no such file and it has the colons of requests, the requests.
func configFromEnv(s string) (c Config, warning string, err error) {
	_, err = os.Stat(s)
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case absent && strings.Contains(s, ":"):
		c = Default()
		f, _ := find("config")
		t := &text{name: configVariable, s: s}
		if err := f.read(&c, textValue(t)); err != nil {
			return Config{}, "", err
		}
		c.give("config", Source{Origin: OriginFile, Name: configVariable, Pos: t.pos(0)})
		return c, configVariable + " holds cluster strings, ONNX Runtime's form before 1.19; it takes the path of a JSON file with them too", nil
	case absent:
		return Config{}, "", &Error{Pos{File: configVariable}, fmt.Sprintf("no file %s, need the path of a JSON file like [\"BiasGelu+:1:-1\"]", quote(s))}
	}
	if c, err = ParseFile(s); err != nil {
		return Config{}, "", err
	}
	for name, from := range c.given {
		from.Name = configVariable
		c.give(name, from)
	}
	return c, "", nil
}

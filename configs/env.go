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
	return Folder("").FromEnv(lookup)
}

// FromEnv is that of an environment there.
func (f Folder) FromEnv(lookup func(string) (string, bool)) (Config, []string, error) {
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
		file, bare, err := f.ParseConfig(s, configVariable)
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

// StrayEnv warns of variables, spelled NAME=value as os.Environ gives them, that look as
// if they were to set something and do not: mistyped ones, and settings that have no
// variable. Others with such a prefix, as of tests, are none of its business.
func StrayEnv(environ []string) (warnings []string) {
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"MEMOPT_", "ORTMODULE_"} {
			if word, is := strings.CutPrefix(name, prefix); is && value != "" {
				warnings = append(warnings, stray(prefix, word)...)
			}
		}
	}
	return warnings
}

// stray warns of a variable that is called by a prefix and a word, if it should.
func stray(prefix, word string) []string {
	of := map[string]string{"config": configVariable} // by setting
	names := []string{configVariable, probeVariable}
	for _, v := range variables {
		of[v.field], names = v.name, append(names, v.name)
	}
	name, setting := prefix+word, strings.ToLower(word)
	if slices.Contains(names, name) {
		return nil
	}
	if _, is := find(setting); is && prefix == "MEMOPT_" {
		if of[setting] == "" {
			return []string{fmt.Sprintf("%s is not heeded: %s is a setting of flags and config files alone", name, setting)}
		}
		return []string{fmt.Sprintf("%s is not heeded, did you mean %s?", name, of[setting])}
	}
	// Words are compared without the prefix: it is long, and alike in all.
	var words []string
	for _, known := range names {
		if word, is := strings.CutPrefix(known, prefix); is {
			words = append(words, word)
		}
	}
	if near, ok := Nearest(word, words); ok {
		return []string{fmt.Sprintf("%s is not heeded, did you mean %s%s?", name, prefix, near)}
	}
	return nil
}

// ParseConfig reads what a flag or variable holds that names a config: the path of
// a file, or, if there is none, the JSON itself, or cluster strings, which have
// colons. Bare reports whether it was these, as before ONNX Runtime 1.19. Name is
// the flag or variable.
func ParseConfig(s, name string) (c Config, bare bool, err error) {
	return Folder("").ParseConfig(s, name)
}

// ParseConfig is that of a path there. What s holds if there is no file, it says alone:
// the folder may have colons too.
func (f Folder) ParseConfig(s, name string) (c Config, bare bool, err error) {
	path := f.Path(s)
	_, err = os.Stat(path)
	absent := err != nil
	if absent {
		s = unmarked(s)
	}
	switch {
	case absent && isJSON(s):
		c, err = ParseJSON([]byte(s), name)
	case absent && isClusters(s):
		c = Default()
		clusters, _ := find("config")
		t := &text{name: name, s: s}
		if err := clusters.read(&c, textValue(t)); err != nil {
			return Config{}, true, err
		}
		c.give("config", Source{Origin: OriginFile, Name: name, Pos: t.pos(0)})
		return c, true, nil
	case errors.Is(err, fs.ErrNotExist):
		err = &Error{Pos{File: name}, fmt.Sprintf("no file %s, need the path of a JSON file like [\"BiasGelu+:1:-1\"]", quote(path))}
	default:
		c, err = ParseFile(path)
	}
	return c, false, err
}

func isJSON(s string) bool     { return strings.IndexAny(s, "[{") == 0 }
func isClusters(s string) bool { return strings.Contains(s, ":") }

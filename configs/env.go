package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// configVariable names a config file; before ONNX Runtime 1.19 it held the cluster strings
// themselves.
const configVariable = "ORTMODULE_MEMORY_OPT_CONFIG"

// probeVariable was used by ONNX Runtime until 1.16.
const probeVariable = "ORTMODULE_MEMORY_OPT_PROBE_RECOMPUTE_LEVEL"

// FromEnv reads the settings in the environment; lookup is usually os.LookupEnv. Every setting has
// a variable: MEMOPT_ and its name in capitals. If ONNX Runtime has one for it too, ours wins. A
// variable that is set but empty counts as not set. Settings from a config file named by a variable
// have the origin of a file: they are weaker than variables, and weaker than a file given before it
// to Merge.
func FromEnv(lookup func(string) (string, bool)) (Config, []string, error) {
	return Folder("").FromEnv(lookup)
}

// FromEnv is like the function FromEnv, with relative paths beginning at the folder.
func (f Folder) FromEnv(lookup func(string) (string, bool)) (Config, []string, error) {
	c := Default()
	var warnings []string
	for _, r := range rows {
		value, name := "", ""
		for _, v := range []variable{r.ort, {name: r.Variable()}} {
			s, ok := lookup(v.name)
			if !ok || s == "" || v.name == "" {
				continue
			}
			if v.words != nil && !slices.Contains(v.words, strings.ToUpper(s)) {
				return Config{}, nil, &Error{Pos{File: v.name}, fmt.Sprintf("%s is not a log level, use %s", quote(s), or(v.words))}
			}
			if name != "" {
				warnings = append(warnings, fmt.Sprintf("%s is set and wins over %s", v.name, name))
			}
			value, name = s, v.name
		}
		switch {
		case name == "":
		case r.Form == Elsewhere:
			file, bare, err := f.ParseConfig(value, name)
			if err != nil {
				return Config{}, nil, err
			}
			for setting, from := range file.given {
				from.Name = name
				file.give(setting, from)
			}
			if bare && name == configVariable {
				warnings = append(warnings, configVariable+" holds cluster strings, ONNX Runtime's form before 1.19; it also takes the path of a JSON file that holds them")
			}
			c = overlay([]Config{c, file})
		default:
			if err := c.Set(r.Name, value, Source{Origin: OriginEnv, Name: name}); err != nil {
				return Config{}, nil, err
			}
		}
	}
	if s, ok := lookup(probeVariable); ok && s != "" {
		warnings = append(warnings, probeVariable+" has had no effect since ONNX Runtime 1.17 and has none here")
	}
	return c, warnings, nil
}

// StrayEnv warns of variables, spelled NAME=value as in os.Environ, whose names are probably
// mistyped names of settings. Other variables with such a prefix, as of tests, are ignored.
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

// stray warns if a prefix and a word are a mistyped name of a variable.
func stray(prefix, word string) []string {
	// Words are compared without the common prefix, which would make all of them similar.
	var words []string
	for _, r := range rows {
		for _, known := range []string{r.ort.name, r.Variable(), probeVariable} {
			if known, is := strings.CutPrefix(known, prefix); is {
				words = append(words, known)
			}
		}
	}
	if slices.Contains(words, word) {
		return nil
	}
	if near, ok := Nearest(word, words); ok {
		return []string{fmt.Sprintf("%s%s is ignored, did you mean %s%s?", prefix, word, prefix, near)}
	}
	return nil
}

// ParseConfig reads the value of a flag or variable that names a config: the path of a file
// relative to the folder, or, if there is no such file, JSON or cluster strings (which contain
// colons; the folder's path may, too, so it is not prepended for this test). Bare reports cluster
// strings, the form before ONNX Runtime 1.19. Name is the flag or variable.
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
		clusters, _ := Find("config")
		t := &text{name: name, s: s}
		if err := clusters.read(&c, textValue(t)); err != nil {
			return Config{}, true, err
		}
		c.give("config", Source{Origin: OriginFile, Name: name, Pos: t.pos(0)})
		return c, true, nil
	case errors.Is(err, fs.ErrNotExist):
		err = &Error{Pos{File: name}, fmt.Sprintf("%s: no such file; give the path of a JSON file like [\"BiasGelu+:1:-1\"]", strings.Trim(quote(path), `"`))}
	default:
		c, err = ParseFile(path)
	}
	return c, false, err
}

func isJSON(s string) bool     { return strings.IndexAny(s, "[{") == 0 }
func isClusters(s string) bool { return strings.Contains(s, ":") }

package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// configVariable names a config file, or before ONNX Runtime 1.19 held the requests themselves.
const configVariable = "ORTMODULE_MEMORY_OPT_CONFIG"

// probeVariable was ONNX Runtime's until 1.16.
const probeVariable = "ORTMODULE_MEMORY_OPT_PROBE_RECOMPUTE_LEVEL"

// FromEnv reads the settings in the environment; os.LookupEnv is the usual lookup. Every
// setting has a variable, MEMOPT_ and its name in capitals; where ONNX Runtime has one for
// it too, ours wins. A variable that is set but empty counts as not set. What a config
// file named there says is a file's word: weaker than the variables, and weaker than a
// file named before it in Merge.
func FromEnv(lookup func(string) (string, bool)) (Config, []string, error) {
	return Folder("").FromEnv(lookup)
}

// FromEnv is that of an environment there.
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
				warnings = append(warnings, configVariable+" holds cluster strings, ONNX Runtime's form before 1.19; it takes the path of a JSON file with them too")
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

// StrayEnv warns of variables, spelled NAME=value as os.Environ gives them, that look as
// if they were to set something and do not because they are mistyped. Others with such a
// prefix, as of tests, are none of its business.
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
	// Words are compared without the prefix: it is long, and alike in all.
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
		return []string{fmt.Sprintf("%s%s is not heeded, did you mean %s%s?", prefix, word, prefix, near)}
	}
	return nil
}

// ParseConfig reads what a flag or variable holds that names a config: the path of a file, beginning at the folder, or, if
// there is none, the JSON itself, or cluster strings, which have colons. The folder may have colons too, so strings are read
// without it. Bare reports whether it was these, as before ONNX Runtime 1.19. Name is the flag or variable.
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

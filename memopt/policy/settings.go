package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
	"gopkg.in/yaml.v3"

	"memopt/internal/whole"
)

// mostText is more than a file of settings has.
const mostText = 4 << 20

// settings are a file's values by dotted key.
type settings struct {
	path   string
	text   string
	values map[string]any
}

// readSettings reads JSON, YAML, TOML, or the arguments of a command line.
func readSettings(path string) (*settings, error) {
	data, err := whole.Read(path, "a policy", mostText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &settings{path: path, text: string(data), values: map[string]any{}}
	var tree map[string]any
	switch s.spelling() {
	case "toml":
		_, err = toml.Decode(s.text, &tree)
	case "yaml": // JSON is YAML
		var top any
		err = yaml.NewDecoder(bytes.NewReader(data)).Decode(&top)
		if keys, ok := top.(map[string]any); ok || err != nil {
			tree = keys
		} else {
			err = errors.New("it has no keys at its top, so it is no file of settings")
		}
	case "arguments":
		tree = arguments(s.text)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, firstLine(err.Error()))
	}
	s.flatten("", tree)
	return s, nil
}

var (
	tomlLine = regexp.MustCompile(`(?m)^\s*(\[[\w.-]+\]\s*(#.*)?$|[\w.-]+\s*=\s)`)
	flagLine = regexp.MustCompile(`(^|\s)--[a-z][\w.-]*`)
)

// spelling is what the text looks like, where the file's name does not tell.
func (s *settings) spelling() string {
	switch strings.ToLower(filepath.Ext(s.path)) {
	case ".toml":
		return "toml"
	case ".json", ".yaml", ".yml":
		return "yaml"
	case ".sh", ".args":
		return "arguments"
	case ".py":
		return "python"
	}
	switch text := strings.TrimSpace(s.text); {
	case ofRemat(s) || ofJAX(s):
		return "python"
	case strings.HasPrefix(text, "{"):
		return "yaml"
	case flagLine.MatchString(text):
		return "arguments"
	case tomlLine.MatchString(text):
		return "toml"
	}
	return "yaml"
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func (s *settings) flatten(prefix string, tree map[string]any) {
	for key, value := range tree {
		s.values[prefix+key] = value
		if inner, ok := value.(map[string]any); ok {
			s.flatten(prefix+key+".", inner)
		}
	}
}

// word is a part of a command line: what stands between spaces, or in quotes.
var word = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']+`)

// arguments are the flags of a command line with their values: none is true, several are a list. Dashes in names are
// underscores.
func arguments(text string) map[string]any {
	found := map[string][]any{}
	name := ""
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		for _, w := range word.FindAllString(line, -1) {
			if w == "\\" || strings.HasPrefix(w, "#") {
				break
			}
			if rest, is := strings.CutPrefix(w, "--"); is {
				value, given := "", false
				name, value, given = strings.Cut(rest, "=")
				name = strings.ReplaceAll(name, "-", "_")
				found[name] = []any{}
				if given && value != "" {
					found[name] = append(found[name], strings.Trim(value, `"'`))
				}
			} else if name != "" {
				found[name] = append(found[name], strings.Trim(w, `"'`))
			}
		}
	}
	all := map[string]any{}
	for name, values := range found {
		switch len(values) {
		case 0:
			all[name] = true
		case 1:
			all[name] = values[0]
		default:
			all[name] = values
		}
	}
	return all
}

// has reports whether one of the keys is there.
func (s *settings) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := s.values[k]; ok {
			return true
		}
	}
	return false
}

// wrong is the error about a key.
func (s *settings) wrong(key, format string, args ...any) error {
	return fmt.Errorf("%s: %s is %v; %s", s.path, key, s.values[key], fmt.Sprintf(format, args...))
}

// on is a switch; what is not there is off.
func (s *settings) on(key string) (bool, error) {
	switch v := s.values[key].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case string:
		switch strings.ToLower(v) {
		case "true", "yes", "on", "1":
			return true, nil
		case "false", "no", "off", "0", "none", "null", "":
			return false, nil
		}
	}
	return false, s.wrong(key, "it is true or false")
}

// number is a whole number from least on, or otherwise where there is none.
func (s *settings) number(key string, least, otherwise int) (int, error) {
	n := 0
	switch v := s.values[key].(type) {
	case nil:
		return otherwise, nil
	case int:
		n = v
	case int64:
		n = int(v)
	default:
		if _, err := fmt.Sscanf(fmt.Sprint(v), "%d", &n); err != nil || fmt.Sprint(n) != fmt.Sprint(v) {
			return 0, s.wrong(key, "it is a whole number")
		}
	}
	if n < least {
		return 0, s.wrong(key, "it is at least %d", least)
	}
	return n, nil
}

// list are several texts: of a list, or of one text between commas, spaces or bars.
func (s *settings) list(key string) (all []string) {
	switch v := s.values[key].(type) {
	case []any:
		for _, x := range v {
			all = append(all, fmt.Sprint(x))
		}
	case string:
		all = strings.FieldsFunc(v, func(c rune) bool { return strings.ContainsRune(", |[]", c) })
	}
	return all
}

// choice is a text that is one of a few.
func (s *settings) choice(key, otherwise string, of ...string) (string, error) {
	v, given := s.values[key]
	if !given || v == nil {
		return otherwise, nil
	}
	for _, c := range of {
		if fmt.Sprint(v) == c {
			return c, nil
		}
	}
	return "", s.wrong(key, "there are %s", strings.Join(of, ", "))
}

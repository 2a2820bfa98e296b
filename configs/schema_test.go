package configs

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// accepts is a JSON Schema validator for the keywords that Schema uses. An unknown keyword is an
// error, so that the schema cannot use one that is not tested.
func accepts(schema map[string]any, v any) bool {
	for word, arg := range schema {
		check, ok := schemaWords[word]
		if !ok {
			panic("schema word " + word)
		}
		if !check(arg, v, schema) {
			return false
		}
	}
	return true
}

var schemaWords map[string]func(arg, v any, schema map[string]any) bool

func init() {
	note := func(_, _ any, _ map[string]any) bool { return true }
	number := func(cmp func(x, arg float64) bool) func(arg, v any, _ map[string]any) bool {
		return func(arg, v any, _ map[string]any) bool {
			x, ok := v.(float64)
			return !ok || cmp(x, arg.(float64))
		}
	}
	schemaWords = map[string]func(arg, v any, schema map[string]any) bool{
		"$schema": note, "title": note, "description": note,
		"type": func(arg, v any, _ map[string]any) bool {
			switch x := v.(type) {
			case string:
				return arg == "string"
			case bool:
				return arg == "boolean"
			case float64:
				return arg == "number" || arg == "integer" && x == math.Trunc(x)
			case []any:
				return arg == "array"
			case map[string]any:
				return arg == "object"
			}
			return false
		},
		"enum":             func(arg, v any, _ map[string]any) bool { return slices.Contains(arg.([]any), v) },
		"minimum":          number(func(x, arg float64) bool { return x >= arg }),
		"maximum":          number(func(x, arg float64) bool { return x <= arg }),
		"exclusiveMinimum": number(func(x, arg float64) bool { return x > arg }),
		"exclusiveMaximum": number(func(x, arg float64) bool { return x < arg }),
		"minLength": func(arg, v any, _ map[string]any) bool {
			s, ok := v.(string)
			return !ok || float64(len(s)) >= arg.(float64)
		},
		"minItems": func(arg, v any, _ map[string]any) bool {
			a, ok := v.([]any)
			return !ok || float64(len(a)) >= arg.(float64)
		},
		"maxItems": func(arg, v any, _ map[string]any) bool {
			a, ok := v.([]any)
			return !ok || float64(len(a)) <= arg.(float64)
		},
		"pattern": func(arg, v any, _ map[string]any) bool {
			s, ok := v.(string)
			return !ok || regexp.MustCompile(arg.(string)).MatchString(s)
		},
		"items": func(arg, v any, _ map[string]any) bool {
			a, _ := v.([]any)
			return !slices.ContainsFunc(a, func(el any) bool { return !accepts(arg.(map[string]any), el) })
		},
		"anyOf": func(arg, v any, _ map[string]any) bool {
			return slices.ContainsFunc(arg.([]any), func(s any) bool { return accepts(s.(map[string]any), v) })
		},
		"properties": func(arg, v any, _ map[string]any) bool {
			o, _ := v.(map[string]any)
			for name, s := range arg.(map[string]any) {
				if el, ok := o[name]; ok && !accepts(s.(map[string]any), el) {
					return false
				}
			}
			return true
		},
		"additionalProperties": func(arg, v any, schema map[string]any) bool {
			o, _ := v.(map[string]any)
			known, _ := schema["properties"].(map[string]any)
			for name, el := range o {
				if _, ok := known[name]; ok {
					continue
				}
				if s, ok := arg.(map[string]any); !ok || !accepts(s, el) {
					return false
				}
			}
			return true
		},
	}
}

// notInSchema lists what the parser refuses and a schema cannot express: duplicate names, limits
// that need arithmetic, names that could not be written as text, and integers spelled as fractions.
var notInSchema = []string{"given twice", "second time", "contradicts", "control characters", "has no name", "characters that a dim", "is not a share", `"1.0" is not an integer`, `"1e0" is not an integer`}

// The schema accepts what the parser accepts, and refuses what it refuses except for notInSchema.
// The texts are those of testdata/json.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/json/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, strings.Split(string(src), "\n\n")...)
	}
	checked := 0
	for _, c := range texts {
		text, _, _ := strings.Cut(c, "\n----")
		for strings.HasPrefix(text, "# ") {
			_, text, _ = strings.Cut(text, "\n")
		}
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			continue
		}
		_, err := ParseJSON([]byte(text), "plan.json")
		if err != nil && slices.ContainsFunc(notInSchema, func(s string) bool { return strings.Contains(err.Error(), s) }) {
			continue
		}
		checked++
		ok := accepts(schema, v)
		if !ok && err == nil && json.Unmarshal([]byte(strings.ToLower(text)), &v) == nil {
			ok = accepts(schema, v) // words may be in any case
		}
		if ok != (err == nil) {
			t.Errorf("schema says %v, parser says %v:\n%s", ok, err, text)
		}
	}
	if checked < 40 {
		t.Errorf("only %d texts checked", checked)
	}
}

// Each field's printed default, as a string or as a number, fits the schema.
func TestSchemaTakesEveryField(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, f := range rows {
		def := Default()
		s := f.print(&def)
		if s == "" {
			continue
		}
		asString := accepts(schema, map[string]any{f.Name: s})
		var x float64
		_, err := fmt.Sscan(s, &x)
		if asNumber := err == nil && accepts(schema, map[string]any{f.Name: x}); !asString && !asNumber {
			t.Errorf("schema refuses the default of %s, %s", f.Name, s)
		}
	}
}

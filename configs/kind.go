package configs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// kind is a type of settings: the JSON types that it accepts, its parser, its printer (whose output
// the parser reads back) and its JSON Schema.
type kind[T any] struct {
	form    Form
	metavar string   // placeholder of a value in help
	words   []string // values to complete
	takes   []gjson.Type
	want    string // completes "need …"
	parse   func(value) (T, error)
	print   func(T) string
	schema  map[string]any
}

var (
	asString  = []gjson.Type{gjson.String}
	asNumber  = []gjson.Type{gjson.Number}
	asSize    = []gjson.Type{gjson.String, gjson.Number}
	asSwitch  = []gjson.Type{gjson.True, gjson.False, gjson.String}
	asObject  = []gjson.Type{gjson.JSON, gjson.String}
	asStrings = []gjson.Type{gjson.JSON, gjson.String}
)

// choice is one of some words, in any case. Aliases map other words to them.
func choice(words []string, aliases map[string]string) kind[string] {
	want := or(words)
	return kind[string]{
		form: Word, metavar: strings.Join(words, "|"), words: words,
		takes: asString,
		want:  "a string: " + want,
		parse: func(v value) (string, error) {
			word := strings.ToLower(v.s)
			if full, ok := aliases[word]; ok {
				word = full
			}
			for _, w := range words {
				if w == word {
					return w, nil
				}
			}
			if near, ok := Nearest(v.s, words); ok {
				return "", v.fail("%s is not known, did you mean %s? Use %s", quote(v.s), near, want)
			}
			return "", v.fail("%s is not known, use %s", quote(v.s), want)
		},
		print:  func(s string) string { return s },
		schema: map[string]any{"type": "string", "enum": slices.Concat(words, slices.Sorted(maps.Keys(aliases)))},
	}
}

// deviceName is a kind of device, vulkan optionally with a number or name of the device.
func deviceName() kind[string] {
	k := choice(devices, nil)
	k.form, k.metavar = Text, k.metavar+"|vulkan:N"
	kinds := k.parse
	k.parse = func(v value) (string, error) {
		if rest, ok := strings.CutPrefix(strings.ToLower(v.s), "vulkan:"); ok && rest != "" {
			return "vulkan:" + rest, nil
		}
		return kinds(v)
	}
	k.schema = map[string]any{"type": "string", "pattern": "^(" + strings.Join(devices, "|") + "|vulkan:.+)$"}
	return k
}

// whole is an integer in a range.
func whole(low, high int) kind[int] {
	want := fmt.Sprintf("an integer from %d to %d", low, high)
	if high == math.MaxInt32 {
		want = fmt.Sprintf("an integer of at least %d", low)
	}
	return kind[int]{
		form: Whole, metavar: "N",
		takes: asNumber,
		want:  want,
		parse: func(v value) (int, error) {
			n, ok := integer(v.s)
			if !ok || n < low || n > high {
				return 0, v.fail("%s is not %s", quote(v.s), want)
			}
			return n, nil
		},
		print:  strconv.Itoa,
		schema: map[string]any{"type": "integer", "minimum": low, "maximum": high},
	}
}

// switchOr is on, off or one of more words; JSON's true and false are accepted, too.
func switchOr(words ...string) kind[string] {
	words = append([]string{"on", "off"}, words...)
	k := choice(words, map[string]string{"true": "on", "false": "off"})
	k.form, k.takes = Switch, asSwitch
	k.schema = map[string]any{"anyOf": []any{
		map[string]any{"type": "boolean"},
		map[string]any{"type": "string", "enum": words},
	}}
	return k
}

// seed is any 64-bit unsigned integer.
func seed() kind[uint64] {
	const want = "an integer from 0 to 18446744073709551615"
	return kind[uint64]{
		form: Whole, metavar: "N",
		takes: asNumber,
		want:  want,
		parse: func(v value) (uint64, error) {
			n, err := strconv.ParseUint(v.s, 10, 64)
			if err != nil || strconv.FormatUint(n, 10) != v.s {
				return 0, v.fail("%s is not %s", quote(v.s), want)
			}
			return n, nil
		},
		print:  func(n uint64) string { return strconv.FormatUint(n, 10) },
		schema: map[string]any{"type": "integer", "minimum": 0, "maximum": uint64(math.MaxUint64)},
	}
}

// interval is a range of real numbers: its description, its test, its schema.
type interval struct {
	want string
	has  func(float64) bool
	json map[string]any
}

var (
	positive = interval{"a number above 0", func(x float64) bool { return x > 0 },
		map[string]any{"type": "number", "exclusiveMinimum": 0}}
	atLeast0 = interval{"a number of at least 0", func(x float64) bool { return x >= 0 },
		map[string]any{"type": "number", "minimum": 0}}
	below1 = interval{"a number from 0 to below 1", func(x float64) bool { return 0 <= x && x < 1 },
		map[string]any{"type": "number", "minimum": 0, "exclusiveMaximum": 1}}
)

// percentage is a share in percent.
var percentage = interval{"a number from 0 to 100", func(x float64) bool { return 0 <= x && x <= 100 },
	map[string]any{"type": "number", "minimum": 0, "maximum": 100}}

// real is a finite number in an interval.
func real(in interval) kind[float64] {
	return kind[float64]{
		form: Number, metavar: "X",
		takes: asNumber,
		want:  in.want,
		parse: func(v value) (float64, error) {
			x, ok := finite(v.s)
			if !ok || !in.has(x) {
				return 0, v.fail("%s is not %s", quote(v.s), in.want)
			}
			return x, nil
		},
		print:  func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) },
		schema: in.json,
	}
}

// finite reads a decimal number: no hexadecimal, NaN, overflow or other forms that strconv accepts.
func finite(s string) (float64, bool) {
	sc := scanner{s: s}
	if sc.number() != nil || sc.i != len(s) {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil
}

// trifle stands for a limit of 0%, since 0 in a Config is no limit.
const trifle = 1e-12

// share is a fraction: "10%" and 0.1 are the same, and off is no limit.
func share() kind[float64] {
	const want = "a share like 10% or 0.1"
	return kind[float64]{
		form: Share, metavar: "SHARE",
		takes: asSize,
		want:  want,
		parse: func(v value) (float64, error) {
			s := strings.TrimSpace(v.s)
			if strings.EqualFold(s, "off") {
				return 0, nil
			}
			digits, percent := strings.CutSuffix(s, "%")
			x, ok := finite(strings.TrimRight(digits, " "))
			switch {
			case !ok || x < 0:
				return 0, v.fail("%s is not %s", quote(v.s), want)
			case x == 0:
				return trifle, nil
			case percent:
				return x / 100, nil
			case x > 1:
				return 0, v.fail("%s is more than the whole: write %s%% if that is meant, or %s", quote(v.s), quoteless(s), want)
			}
			return x, nil
		},
		print: func(x float64) string {
			switch x {
			case 0:
				return "off"
			case trifle:
				return "0%"
			}
			return strconv.FormatFloat(x, 'g', -1, 64)
		},
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "number", "minimum": 0, "maximum": 1},
			map[string]any{"type": "string", "pattern": `^\s*([0-9.eE+-]+ *%?|[oO][fF][fF])\s*$`},
		}},
	}
}

// quoteless shortens a number from the user for a suggestion.
func quoteless(s string) string { return s[:min(len(s), 20)] }

// size is a budget.
func size() kind[Budget] {
	return kind[Budget]{
		form: Size, metavar: "SIZE",
		takes: asSize,
		want:  "a size: " + sizeForms,
		parse: parseBudget,
		print: Budget.String,
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "number", "exclusiveMinimum": 0},
			map[string]any{"type": "string", "pattern": `^\s*[0-9][0-9.eE+-]* *([kKmMgGtTpP]?([iI]?[bB])?|%)\s*$`},
		}},
	}
}

// onOff is a switch.
func onOff() kind[bool] {
	words := map[string]bool{"on": true, "off": false, "true": true, "false": false}
	return kind[bool]{
		form: Switch, metavar: "on|off", words: []string{"on", "off"},
		takes: asSwitch,
		want:  "on or off",
		parse: func(v value) (bool, error) {
			b, ok := words[strings.ToLower(v.s)]
			if !ok {
				return false, v.fail("%s is not on or off", quote(v.s))
			}
			return b, nil
		},
		print: func(b bool) string {
			if b {
				return "on"
			}
			return "off"
		},
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "boolean"},
			map[string]any{"type": "string", "enum": []string{"on", "off"}},
		}},
	}
}

// name is text on one line: a path, or a name of a value.
func name(want string) kind[string] {
	return kind[string]{
		form: Text, metavar: "NAME",
		takes: asString,
		want:  want,
		parse: func(v value) (string, error) {
			switch {
			case v.s == "":
				return "", v.fail("is empty, need %s", want)
			case !isOneLine(v.s):
				return "", v.fail("%s has control characters, need %s", quote(v.s), want)
			}
			return v.s, nil
		},
		print:  func(s string) string { return s },
		schema: map[string]any{"type": "string", "minLength": 1},
	}
}

// filePath is the path of a file.
func filePath(want string) kind[string] {
	k := name(want)
	k.form, k.metavar = Path, "FILE"
	return k
}

// lowerCase maps words in lower case to words.
func lowerCase(words []string) map[string]string {
	by := map[string]string{}
	for _, w := range words {
		by[strings.ToLower(w)] = w
	}
	return by
}

// bytes is a size in bytes, not a share; 0 is the default.
func bytes() kind[int64] {
	k := size()
	const want = "a size: 6GiB, 512MiB, 6GB or 6442450944"
	return kind[int64]{
		form: Size, metavar: "SIZE",
		takes: asSize,
		want:  want,
		parse: func(v value) (int64, error) {
			if strings.TrimSpace(v.s) == "0" {
				return 0, nil
			}
			b, err := k.parse(v)
			if err == nil && b.Bytes == 0 {
				err = v.fail("%s is a share, need %s", quote(v.s), want)
			}
			return b.Bytes, err
		},
		print: func(n int64) string { return Budget{Bytes: n}.String() },
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "integer", "minimum": 0},
			map[string]any{"type": "string", "pattern": `^\s*[0-9][0-9.eE+-]* *([kKmMgGtTpP]?([iI]?[bB])?)\s*$`},
		}},
	}
}

// folder is the path of a folder.
func folder() kind[string] {
	k := name("a folder")
	k.form, k.metavar = Path, "FOLDER"
	return k
}

// isOneLine reports whether s is text without control characters.
func isOneLine(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// names is a list: an array of strings, or a string with commas.
func names(want string) kind[[]string] {
	one := name(want)
	return kind[[]string]{
		form: Names, metavar: "NAMES",
		takes: asStrings,
		want:  "an array of strings",
		parse: func(v value) ([]string, error) {
			if v.json.IsObject() {
				return nil, v.fail("is an object, need an array of strings")
			}
			var list []string
			var err error
			add := func(part value) bool {
				var s string
				if s, err = one.parse(part); err != nil {
					return false
				}
				list = append(list, s)
				if len(list) > maxItems {
					err = part.fail("more than %d entries", maxItems)
				}
				return err == nil
			}
			if v.json.IsArray() {
				v.json.ForEach(func(_, item gjson.Result) bool {
					el := jsonValue(v.from, v.field, item)
					if item.Type != gjson.String {
						err = el.fail("element %d is %s, need %s", len(list), typeName(item), want)
						return false
					}
					return add(el)
				})
				if list == nil && err == nil {
					err = v.fail("is empty: leave it out for all of them")
				}
				return list, err
			}
			for s := range strings.SplitSeq(v.s, ",") {
				part := v
				part.s = strings.TrimSpace(s)
				if !add(part) {
					break
				}
			}
			return list, err
		},
		print: printNames,
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "array", "items": one.schema, "minItems": 1},
			one.schema,
		}},
	}
}

// printNames joins names with commas, or prints JSON if those would not be read back.
func printNames(list []string) string {
	text := strings.Join(list, ",")
	if slices.ContainsFunc(list, func(s string) bool { return s != strings.TrimSpace(s) || strings.Contains(s, ",") }) || scan(text) == nil {
		return jsonText(list)
	}
	return text
}

// someOf is a list of some words, or one of the words alone that cannot be combined.
func someOf(words []string, alone ...string) kind[[]string] {
	all := choice(slices.Concat(alone, words), nil)
	want := strings.TrimPrefix(all.want, "a string: ")
	k := names(want)
	k.metavar, k.words = strings.Join(alone, "|")+"|LIST", slices.Concat(alone, words)
	list := k.parse
	k.parse = func(v value) ([]string, error) {
		if v.json.IsArray() && len(v.json.Array()) == 0 {
			return nil, v.fail("is empty, need %s", want)
		}
		given, err := list(v)
		for i, s := range given {
			if err == nil {
				part := v
				part.s = s
				given[i], err = all.parse(part)
			}
			if err == nil && len(given) > 1 && slices.Contains(alone, given[i]) {
				err = v.fail("%s stands alone", given[i])
			}
		}
		if err != nil {
			return nil, err
		}
		return given, nil
	}
	k.schema = map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "items": choice(words, nil).schema, "minItems": 1},
		map[string]any{"type": "array", "items": choice(alone, nil).schema, "minItems": 1, "maxItems": 1},
		map[string]any{"type": "string"},
	}}
	return k
}

// sizes is sizes of dims.
func sizes() kind[map[string]int64] {
	return kind[map[string]int64]{
		form: Sizes, metavar: "SIZES",
		takes: asObject,
		want:  "an object of sizes",
		parse: parseDims,
		print: FormatDims,
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer", "minimum": 1}},
			map[string]any{"type": "string"},
		}},
	}
}

// clusters is requests for clusters.
func clusters() kind[[]Request] {
	return kind[[]Request]{
		form: Elsewhere, metavar: "FILE",
		takes: asStrings,
		want:  "an array of cluster strings",
		parse: parseRequests,
		print: printRequests,
		schema: map[string]any{"anyOf": []any{
			requestArray,
			map[string]any{"type": "string"},
		}},
	}
}

// requestArray is the schema of a config in ONNX Runtime's form.
var requestArray = map[string]any{"type": "array", "items": map[string]any{
	"type": "string", "pattern": `^([^\s:,{}]+:[012]:(-1|[0-9]+|\{[0-9,-]+\})(,|$))*$`,
}}

// typeName describes a JSON value's type in messages.
func typeName(r gjson.Result) string {
	switch {
	case r.IsArray():
		return "an array"
	case r.IsObject():
		return "an object"
	}
	return typeNames[r.Type]
}

var typeNames = map[gjson.Type]string{
	gjson.Null: "null", gjson.True: "true", gjson.False: "false", gjson.Number: "a number", gjson.String: "a string",
}

package configs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Face is the interface that a user gives settings through, and so how messages spell them.
type Face uint8

// The faces.
const (
	CommandLine Face = iota // --max-overhead 10%
	Python                  // max_overhead="10%"
)

// Name spells the name of a setting.
func (f Face) Name(setting string) string {
	if r, ok := Find(setting); ok && f == CommandLine {
		return "--" + r.Flag
	}
	return setting
}

// Say spells a setting with a value, ready to paste.
func (f Face) Say(setting, value string) string {
	if f == CommandLine {
		return f.Name(setting) + " " + ShellWord(value)
	}
	r, _ := Find(setting)
	if r.Form == Sizes {
		var pairs []string
		for pair := range strings.SplitSeq(value, ",") {
			i := max(strings.LastIndexByte(pair, '='), 0)
			pairs = append(pairs, jsonText(pair[:i])+": "+strings.TrimPrefix(pair[i:], "="))
		}
		return setting + "={" + strings.Join(pairs, ", ") + "}"
	}
	if r.Form == Whole || r.Form == Number || r.Form == Size && strings.Trim(value, "0123456789") == "" {
		return setting + "=" + value
	}
	return setting + "=" + jsonText(value)
}

// Together joins the spellings of several settings.
func (f Face) Together(said []string) string {
	if f == CommandLine {
		return strings.Join(said, " ")
	}
	return strings.Join(said, ", ")
}

// jsonText is JSON on one line, which for strings is also Python.
func jsonText[T string | []string](v T) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings always encode
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Name spells the name of a setting for the user who gave the config.
func (c Config) Name(setting string) string { return c.face.Name(setting) }

// Say spells a setting with a value for the user who gave the config.
func (c Config) Say(setting, value string) string { return c.face.Say(setting, value) }

// Unsized says which dims of a model need sizes, if any do: those of names that have none among dims.
func (c Config) Unsized(names []string, dims map[string]int64) string {
	missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return dims[n] != 0 })
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("the model's dims %s need sizes; say %s", strings.Join(missing, ", "), c.Say("dims", strings.Join(missing, "=N,")+"=N"))
}

// Together joins the spellings of several settings for the user who gave the config.
func (c Config) Together(said []string) string { return c.face.Together(said) }

// Quantize spells the command or call that quantizes a model's weights to 8 bits.
func (f Face) Quantize(path string) string {
	to := strings.TrimSuffix(path, ".onnx") + ".int8.onnx"
	if f == CommandLine {
		return "memopt quantize " + ShellWord(path) + " -o " + ShellWord(to)
	}
	return "memopt.ort.quantize_dynamic(" + jsonText(path) + ", " + jsonText(to) + ")"
}

// Quantize spells it for the user who gave the config.
func (c Config) Quantize(path string) string { return c.face.Quantize(path) }

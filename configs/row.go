package configs

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Row is one setting. Its flag and help, its environment variable, its field in config files and
// the schema, its entry in the service's map and its keyword in Python are all made from here.
type Row struct {
	Name     string   // in config files, the service's map and Python
	Flag     string   // without dashes
	Doc      string   // the help text everywhere
	Group    string   // heading in help
	Form     Form     // how its values are written
	Takes    string   // placeholder in help: SIZE, on|off|auto
	Words    []string // values for shell completion
	Default  string   // as text; "": nothing is set
	Commands []string // commands that use it; nil: all
	Alias    string   // an earlier name in Python, still accepted
	Short    string   // a second flag in command ShortIn
	ShortIn  string
	Shapes   bool // changes the training step, so plan files store it

	ort   variable // ONNX Runtime's variable
	takes []gjson.Type
	want  string
	json  map[string]any // its schema

	reset func(*Config)              // to the default
	parse func(*Config, value) error // sets it
	copy  func(to, from *Config)
	print func(*Config) string
	in    func(*Config, Folder) // makes paths relative to a folder
}

// Form is how the values of a setting are written. Python's types are made from it.
type Form string

// The forms.
const (
	Word      Form = "word"      // one of Words
	Switch    Form = "switch"    // on, off, or one of Words
	Whole     Form = "whole"     // an integer
	Number    Form = "number"    // a real number
	Size      Form = "size"      // bytes, or a share
	Share     Form = "share"     // a fraction
	Text      Form = "text"      // a name
	Path      Form = "path"      // the path of a file or folder
	Names     Form = "names"     // a list
	Sizes     Form = "sizes"     // numbers by name
	Elsewhere Form = "elsewhere" // more settings: the path of a config file, its text, or cluster strings
	Scale     Form = "scale"     // a number, or one of Words
	Counts    Form = "counts"    // integers or on and off, one for each of something, or one of Words
)

// variable is an environment variable of ONNX Runtime.
type variable struct {
	name  string
	words []string // its values; nil: any
}

// row makes a row of a name, its field in Config, its kind, its default and its facets.
func row[T any](name string, at func(*Config) *T, k kind[T], def T, commands []string, doc string, facets ...func(*Row)) Row {
	r := Row{
		Name: name, Flag: strings.ReplaceAll(name, "_", "-"), Doc: doc, Commands: commands,
		Form: k.form, Takes: k.metavar, Words: k.words, Default: k.print(def),
		takes: k.takes, want: k.want, json: k.schema,
		reset: func(c *Config) { *at(c) = def },
		parse: func(c *Config, v value) error {
			got, err := k.parse(v)
			if err == nil {
				*at(c) = got
			}
			return err
		},
		copy:  func(to, from *Config) { *at(to) = *at(from) },
		print: func(c *Config) string { return k.print(*at(c)) },
		in: func(c *Config, f Folder) {
			switch x := any(at(c)).(type) {
			case *string:
				*x = f.Path(*x)
			case *[]string:
				*x = f.lists(*x)
			}
		},
	}
	for _, facet := range facets {
		facet(&r)
	}
	return r
}

// shapes is the facet of settings that change the training step.
func shapes(r *Row) { r.Shapes = true }

// flag is the facet of a setting whose flag has another name.
func flag(name string) func(*Row) { return func(r *Row) { r.Flag = name } }

// short is the facet of a setting whose flag has a second name in one command, which is about it.
func short(command, name string) func(*Row) {
	return func(r *Row) { r.ShortIn, r.Short = command, name }
}

// ort is the facet of a setting that has a variable of ONNX Runtime.
func ort(name string, words ...string) func(*Row) {
	return func(r *Row) { r.ort = variable{name, words} }
}

// metavar is the facet of a setting with its own placeholder in help.
func metavar(word string) func(*Row) { return func(r *Row) { r.Takes = word } }

// alias is the facet of a setting with an earlier name in Python.
func alias(name string) func(*Row) { return func(r *Row) { r.Alias = name } }

// group sets the heading of rows.
func group(title string, rows ...Row) []Row {
	for i := range rows {
		rows[i].Group = title
	}
	return rows
}

// Variable is the name of the setting's environment variable.
func (r Row) Variable() string { return "MEMOPT_" + strings.ToUpper(r.Name) }

// Uses reports whether a command uses the setting.
func (r Row) Uses(command string) bool {
	return r.Commands == nil || slices.Contains(r.Commands, command)
}

// Listed reports whether the flag may be repeated, all of its values counting.
func (r Row) Listed() bool { return r.Form == Names || r.Form == Sizes }

// Help is the help text: what the setting does, and its default.
func (r Row) Help() string {
	if r.Default == "" {
		return r.Doc
	}
	return r.Doc + " (default " + r.Default + ")"
}

// read checks a JSON value's type and parses it into c.
func (r Row) read(c *Config, v value) error {
	if v.isJSON() && !slices.Contains(r.takes, v.json.Type) {
		return v.fail("%s instead of %s", typeName(v.json), r.want)
	}
	return r.parse(c, v)
}

// Rows lists every setting, in the order of help texts.
func Rows() []Row { return slices.Clone(rows) }

// Find returns the row of a setting.
func Find(name string) (Row, bool) {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
	if i < 0 {
		return Row{}, false
	}
	return rows[i], true
}

// Shaping lists the settings that change the training step.
func Shaping() (names []string) {
	for _, r := range rows {
		if r.Shapes {
			names = append(names, r.Name)
		}
	}
	return names
}

// rowNames lists the names of all settings, in the order of the table.
func rowNames() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}

package configs

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Row is one setting: everything that is known of it. Its flag and help, its
// environment variable, its field of a config file and of the schema, its entry in the
// service's map and its keyword in Python are all made from here.
type Row struct {
	Name     string   // in files, in the service's map and in Python
	Flag     string   // on a command line, without dashes
	Doc      string   // the one help text
	Group    string   // what it is listed under
	Form     Form     // how its values are written
	Takes    string   // what stands for a value in help: SIZE, on|off|auto
	Words    []string // values that a shell completes
	Default  string   // as text; "" where nothing is set
	Commands []string // that heed it; nil for every one
	Alias    string   // an earlier name in Python, still taken
	Shapes   bool     // the training step is made from it, so a plan file carries it

	ort   variable // ONNX Runtime's own
	takes []gjson.Type
	want  string
	json  map[string]any // its schema

	reset func(*Config)              // to the default
	parse func(*Config, value) error // sets it
	copy  func(to, from *Config)     // sets it as in another
	print func(*Config) string
	in    func(*Config, Folder) // of a path: where it begins
}

// Form is how the values of a setting are written. Python's types are made from it.
type Form string

// The forms.
const (
	Word      Form = "word"      // one of Words
	Switch    Form = "switch"    // on, off, or another of Words
	Whole     Form = "whole"     // an integer
	Number    Form = "number"    // a real number
	Size      Form = "size"      // bytes, or a share
	Share     Form = "share"     // a part of something
	Text      Form = "text"      // a name
	Path      Form = "path"      // of a file or folder
	Names     Form = "names"     // a list
	Sizes     Form = "sizes"     // numbers by name
	Elsewhere Form = "elsewhere" // settings that stand elsewhere: the path of a file, its text, or clusters
	Scale     Form = "scale"     // a number, or one of Words
)

// variable is an environment variable that somebody else gave its name.
type variable struct {
	name  string
	words []string // where it takes only these
}

// row makes a row of its kind, its place in Config, its default, and facets.
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

// shapes is the facet of settings that a training step is made from.
func shapes(r *Row) { r.Shapes = true }

// flag is the facet of a setting whose flag has another name.
func flag(name string) func(*Row) { return func(r *Row) { r.Flag = name } }

// ort is the facet of a setting that ONNX Runtime has a variable for.
func ort(name string, words ...string) func(*Row) {
	return func(r *Row) { r.ort = variable{name, words} }
}

// metavar is the facet of a setting whose values are called otherwise than its kind's.
func metavar(word string) func(*Row) { return func(r *Row) { r.Takes = word } }

// alias is the facet of a setting that had another name in Python.
func alias(name string) func(*Row) { return func(r *Row) { r.Alias = name } }

// group puts rows under a title.
func group(title string, rows ...Row) []Row {
	for i := range rows {
		rows[i].Group = title
	}
	return rows
}

// Variable is the environment variable that holds the setting.
func (r Row) Variable() string { return "MEMOPT_" + strings.ToUpper(r.Name) }

// Heeds reports whether a command heeds the setting.
func (r Row) Heeds(command string) bool {
	return r.Commands == nil || slices.Contains(r.Commands, command)
}

// Listed reports whether the setting may be given several times on a command line, and
// all of them count.
func (r Row) Listed() bool { return r.Form == Names || r.Form == Sizes }

// Help is the text of a flag: what it does, and the default.
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

// Rows is the table: every setting, in the order of help texts.
func Rows() []Row { return slices.Clone(rows) }

// Find returns the row of a name.
func Find(name string) (Row, bool) {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
	if i < 0 {
		return Row{}, false
	}
	return rows[i], true
}

// Shaping is the names of the settings that a training step is made from.
func Shaping() (names []string) {
	for _, r := range rows {
		if r.Shapes {
			names = append(names, r.Name)
		}
	}
	return names
}

// rowNames is the names of all settings, in the order of the table.
func rowNames() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}

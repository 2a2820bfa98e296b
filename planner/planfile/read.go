package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"memopt/internal/whole"
)

// maxFile bounds a plan file: a million launches fit.
const maxFile = 1 << 30

// Read reads a plan file without a graph. A file that lacks what every plan has is refused, and so is one with a
// field that no plan has: a *FieldError.
func Read(path string) (*File, error) {
	data, err := whole.Read(path, "a plan file", maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &File{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(f) // as far as it goes, also where a field is unknown
	switch {
	case err != nil && !json.Valid(data):
		return nil, fmt.Errorf("%s is not a plan file: %w", path, err)
	case f.Format != Format:
		return nil, fmt.Errorf("%s has format %q; this version reads %q", path, f.Format, Format)
	case err != nil:
		return nil, unlike(path, data, err)
	}
	if err := f.complete(data); err != nil {
		return nil, fmt.Errorf("%s is not a whole plan file: %w", path, err)
	}
	return f, nil
}

// everyPlan lists the fields that plan files have had from the first on: what shows a plan reads them.
var everyPlan = []string{"model.fingerprint", "model.nodes", "dims", "request.budget", "strategy", "baseline.peak", "baseline.flops",
	"result.peak", "result.arena", "result.overhead", "floor.peak", "memory.total", "clusters", "steps", "offsets", "program"}

// complete refuses a file, read from data, that lacks what every plan has.
func (f *File) complete(data []byte) error {
	missing := slices.DeleteFunc(slices.Clone(everyPlan), func(field string) bool { return gjson.GetBytes(data, field).Exists() })
	switch {
	case len(missing) > 0:
		return fmt.Errorf("it has no %s", strings.Join(missing, ", "))
	case f.Model.Fingerprint == "":
		return fmt.Errorf("its model.fingerprint is empty")
	case len(f.Program) != f.Model.Nodes:
		return fmt.Errorf("its program has %d lines, its model %d nodes", len(f.Program), f.Model.Nodes)
	}
	return nil
}

// FieldError is a field of a plan file that no plan has.
type FieldError struct {
	File  string
	Path  string   // where it is: clusters[7].cots
	Field string   // its name alone
	Known []string // those that there are in its place
	Near  string   // the one of them that was probably meant; "" if none is near
}

func (e *FieldError) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("%s: unknown field %s; did you mean %q, or is the file of a newer version?", e.File, clip(e.Path), e.Near)
	}
	return fmt.Sprintf("%s: unknown field %s, which a newer version may have written; known are %s", e.File, clip(e.Path), strings.Join(e.Known, ", "))
}

// unlike is why a decoder has refused the JSON of a plan file: it knows that a field is unknown, but not where.
func unlike(path string, data []byte, why error) error {
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		why = err
	} else if e := strange("", all, reflect.TypeFor[File]()); e != nil {
		e.File = path
		return e
	}
	return fmt.Errorf("%s is not a plan file: %w", path, why)
}

// strange is the first field of a JSON value, at a path, that its type has not.
func strange(at string, x any, t reflect.Type) *FieldError {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch x := x.(type) {
	case map[string]any:
		if t.Kind() != reflect.Struct { // the names are the user's, of dims and settings
			return nil
		}
		known := jsonFields(t)
		for _, name := range slices.Sorted(maps.Keys(x)) {
			i := slices.IndexFunc(known, func(f jsonField) bool { return strings.EqualFold(f.name, name) })
			path := strings.TrimPrefix(at+"."+name, ".")
			if i < 0 {
				return &FieldError{Path: path, Field: name, Known: namesOf(known)}
			}
			if e := strange(path, x[name], known[i].of); e != nil {
				return e
			}
		}
	case []any:
		if t.Kind() != reflect.Slice { // which the decoder tells
			return nil
		}
		for i := range x {
			if e := strange(fmt.Sprintf("%s[%d]", at, i), x[i], t.Elem()); e != nil {
				return e
			}
		}
	}
	return nil
}

// jsonField is a field of a struct under its name in JSON.
type jsonField struct {
	name string
	of   reflect.Type
}

// jsonFields lists the fields of a struct, those of what it embeds among them.
func jsonFields(t reflect.Type) (all []jsonField) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if f.Anonymous {
			all = append(all, jsonFields(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, jsonField{name, f.Type})
	}
	return all
}

func namesOf(fields []jsonField) (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

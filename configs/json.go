package configs

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	files "memopt/internal/whole"
)

// maxSize bounds a config file. A typical one has a few KiB.
const maxSize = 1 << 20

// rootForms completes error messages about a file's content.
const rootForms = `need an array of cluster strings like ["BiasGelu+:1:-1"] or an object of settings`

// schemaKey is the field by which editors find the schema of a file. It is not a setting.
const schemaKey = "$schema"

// ParseFile reads a config file.
func ParseFile(path string) (Config, error) {
	src, err := files.Read(path, "a config", maxSize)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	c, err := ParseJSON(src, path)
	c.files = []string{path}
	return c, err
}

// unmarked removes a byte order mark, which some editors add and ONNX Runtime's reader skips, too.
// Positions are counted behind it, as in editors.
func unmarked(s string) string { return strings.TrimPrefix(s, "\ufeff") }

// ParseJSON reads a config: ONNX Runtime's array of cluster strings, or an object of settings.
// Errors call the source name.
func ParseJSON(src []byte, name string) (Config, error) {
	if len(src) > maxSize {
		return Config{}, &Error{Pos{File: name}, fmt.Sprintf("more than the %d bytes a config may have", maxSize)}
	}
	t := &text{name: name, s: unmarked(string(src))}
	if e := scan(t.s); e != nil {
		return Config{}, &Error{t.pos(e.off), e.msg}
	}
	c := Default()
	root := gjson.Parse(t.s)
	switch {
	case root.IsArray():
		return c, c.read(t, "config", "", root)
	case root.IsObject():
		return c, c.readObject(t, root)
	}
	return Config{}, jsonValue(t, "", root).fail("is %s, %s", typeName(root), rootForms)
}

// readObject reads an object of settings.
func (c *Config) readObject(t *text, root gjson.Result) (err error) {
	seen := map[string]Pos{}
	root.ForEach(func(key, val gjson.Result) bool {
		here := t.pos(key.Index)
		if first, ok := seen[key.Str]; ok {
			err = &Error{here, fmt.Sprintf("field %s is given twice, first at %s", quote(key.Str), first)}
			return false
		}
		seen[key.Str] = here
		if key.Str == schemaKey {
			return true
		}
		if _, ok := Find(key.Str); !ok {
			err = &Error{here, unknownField(key.Str)}
			return false
		}
		err = c.read(t, key.Str, key.Str, val)
		return err == nil
	})
	return err
}

// read reads the setting called name from a JSON value; errors call it label.
func (c *Config) read(t *text, name, label string, val gjson.Result) error {
	r, _ := Find(name)
	pos := t.pos(val.Index)
	if err := r.read(c, jsonValue(t, label, val)); err != nil {
		return err
	}
	c.give(name, Source{Origin: OriginFile, Pos: pos})
	return nil
}

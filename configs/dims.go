package configs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// dimForms completes error messages about dims.
const dimForms = "write name=size as in batch=8,seq=1024"

// ParseDims reads sizes of named dims, "batch=8,seq=1024". Each is at least 1. An empty text is no
// dims.
func ParseDims(s string) (map[string]int64, error) {
	return parseDims(textValue(&text{name: "dims", s: s, flat: true}))
}

func parseDims(v value) (map[string]int64, error) {
	if v.json.IsArray() {
		return nil, v.fail("is an array, need an object of sizes or a string: %s", dimForms)
	}
	if v.json.IsObject() {
		return objectDims(v)
	}
	if strings.TrimSpace(v.s) == "" {
		return nil, nil
	}
	dims := map[string]int64{}
	at := 0
	for part := range strings.SplitSeq(v.s, ",") {
		name, size, ok := strings.Cut(part, "=")
		name, size = strings.TrimSpace(name), strings.TrimSpace(size)
		switch {
		case strings.TrimSpace(part) == "":
			return nil, v.failAt(at, "an entry is empty, %s", dimForms)
		case !ok:
			return nil, v.failAt(at, "%s has no size, %s", quote(part), dimForms)
		}
		if err := addDim(dims, v, at, name, size); err != nil {
			return nil, err
		}
		at += len(part) + 1
	}
	return dims, nil
}

// objectDims reads {"batch": 8}.
func objectDims(v value) (dims map[string]int64, err error) {
	dims = map[string]int64{}
	v.json.ForEach(func(key, size gjson.Result) bool {
		at := size.Index - v.at
		if size.Type != gjson.Number {
			err = v.failAt(at, "%s is %s, need an integer of at least 1", quote(key.Str), typeName(size))
			return false
		}
		err = addDim(dims, v, at, key.Str, size.Raw)
		return err == nil
	})
	return dims, err
}

// addDim adds a dim; at is its position for error messages.
func addDim(dims map[string]int64, v value, at int, name, size string) error {
	if name == "" {
		return v.failAt(at, "a size has no name, %s", dimForms)
	}
	if !IsDimName(name) {
		return v.failAt(at, "%s has characters that a dim's name cannot have", quote(name))
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != size {
		return v.failAt(at, "%s is not the size of %s, need an integer from 1 to 9223372036854775807", quote(size), quote(name))
	}
	if old, ok := dims[name]; ok {
		return v.failAt(at, "%s is given twice, as %d and %d", quote(name), old, n)
	}
	if len(dims) == maxItems {
		return v.failAt(at, "more than %d dims", maxItems)
	}
	dims[name] = n
	return nil
}

// IsDimName reports whether a dim may have this name: it must be read back as one name.
func IsDimName(name string) bool { return isOneLine(name) && !strings.ContainsAny(name, "=,") }

// FormatDims is the inverse of ParseDims, in the order of names.
func FormatDims(dims map[string]int64) string {
	parts := make([]string, 0, len(dims))
	for name, size := range dims {
		parts = append(parts, name+"="+strconv.FormatInt(size, 10))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

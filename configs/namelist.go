package configs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	files "memopt/internal/whole"
)

// listFile marks an entry of a list of names as the path of a file that holds names.
const listFile = "@"

// Limits of a file of names.
const (
	maxListSize = 16 << 20
	maxNames    = 1 << 20
)

// lists makes paths of files in entries relative to the folder.
func (f Folder) lists(entries []string) (out []string) {
	for _, entry := range entries {
		pattern := strings.TrimPrefix(entry, "!")
		if path, is := strings.CutPrefix(pattern, listFile); is {
			entry = entry[:len(entry)-len(pattern)] + listFile + f.Path(path)
		}
		out = append(out, entry)
	}
	return out
}

// ReadNames replaces entries that name files by the names in these files; an exclamation mark in
// front of the entry applies to all of them.
func ReadNames(list []string) (all []string, err error) {
	for _, entry := range list {
		path, not := strings.CutPrefix(entry, "!")
		path, is := strings.CutPrefix(path, listFile)
		if !is {
			all = append(all, entry)
			continue
		}
		names, err := readNames(path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if not {
				name = "!" + name
			}
			all = append(all, name)
		}
	}
	return all, nil
}

// readNames reads a file of names: a JSON array of strings, or one a line, where lines that begin
// with # are comments.
func readNames(path string) (names []string, err error) {
	src, err := files.Read(path, "that a list of names", maxListSize)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	fail := func(line int, msg string) error { return &Error{Pos{path, line, 1}, msg} }
	if !utf8.Valid(src) {
		return nil, fail(1, "is not UTF-8 text, need names, one a line or as a JSON array")
	}
	text := unmarked(string(src))
	if json.Unmarshal([]byte(text), &names) != nil {
		names = nil
		for i, line := range strings.Split(text, "\n") {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			if !isOneLine(line) {
				return nil, fail(i+1, quote(line)+" has control characters, need a name")
			}
			names = append(names, line)
		}
	}
	switch {
	case slices.Contains(names, ""):
		return nil, fail(1, "holds an empty name")
	case len(names) == 0:
		return nil, fail(1, "holds no names")
	case len(names) > maxNames:
		return nil, fail(1, fmt.Sprintf("more than %d names", maxNames))
	}
	return names, nil
}

// listFiles lists the files that entries name.
func listFiles(lists ...[]string) (paths []string) {
	for _, entry := range slices.Concat(lists...) {
		if path, is := strings.CutPrefix(strings.TrimPrefix(entry, "!"), listFile); is {
			paths = append(paths, path)
		}
	}
	return paths
}

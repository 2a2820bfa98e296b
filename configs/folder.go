package configs

import (
	"os"
	"path/filepath"
)

// Folder is the current folder of whoever gives settings, where this process is in
// another: relative paths in them begin there. The empty Folder is this process's own.
type Folder string

// Path is a path as it is meant there.
func (f Folder) Path(path string) string {
	if path == "" || f == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(string(f), path)
}

// Config is what a flag or variable holds that names a config there, as ParseConfig
// takes it here. What is no file there, and may be the settings themselves, stays.
func (f Folder) Config(s string) string {
	path := f.Path(s)
	if _, err := os.Stat(path); err != nil && (isJSON(s) || isClusters(s)) {
		return s
	}
	return path
}

// Lookup is that of an environment there, as FromEnv takes it here.
func (f Folder) Lookup(lookup func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		s, ok := lookup(name)
		if name == configVariable {
			s = f.Config(s)
		}
		return s, ok
	}
}

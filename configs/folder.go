package configs

import "path/filepath"

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

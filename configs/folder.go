package configs

import "path/filepath"

// Folder is the current folder of the user who gives settings, if this process runs in another one:
// relative paths begin there. The empty Folder is this process's current folder.
type Folder string

// Path resolves a path relative to the folder.
func (f Folder) Path(path string) string {
	if path == "" || f == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(string(f), path)
}

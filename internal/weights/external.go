package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// memoryNote is the location that ONNX Runtime writes for bytes in its memory, with an
// address as the offset. In a file it is invalid.
const memoryNote = "*/_ORT_MEM_ADDR_/*"

// ExternalPath returns where the external data of the model at modelPath is, for
// a location as it stands in the model. The answer is the model's folder joined
// with the location.
//
// The location must be relative and stay in the folder as written. Symbolic
// links may lead to the same folder, or, for the data file itself, to the folder of the
// real model file: a cache keeps both as links into one folder of blobs. A link
// on the way that leaves the model's folder is refused, and so is anything that is
// not a regular file. Each call asks the file system about each part of the path, so
// callers with many tensors in one file ask once.
func ExternalPath(modelPath, location string) (string, error) {
	fail := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("external data location %s of %s: %s", quote(location), modelPath, fmt.Sprintf(format, args...))
	}
	switch {
	case location == "":
		return fail("is empty, need the name of a file beside the model")
	case strings.ContainsRune(location, 0):
		return fail("contains a NUL byte")
	case location == memoryNote:
		return fail("refers to another process's memory: the model was saved without its weights, save it again from its source")
	case isAbsolute(location):
		return fail("is absolute, need a path relative to the model's folder")
	}
	if leavesFolder(location) {
		return fail("leaves the model's folder")
	}
	name := filepath.Clean(location)
	if name == "." {
		return fail("is the model's folder, need a file in it")
	}

	folder := filepath.Dir(modelPath)
	path := filepath.Join(folder, name)
	realFolder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return fail("model's folder: %v", cause(err))
	}
	// The folder part must stay in the model's folder, links followed. Only the last
	// step may be a link into a cache.
	realParent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return fail("%v", cause(err))
	}
	if !within(realFolder, realParent) {
		return fail("leads through a link to %s, outside the model's folder", realParent)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fail("%v", cause(err))
	}
	if !within(realFolder, real) {
		realModel, err := filepath.EvalSymlinks(modelPath)
		if err != nil || !within(filepath.Dir(realModel), real) {
			return fail("is a link to %s, outside the model's folder and outside the folder of the real model file", real)
		}
	}
	info, err := os.Stat(real)
	if err != nil {
		return fail("%v", cause(err))
	}
	if !info.Mode().IsRegular() {
		return fail("is %s, need a regular file", modeName(info.Mode()))
	}
	return path, nil
}

// OpenExternal maps the external data of the model at modelPath, for a location as
// it stands in the model. The opened file is in one of the folders that ExternalPath
// allows, even if links and folders change meanwhile.
func OpenExternal(modelPath, location string) (*File, error) {
	path, err := ExternalPath(modelPath, location)
	if err != nil {
		return nil, err
	}
	h, err := openIn(filepath.Dir(modelPath), filepath.Clean(location))
	if err != nil {
		// A link into the folder of the real model file, as caches have.
		var again error
		if h, again = openLinked(modelPath, path); again != nil {
			return nil, fmt.Errorf("external data location %s of %s: %w", quote(location), modelPath, cause(err))
		}
	}
	return mapOpened(h, path, mapFile)
}

// openIn opens a file in a folder and refuses links that leave it.
func openIn(folder, name string) (*os.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
}

func openLinked(modelPath, path string) (*os.File, error) {
	model, err := filepath.EvalSymlinks(modelPath)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(model)
	name, err := filepath.Rel(folder, real)
	if err != nil {
		return nil, err
	}
	return openIn(folder, name)
}

// isAbsolute reports whether a location is absolute on any system: a model
// written elsewhere means the same thing here.
func isAbsolute(location string) bool {
	drive := len(location) >= 2 && location[1] == ':' && isLetter(location[0])
	return drive || location[0] == '/' || location[0] == '\\' || filepath.IsAbs(location)
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// leavesFolder follows the parts of a location, either slash between them, and
// reports whether they ever climb above their start.
func leavesFolder(location string) bool {
	depth := 0
	for part := range strings.FieldsFuncSeq(location, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch part {
		case ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// within reports whether path is folder or lies in it; both are free of links.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// cause strips the system call and the path from a file error: the message names both already.
func cause(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}

// quote prints any location on one line, shortened if it is long.
func quote(s string) string {
	const most = 120
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}

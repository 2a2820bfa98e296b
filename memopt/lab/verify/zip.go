package verify

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// OpenZip opens cases in a zip file. Symbolic links, which stand for files of equal content, read as their targets.
func OpenZip(name string) (fs.FS, io.Closer, error) {
	z, err := zip.OpenReader(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	links := map[string]string{}
	for _, f := range z.File {
		if f.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		to, err := fs.ReadFile(z, f.Name)
		if err != nil {
			z.Close()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		links[f.Name] = path.Join(path.Dir(f.Name), string(to))
	}
	return linked{&z.Reader, links}, z, nil
}

// linked is a file system with symbolic links to files.
type linked struct {
	fs.FS
	to map[string]string
}

// Open follows one link; targets are not links themselves.
func (l linked) Open(name string) (fs.File, error) {
	if to, is := l.to[name]; is {
		name = to
	}
	return l.FS.Open(name)
}

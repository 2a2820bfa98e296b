package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"memopt/memopt/whole"
)

// destinations checks, before any work is done, that the files that flags name
// can be written: a run that ends with nowhere to put its result is lost time.
// Nor may one of them be what the command reads, or two of them the same.
func destinations(c *cli.Context, flags ...string) error {
	taken := map[string]string{}
	for _, flag := range flags {
		path := c.String(flag)
		if path == "" {
			continue
		}
		if path == "-" {
			return usage("--%s: standard output is no file that appears whole; name one (./- for one called -)", flag)
		}
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			return usage("--%s: %s is not a file that can be replaced", flag, path)
		}
		for _, source := range sources(c, flags) {
			if from, e := os.Stat(source); err == nil && e == nil && os.SameFile(info, from) {
				return usage("--%s: %s is read, and would be overwritten; choose another name", flag, path)
			}
		}
		if other, ok := taken[filepath.Clean(path)]; ok {
			return usage("--%s and --%s both write %s", other, flag, path)
		}
		taken[filepath.Clean(path)] = flag
		if err := isFolder(filepath.Dir(path)); err != nil {
			return usage("--%s %s: %s", flag, path, err)
		}
	}
	return nil
}

// sources are the files that a command reads. A checkpoint that is resumed is
// none of them: it may well be where the next one goes.
func sources(c *cli.Context, written []string) []string {
	paths := c.Args().Slice()
	for _, flag := range []string{"data", "check", "config", "profile"} {
		if !slices.Contains(written, flag) && c.String(flag) != "" {
			paths = append(paths, c.String(flag))
		}
	}
	return paths
}

// isFolder reports why files cannot be made in a folder.
func isFolder(dir string) error {
	f, err := os.CreateTemp(dir, ".memopt-*")
	if err != nil {
		return usage("%s", reason(dir, err))
	}
	f.Close()
	return os.Remove(f.Name())
}

func reason(dir string, err error) string {
	switch {
	case os.IsNotExist(err):
		return "there is no folder " + dir
	case os.IsPermission(err):
		return "the folder " + dir + " cannot be written to"
	}
	return "in the folder " + dir + " nothing can be written: " + underlying(err)
}

// underlying is an error without the name of a file that the user never chose.
func underlying(err error) string {
	if p, ok := err.(*os.PathError); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// writeFile writes a file that appears whole or not at all.
func writeFile(path string, data []byte) error {
	if err := whole.Bytes(path, data); err != nil {
		return usage("%s: %s", path, err)
	}
	return nil
}

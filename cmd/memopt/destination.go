package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/onnx"
	"memopt/internal/visible"
	"memopt/internal/whole"
	"memopt/memopt/step"
)

// destination is a file to be written, and the flag, or argument of a request, that names it.
type destination struct{ name, path string }

// files lists the files that are written there: a model may have its weights in a second file.
func (d destination) files() []string {
	if strings.TrimPrefix(d.name, "--") == "emit" {
		return onnx.Written(d.path)
	}
	return []string{d.path}
}

// destinations returns the files that flags name, checked by writable.
func destinations(c *cli.Context, cfg configs.Config, flags ...string) (all []destination, err error) {
	for _, flag := range flags {
		if path := c.String(flag); path != "" {
			all = append(all, destination{"--" + flag, path})
		}
	}
	for _, to := range all {
		if from := c.String("resume"); from != "" && to.name != "--save" && oneFile(to.path, from) {
			return nil, overwrites(to, to.path)
		}
	}
	return all, writable(all, append(sources(c, flags), cfg.Files()...))
}

// writable checks, before any work is done, that files can be written, so that no run ends without
// a place for its result; that none of them is read by the command; and that no two are the same.
func writable(all []destination, read []string) error {
	var taken []destination
	for _, to := range all {
		if to.path == "-" {
			return usage("%s: cannot write to standard output; name a file (./- for one called -)", to.name)
		}
		if info, err := os.Stat(to.path); err == nil && !info.Mode().IsRegular() {
			return usage("%s: %s is not a file that can be replaced", to.name, to.path)
		}
		if err := spares(to, read); err != nil {
			return err
		}
		for _, file := range to.files() {
			for _, other := range taken {
				if oneFile(file, other.path) {
					return usage("%s and %s both write %s", other.name, to.name, file)
				}
			}
		}
		for _, file := range to.files() {
			taken = append(taken, destination{to.name, file})
		}
		if err := whole.Try(to.path); err != nil {
			return usage("%s %s: %s", to.name, to.path, reason(to.path, err))
		}
	}
	return nil
}

// spares returns an error if a file to be written is one that is read.
func spares(to destination, read []string) error {
	for _, file := range to.files() {
		for _, source := range read {
			if oneFile(file, source) {
				return overwrites(to, file)
			}
		}
	}
	return nil
}

// oneFile reports whether two paths lead to the same file, through symbolic or hard links, whether
// it exists or not.
func oneFile(a, b string) bool {
	if x, err := os.Stat(a); err == nil {
		y, err := os.Stat(b)
		return err == nil && os.SameFile(x, y)
	}
	a, errA := whole.Target(a)
	b, errB := whole.Target(b)
	if errA != nil || errB != nil || filepath.Base(a) != filepath.Base(b) {
		return false
	}
	x, errA := os.Stat(filepath.Dir(a))
	y, errB := os.Stat(filepath.Dir(b))
	return errA == nil && errB == nil && os.SameFile(x, y)
}

func overwrites(to destination, file string) error {
	return usage("%s: %s is read, and would be overwritten; choose another name", to.name, file)
}

// spareModel is spares for the files of a model, which are known once it is open: its weights may
// lie in files of their own.
func spareModel(all []destination, m *step.Model) error {
	for _, to := range all {
		for _, file := range to.files() {
			if m.Reads(file) {
				return overwrites(to, file)
			}
		}
	}
	return nil
}

// sources lists the files that a command reads, except those of its settings. A checkpoint to
// resume from is not one of them: the next checkpoint may replace it.
func sources(c *cli.Context, written []string) []string {
	paths := c.Args().Slice()
	for _, flag := range []string{"data", "check", "profile"} {
		if !slices.Contains(written, flag) && c.String(flag) != "" {
			paths = append(paths, c.String(flag))
		}
	}
	return paths
}

// reason says why a file cannot be created at a path.
func reason(path string, err error) string {
	if to, err := whole.Target(path); err == nil {
		path = to
	}
	dir := filepath.Dir(path)
	_, absent := os.Stat(dir)
	switch {
	case os.IsNotExist(err) && absent == nil: // as of /proc
		return "no files can be created in the folder " + dir
	case os.IsNotExist(err):
		return "there is no folder " + dir
	case os.IsPermission(err):
		return "the folder " + dir + " cannot be written to"
	}
	return "cannot write in the folder " + dir + ": " + underlying(err)
}

// underlying is the error without its path, which may be a temporary name.
func underlying(err error) string {
	if p, ok := err.(*os.PathError); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// writeText writes a text for people, with control characters made visible.
func writeText(ctx context.Context, path string, data []byte) error {
	return writeFile(ctx, path, visible.Bytes(data))
}

// writeFile writes a file that appears complete or not at all.
func writeFile(ctx context.Context, path string, data []byte) error {
	if err := whole.BytesContext(ctx, path, data); err != nil {
		return usage("%s: %s", path, err)
	}
	return nil
}

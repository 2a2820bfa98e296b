package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt"
	"memopt/memopt/onnx"
	"memopt/memopt/visible"
	"memopt/memopt/whole"
)

// destination is a file that will be written, and what names it: a flag, or the
// argument of a request.
type destination struct{ name, path string }

// files are those that are written there: a model may have its weights beside it.
func (d destination) files() []string {
	if strings.TrimPrefix(d.name, "--") == "emit" {
		return onnx.Written(d.path)
	}
	return []string{d.path}
}

// destinations are the files that flags name to be written, checked.
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

// writable checks, before any work is done, that files can be written: a run that
// ends with nowhere to put its result is lost time. Nor may one of them be what is
// read, or two of them the same.
func writable(all []destination, read []string) error {
	var taken []destination
	for _, to := range all {
		if to.path == "-" {
			return usage("%s: standard output is no file that appears whole; name one (./- for one called -)", to.name)
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

// spares reports a file to be written that is one of those which are read.
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

// oneFile is whether two paths lead to one file, through links and hard links, there
// already or to be made.
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

// spareModel is spares for the files of a model, which are known once it is open: it
// may have its weights beside it.
func spareModel(all []destination, m *memopt.Model) error {
	for _, to := range all {
		for _, file := range to.files() {
			if m.Reads(file) {
				return overwrites(to, file)
			}
		}
	}
	return nil
}

// sources are the files that a command reads, beside those of its settings. A checkpoint that is resumed is
// none of them: it may well be where the next one goes.
func sources(c *cli.Context, written []string) []string {
	paths := c.Args().Slice()
	for _, flag := range []string{"data", "check", "profile"} {
		if !slices.Contains(written, flag) && c.String(flag) != "" {
			paths = append(paths, c.String(flag))
		}
	}
	return paths
}

// reason is why no file can be made at a path.
func reason(path string, err error) string {
	if to, err := whole.Target(path); err == nil {
		path = to
	}
	dir := filepath.Dir(path)
	_, absent := os.Stat(dir)
	switch {
	case os.IsNotExist(err) && absent == nil: // as of /proc
		return "the folder " + dir + " takes no files"
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

// writeText is writeFile of a text that is for a screen.
func writeText(ctx context.Context, path string, data []byte) error {
	return writeFile(ctx, path, visible.Bytes(data))
}

// writeFile writes a file that appears whole or not at all.
func writeFile(ctx context.Context, path string, data []byte) error {
	if err := whole.BytesContext(ctx, path, data); err != nil {
		return usage("%s: %s", path, err)
	}
	return nil
}

package pack

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// An Instance is a problem that packers are compared on.
type Instance struct {
	Name string
	Problem
}

// instanceFiles are google/minimalloc's instances; testdata/README.md describes them.
//
//go:embed testdata/?.1048576.csv
var instanceFiles embed.FS

// MiniMalloc returns Google's eleven hard instances, published under the Apache License 2.0. The middle part of a file's name
// is a capacity that has a solution.
func MiniMalloc() (all []Instance, err error) {
	files, err := fs.Glob(instanceFiles, "testdata/*.csv")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		parts := strings.Split(path.Base(file), ".")
		f, err := instanceFiles.Open(file)
		if err != nil {
			return nil, err
		}
		p, err := ReadCSV(f)
		if err == nil {
			p.Capacity, err = strconv.ParseInt(parts[1], 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, Instance{parts[0], p})
	}
	return all, nil
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"memopt/internal/golden"
)

// TestHelp: the help of the program and of every command, in 80 columns, a file each.
func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	folder := filepath.Join("testdata", "help")
	known := map[string]bool{}
	show := func(name string, args ...string) {
		file := name + ".txt"
		known[file] = true
		var out, notes bytes.Buffer
		if code := run(append(args, "--help"), &out, &notes); code != 0 || notes.Len() > 0 {
			t.Errorf("%v --help: exit code %d, %s", args, code, &notes)
		}
		golden.File(t, filepath.Join(folder, file), out.String())
	}
	show("memopt", "memopt")
	for _, c := range commands {
		show(c.Name, "memopt", c.Name)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s is the help of no command", f.Name())
		}
	}
}

package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"memopt/configs"
)

// mistaken reports a plan given for a model, or the reverse, with the right command. Other mistakes
// are left to the readers of the files.
func mistaken(command string, names, args []string) error {
	for i, name := range names {
		path := configs.ShellWord(args[i])
		switch is := kindOf(args[i]); {
		case name == "PLAN" && is == modelFile && command == "check" && kindOf(args[1]) == planFile:
			return usage("%s is a model and %s a plan, and memopt check takes the plan first: memopt check %s %s", args[0], args[1], configs.ShellWord(args[1]), path)
		case name == "PLAN" && is == modelFile:
			return usage("%s is a model, not a plan; memopt plan %s -o %s writes its plan (add --dims and --budget), then: memopt %s %s", args[i], path, planOf(path), command, planOf(path))
		case name == "MODEL" && is == planFile:
			return usage("%s is a plan, not a model; memopt explain %s shows it, and memopt %s takes the plan's model", args[i], path, command)
		}
	}
	return nil
}

// planOf is a name for a model's plan.
func planOf(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".plan.json"
}

type fileKind int

const (
	otherFile fileKind = iota
	modelFile
	planFile
)

// kindOf guesses the kind of a file by its first bytes.
func kindOf(path string) fileKind {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return otherFile
	}
	f, err := os.Open(path)
	if err != nil {
		return otherFile
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := io.ReadFull(f, head)
	head = bytes.TrimLeft(head[:n], " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head, []byte(`"memopt.plan/`)):
		return planFile
	case bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head, []byte(`"memopt-fx-joint/`)), bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return modelFile // a recorded step, plain or compressed
	case bytes.HasPrefix(head, []byte{0x08}):
		return modelFile // ONNX begins with field 1, ir_version
	}
	return otherFile
}

// ofFiles is the text of an error, in which an error of the system has the form "file: what is
// wrong".
func ofFiles(err error, msg string) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		msg = strings.Replace(msg, p.Error(), p.Path+": "+p.Err.Error(), 1)
	}
	return strings.ReplaceAll(msg, "no such file or directory", "no such file")
}

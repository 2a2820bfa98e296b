package weights

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tree lays out files: a path ending in / is a folder, one with -> a link.
func tree(t testing.TB, entries ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		name, target, link := strings.Cut(e, " -> ")
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o700)
		default:
			err = os.WriteFile(path, []byte(name), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestExternalPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege")
	}
	root := tree(t,
		"plain/model.onnx", "plain/w.bin", "plain/sub/w.bin", "plain/..w", "plain/sub/deep/",
		"plain/inside -> sub", "plain/alias.bin -> sub/w.bin",
		"plain/outside -> ../elsewhere", "plain/leak.bin -> ../elsewhere/secret", "plain/dangling -> nowhere",
		"plain/loop -> loop", "plain/passwd -> /etc/passwd", "plain/zero -> /dev/zero",
		"elsewhere/secret",
		"linked -> plain",
		// The Hugging Face cache: everything in a snapshot is a link to a blob.
		"cache/blobs/abc", "cache/blobs/def", "cache/blobs/more/def", "cache/private",
		"cache/snapshots/1/model.onnx -> ../../blobs/abc",
		"cache/snapshots/1/model.onnx_data -> ../../blobs/def",
		"cache/snapshots/1/onnx/model.onnx -> ../../../blobs/abc",
		"cache/snapshots/1/onnx/model.onnx_data -> ../../../blobs/def",
		"cache/snapshots/1/escape -> ../../private",
		"cache/snapshots/1/blobs -> ../../blobs",
		"cache/snapshots/1/passwd -> /etc/passwd",
	)
	for _, c := range []struct{ model, location, want string }{
		{"plain", "w.bin", ""},
		{"plain", "./w.bin", ""},
		{"plain", "sub/w.bin", ""},
		{"plain", "sub/../w.bin", ""},
		{"plain", "..w", ""},
		{"plain", "inside/w.bin", ""},
		{"plain", "alias.bin", ""},
		{"linked", "sub/w.bin", ""},
		{"cache/snapshots/1", "model.onnx_data", ""},
		{"cache/snapshots/1/onnx", "model.onnx_data", ""},

		{"plain", "", "is empty"},
		{"plain", ".", "is the model's folder"},
		{"plain", "sub/..", "is the model's folder"},
		{"plain", "../../etc/passwd", "leaves the model's folder"},
		{"plain", "..", "leaves the model's folder"},
		{"plain", "../plain/w.bin", "leaves the model's folder"},
		{"plain", "sub/../../elsewhere/secret", "leaves the model's folder"},
		{"plain", `..\elsewhere\secret`, "leaves the model's folder"},
		{"plain", "/etc/passwd", "is absolute"},
		{"plain", `\\host\share`, "is absolute"},
		{"plain", `C:\w.bin`, "is absolute"},
		{"plain", "C:w.bin", "is absolute"},
		{"plain", "w.bin\x00.txt", "contains a NUL byte"},
		{"plain", "absent.bin", "no such file or directory"},
		{"plain", "absent/w.bin", "no such file or directory"},
		{"plain", "w.bin/x", "not a directory"},
		{"plain", strings.Repeat("x", 5000), "(5000 bytes) of"},
		{"plain", "sub/deep", "is a folder, need a regular file"},
		{"plain", "line\nbreak", `"line\nbreak"`},
		{"plain", memoryNote, "saved without its weights"},
		{"plain", "outside/secret", "leads through a link"},
		{"plain", "leak.bin", "is a link to"},
		{"plain", "passwd", "is a link to /etc/passwd"},
		{"plain", "zero", "is a link to /dev/zero"},
		{"plain", "dangling", "no such file or directory"},
		{"plain", "loop", "too many links"},
		{"cache/snapshots/1", "escape", "is a link to"},
		{"cache/snapshots/1", "blobs/def", "leads through a link"},
		{"cache/snapshots/1", "passwd", "is a link to /etc/passwd"},
	} {
		model := filepath.Join(root, c.model, "model.onnx")
		got, err := ExternalPath(model, c.location)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %q: %v", c.model, c.location, err)
		case c.want == "" && got != filepath.Join(root, c.model, filepath.Clean(c.location)):
			t.Errorf("%s %q: %s", c.model, c.location, got)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s %q: %v, want it to say %s", c.model, c.location, err, c.want)
		}
	}
}

// A model given by a bare name has the current folder as its own.
func TestExternalPathOfABareName(t *testing.T) {
	t.Chdir(tree(t, "model.onnx", "w.bin"))
	if got, err := ExternalPath("model.onnx", "w.bin"); err != nil || got != "w.bin" {
		t.Errorf("%q, %v", got, err)
	}
}

// Whatever the location, what is opened by it lies in the model's folder.
func FuzzExternalPath(f *testing.F) {
	for _, s := range []string{"w.bin", "sub/w.bin", "../secret", "sub/../../secret", "/etc/passwd", "./.././w.bin", "out/secret", `..\x`, "\x00", "sub//w.bin/"} {
		f.Add(s)
	}
	root := tree(f, "model/m.onnx", "model/w.bin", "model/sub/w.bin", "model/out -> ..", "secret")
	model := filepath.Join(root, "model", "m.onnx")
	folder, err := filepath.EvalSymlinks(filepath.Dir(model))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, location string) {
		path, err := ExternalPath(model, location)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of two lines: %v", err)
			}
			return
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !strings.HasPrefix(real, folder+string(filepath.Separator)) {
			t.Errorf("%q leads to %s (%v)", location, real, err)
		}
	})
}

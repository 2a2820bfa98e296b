package whole_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"memopt/internal/whole"
)

func fill(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// files lists a folder's files with their contents.
func files(t *testing.T, dir string) (all string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all += e.Name() + ":" + string(data) + " "
	}
	return all
}

// TestContext: when the context ends while a file is written, or just after, what was
// there stays and nothing else is left.
func TestContext(t *testing.T) {
	for _, there := range []string{"", "a:old "} {
		dir := t.TempDir()
		if there != "" {
			if err := whole.Bytes(filepath.Join(dir, "a"), []byte("old")); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := whole.WriteContext(ctx, filepath.Join(dir, "a"), func(w io.Writer) error {
			err := fill("new")(w)
			cancel()
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if is := files(t, dir); is != there {
			t.Errorf("left %q, not %q", is, there)
		}
		func() {
			defer func() { recover() }()
			whole.WriteContext(t.Context(), filepath.Join(dir, "a"), func(io.Writer) error { panic("a bug") })
		}()
		if is := files(t, dir); is != there {
			t.Errorf("a panic left %q, not %q", is, there)
		}
	}
}

// TestTogether: files of one context appear at its commit, all of them or none.
// TestApart: a file that others are made from is there before the commit of those.
func TestApart(t *testing.T) {
	dir := t.TempDir()
	ctx, commit, close := whole.Together(t.Context())
	defer close()
	if err := whole.WriteContext(whole.Apart(ctx), filepath.Join(dir, "between"), fill("1")); err != nil {
		t.Fatal(err)
	}
	if err := whole.WriteContext(ctx, filepath.Join(dir, "end"), fill("2")); err != nil {
		t.Fatal(err)
	}
	between, end := filepath.Join(dir, "between"), filepath.Join(dir, "end")
	if b, err := os.ReadFile(between); err != nil || string(b) != "1" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(end); err == nil {
		t.Error("the other file is there before the commit")
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(end); err != nil || string(b) != "2" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestTogether(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(t *testing.T, dir string, cancel func(), commit func() error)
		want  string
	}{
		{"commit", func(t *testing.T, dir string, _ func(), commit func() error) {
			for _, name := range []string{"a", "b"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
					t.Errorf("before the commit there is %q", name)
				}
			}
			if err := commit(); err != nil {
				t.Error(err)
			}
		}, "a:1 b:2 "},
		{"no commit", func(*testing.T, string, func(), func() error) {}, ""},
		{"ended before", func(t *testing.T, _ string, cancel func(), commit func() error) {
			cancel()
			if err := commit(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			ctx, commit, close := whole.Together(ctx)
			for name, text := range map[string]string{"a": "1", "b": "2"} {
				if err := whole.WriteContext(ctx, filepath.Join(dir, name), fill(text)); err != nil {
					t.Fatal(err)
				}
			}
			c.write(t, dir, cancel, commit)
			close()
			if is := files(t, dir); is != c.want {
				t.Errorf("left %q, not %q", is, c.want)
			}
		})
	}
}

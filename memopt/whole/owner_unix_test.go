//go:build linux || darwin

package whole_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"memopt/memopt/whole"
)

// TestKeepsPermissions: what is overwritten keeps its mode, whatever umask is.
func TestKeepsPermissions(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o640, 0o666, 0o755, 0o444} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte("old"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := whole.Bytes(path, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("mode %v (%v), want %v", info.Mode(), err, mode)
		}
	}
}

// TestKeepsOwner: so does the owner, where the system lets us.
func TestKeepsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 54321); err != nil {
		t.Skip("only root gives files away: ", err)
	}
	if err := whole.Bytes(path, nil); err != nil {
		t.Fatal(err)
	}
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil || s.Uid != 12345 || s.Gid != 54321 {
		t.Errorf("owner %d:%d (%v)", s.Uid, s.Gid, err)
	}
}

// TestFollowsLinks: a link stays, also one that leads to nothing yet.
func TestFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"a": "d/first", "b": "a", "c": filepath.Join(dir, "d/other"), "loop": "loop", "d/up": "../third"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for link, want := range map[string]string{"b": "d/first", "c": "d/other", "d/up": "third"} {
		for _, text := range []string{"new", "again"} {
			if err := whole.Bytes(filepath.Join(dir, link), []byte(text)); err != nil {
				t.Fatal(link, err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, want)); err != nil || string(got) != text {
				t.Errorf("%s: %q (%v) in %s", link, got, err, want)
			}
			if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s is no link any more (%v)", link, err)
			}
		}
	}
	if err := whole.Bytes(filepath.Join(dir, "loop"), nil); err == nil {
		t.Error("a link to itself was written")
	}
}

// TestLongNames: a name may have as many bytes as the system lets it.
func TestLongNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	for range 2 {
		if err := whole.Bytes(path, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSweep: a temporary file of a process that was killed goes with the next
// file that is written there; one of a live process stays, and so does what only
// looks like one.
func TestSweep(t *testing.T) {
	if dir := os.Getenv("WHOLE_TEST_HANG"); dir != "" {
		err := whole.Write(filepath.Join(dir, "f"), func(w io.Writer) error {
			os.Stdout.WriteString("writing\n")
			time.Sleep(time.Minute)
			return errors.New("nobody ended it")
		})
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, what := range map[string]string{".memopt-7-1x": "other", ".memopt-x": "other", "x.memopt-7-1": "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(what), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".memopt-x", filepath.Join(dir, ".memopt-7-2")); err != nil {
		t.Fatal(err)
	}
	const others = 4
	count := func() int {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	hang := exec.Command(os.Args[0], "-test.run=^TestSweep$")
	hang.Env = append(os.Environ(), "WHOLE_TEST_HANG="+dir)
	out, err := hang.StdoutPipe()
	if err == nil {
		err = hang.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer hang.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "writing\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := whole.Bytes(filepath.Join(dir, "g"), nil); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != others+2 {
		t.Errorf("%d files while the other process writes, want %d", n, others+2)
	}
	hang.Process.Kill()
	hang.Wait()
	if n := count(); n != others+2 {
		t.Fatalf("%d files after it was killed, want %d", n, others+2)
	}
	if err := whole.Bytes(filepath.Join(dir, "g"), nil); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != others+1 {
		t.Errorf("%d files, want %d: what was left behind is still there", n, others+1)
	}
}

// TestRead: no pipe, folder or device is read, and no more than is allowed.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "is not a regular file but a pipe", dir: "is not a regular file but a folder",
		"/dev/zero": "is not a regular file but a device", file: "more than the 4 bytes a test may have", file + "x": "no such file or directory"} {
		if _, err := whole.Read(path, "a test", 4); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
	if data, err := whole.Read(file, "a test", 5); err != nil || string(data) != "12345" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := os.Stat("/proc/self/status"); err == nil { // a file whose length is told as 0
		if data, err := whole.Read("/proc/self/status", "a test", 1<<20); err != nil || !strings.Contains(string(data), "VmSize") {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		if _, err := whole.Read("/proc/self/status", "a test", 10); err == nil {
			t.Error("more than 10 bytes were read")
		}
	}
}

// TestOwn: links of this user and of the system are followed, those of another are not,
// wherever in a chain they stand.
func TestOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a link to somebody else")
	}
	dir := t.TempDir()
	link := func(name, to string, user int) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Symlink(to, path), os.Lchown(path, user, 0)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mine := link("mine", "file", 0)
	theirs := link("theirs", "file", 12345)
	through := link("through", "theirs", 0)
	for path, fine := range map[string]bool{filepath.Join(dir, "file"): true, mine: true, theirs: false, through: false} {
		if err := whole.Own(path); (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "theirs is a link that user 12345 made") {
			t.Errorf("%s: error %v", filepath.Base(path), err)
		}
	}
}

//go:build linux || darwin

package whole_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"memopt/internal/whole"
)

// half is one implementation of the rules: the package, and _whole.py of the Python package.
type half struct {
	name  string
	write func(path string, data []byte) error
	read  func(path string, most int64) ([]byte, error)
	hang  func(path string) *exec.Cmd // a process that says "writing" and never ends it
}

// python answers one line of JSON on its standard input with one on its standard output, in any order.
const python = `
import importlib.util, json, sys, threading
at = importlib.util.spec_from_file_location("_whole", sys.argv[1])
whole = importlib.util.module_from_spec(at)
at.loader.exec_module(whole)
if len(sys.argv) > 2:
    import time
    whole.os.fsync = lambda f: (print("writing", flush=True), time.sleep(60))
    whole.write(sys.argv[2], b"half")
lock = threading.Lock()
def answer(q):
    out = {"ID": q["ID"], "Error": ""}
    try:
        if q["Most"] >= 0:
            out["Data"] = whole.read(q["Path"], q["Most"]).decode("latin-1")
        else:
            whole.write(q["Path"], q["Data"].encode())
    except OSError as e:
        out["Error"] = e.strerror
    with lock:
        print(json.dumps(out), flush=True)
for line in sys.stdin:
    threading.Thread(target=answer, args=[json.loads(line)]).start()
`

// halves does a test with either implementation.
func halves(t *testing.T, test func(t *testing.T, h half)) {
	t.Run("go", func(t *testing.T) { test(t, goHalf()) })
	t.Run("python", func(t *testing.T) { test(t, pythonHalf(t)) })
}

func goHalf() half {
	return half{"go", whole.Bytes, func(path string, most int64) ([]byte, error) { return whole.Read(path, "a test", most) },
		func(path string) *exec.Cmd {
			c := exec.Command(os.Args[0], "-test.run=^TestSweep$")
			c.Env = append(os.Environ(), "WHOLE_TEST_HANG="+path)
			return c
		}}
}

func pythonHalf(t *testing.T) half {
	t.Helper()
	interpreter := os.Getenv("MEMOPT_PYTHON")
	if interpreter == "" {
		interpreter = "python3"
	}
	file, err := filepath.Abs("../../plugin/python/memopt/_whole.py")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(interpreter, "-B", "-c", python, file)
	c.Stderr = os.Stderr
	in, errIn := c.StdinPipe()
	out, errOut := c.StdoutPipe()
	if err := errors.Join(errIn, errOut, c.Start()); err != nil {
		t.Fatalf("the tests need Python: %v", err)
	}
	type message struct {
		ID          int
		Path, Error string
		Data        string
		Most        int64
	}
	var lock sync.Mutex
	waiting := map[int]chan message{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				t.Errorf("%q: %v", line, err)
				return
			}
			lock.Lock()
			waiting[m.ID] <- m
			lock.Unlock()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		<-over
		c.Wait()
	})
	ask := func(m message) (message, error) {
		answer := make(chan message, 1)
		lock.Lock()
		m.ID = len(waiting)
		waiting[m.ID] = answer
		line, err := json.Marshal(m)
		if err == nil {
			_, err = in.Write(append(line, '\n'))
		}
		lock.Unlock()
		if err != nil {
			return m, err
		}
		select {
		case m = <-answer:
		case <-over:
			return m, errors.New("Python has ended")
		}
		if m.Error != "" {
			return m, errors.New(m.Error)
		}
		return m, nil
	}
	return half{"python",
		func(path string, data []byte) error {
			_, err := ask(message{Path: path, Data: string(data), Most: -1})
			return err
		},
		func(path string, most int64) ([]byte, error) {
			m, err := ask(message{Path: path, Most: most})
			return []byte(m.Data), err
		},
		func(path string) *exec.Cmd { return exec.Command(interpreter, "-B", "-c", python, file, path) }}
}

func TestWrite(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
		path := filepath.Join(t.TempDir(), "f")
		for _, want := range []string{"first", "second, longer", ""} {
			if err := h.write(path, []byte(want)); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Fatalf("%q, %v; want %q", got, err, want)
			}
		}
		if err := h.write(filepath.Join(t.TempDir(), "none", "f"), nil); err == nil || !strings.Contains(strings.ToLower(err.Error()), "no such file") {
			t.Fatalf("error %v", err)
		}
	})
}

// TestWriters: whatever writes at the same time, in one process or two, each file is what one of its
// writers wrote, nothing fails, and nothing is left.
func TestWriters(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	text := func(name string, i int) []byte { return []byte(strings.Repeat(fmt.Sprint(name, " ", i, "\n"), 1000)) }
	for _, h := range []half{goHalf(), goHalf(), pythonHalf(t), pythonHalf(t)} {
		for i := range 24 {
			all.Go(func() {
				name := fmt.Sprint("f", i%6)
				for range 5 {
					if err := h.write(filepath.Join(dir, name), text(name, i)); err != nil {
						t.Errorf("%s: %v", h.name, err)
					}
				}
			})
		}
	}
	all.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("%d files are left (%v), want 6", len(entries), err)
	}
	for _, e := range entries {
		got, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fine := false
		for i := range 24 {
			fine = fine || i%6 == int(e.Name()[1]-'0') && string(got) == string(text(e.Name(), i))
		}
		if !fine {
			t.Errorf("%s: %d bytes that nobody wrote", e.Name(), len(got))
		}
	}
}

// TestOnlyFiles: nothing but a regular file is replaced, also where a link leads to it.
func TestOnlyFiles(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		if err := errors.Join(unix.Mkfifo(at("pipe"), 0o666), os.Mkdir(at("folder"), 0o777)); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"pipe": "a pipe", "folder": "a folder"}
		if unix.Mknod(at("null"), unix.S_IFCHR|0o666, 1<<8|3) == nil {
			want["null"] = "a device"
		}
		for name := range want {
			if err := os.Symlink(name, at("to "+name)); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := os.ReadDir(dir)
		for name, kind := range want {
			for _, path := range []string{at(name), at("to " + name)} {
				if err := h.write(path, []byte("x")); err == nil || err.Error() != kind+" cannot be replaced by a file" {
					t.Errorf("%s: error %v", path, err)
				}
			}
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("%d files became %d", len(before), len(after))
		}
	})
}

// TestRights: new files get the rights that the user's other files get.
func TestRights(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
		dir := t.TempDir()
		if err := h.write(filepath.Join(dir, "ours"), nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "theirs"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		ours, _ := os.Stat(filepath.Join(dir, "ours"))
		theirs, _ := os.Stat(filepath.Join(dir, "theirs"))
		if ours.Mode() != theirs.Mode() {
			t.Fatalf("rights %v, a plain new file has %v", ours.Mode(), theirs.Mode())
		}
	})
}

// TestKeepsPermissions: what is overwritten keeps its mode, whatever umask is.
func TestKeepsPermissions(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
		for _, mode := range []os.FileMode{0o600, 0o640, 0o666, 0o755, 0o444} {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, []byte("old"), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if err := h.write(path, []byte("new")); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
				t.Errorf("mode %v (%v), want %v", info.Mode(), err, mode)
			}
		}
	})
}

// TestKeepsOwner: so does the owner, where the system lets us.
func TestKeepsOwner(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 12345, 54321); err != nil {
			t.Skip("only root gives files away: ", err)
		}
		if err := h.write(path, nil); err != nil {
			t.Fatal(err)
		}
		var s unix.Stat_t
		if err := unix.Stat(path, &s); err != nil || s.Uid != 12345 || s.Gid != 54321 {
			t.Errorf("owner %d:%d (%v)", s.Uid, s.Gid, err)
		}
	})
}

// TestFollowsLinks: a link stays, also one that leads to nothing yet.
func TestFollowsLinks(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
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
				if err := h.write(filepath.Join(dir, link), []byte(text)); err != nil {
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
		if err := h.write(filepath.Join(dir, "loop"), nil); err == nil {
			t.Error("a link to itself was written")
		}
	})
}

// TestLinksOfOthers: links of this user and of the system are followed, those of another are not, wherever
// in a chain they stand.
func TestLinksOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a link to somebody else")
	}
	halves(t, func(t *testing.T, h half) {
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
		for path, fine := range map[string]bool{mine: true, theirs: false, through: false} {
			if err := h.write(path, []byte(path)); (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "a link that user 12345 made") {
				t.Errorf("%s: error %v", filepath.Base(path), err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != mine {
			t.Errorf("the file has %q (%v)", got, err)
		}
	})
}

// TestLongNames: a name may have as many bytes as the system lets it.
func TestLongNames(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
		path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
		for range 2 {
			if err := h.write(path, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSweep: a temporary file of a process that was killed goes with the next file that is written
// there, by either half; one of a live process stays, and so does what only looks like one.
func TestSweep(t *testing.T) {
	if path := os.Getenv("WHOLE_TEST_HANG"); path != "" {
		err := whole.Write(path, func(w io.Writer) error {
			os.Stdout.WriteString("writing\n")
			time.Sleep(time.Minute)
			return errors.New("nobody ended it")
		})
		t.Fatal(err)
	}
	python := pythonHalf(t)
	for _, c := range []struct{ killed, sweeps half }{{goHalf(), goHalf()}, {python, goHalf()}, {goHalf(), python}, {python, python}} {
		t.Run(c.killed.name+" "+c.sweeps.name, func(t *testing.T) { testSweep(t, c.killed, c.sweeps) })
	}
}

func testSweep(t *testing.T, killed, sweeps half) {
	dir := t.TempDir()
	for name, what := range map[string]string{".memopt-7-1x": "other", ".memopt-x": "other", "x.memopt-7-1": "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(what), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".memopt-x", filepath.Join(dir, ".memopt-7-2")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, ".memopt-7-3"), 0o600); err != nil {
		t.Fatal(err)
	}
	const others = 5
	count := func() int {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	hang := killed.hang(filepath.Join(dir, "f"))
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
	if err := sweeps.write(filepath.Join(dir, "g"), nil); err != nil {
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
	if err := sweeps.write(filepath.Join(dir, "g"), nil); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != others+1 {
		t.Errorf("%d files, want %d: what was left behind is still there", n, others+1)
	}
}

// TestRead: no pipe, folder or device is read, and no more than is allowed.
func TestRead(t *testing.T) {
	halves(t, func(t *testing.T, h half) {
		dir := t.TempDir()
		pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{pipe: "is not a regular file but a pipe", dir: "is not a regular file but a folder",
			"/dev/zero": "is not a regular file but a device", file: "more than", file + "x": "no such file or directory"} {
			if _, err := h.read(path, 4); err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
				t.Errorf("%s: error %v, want %s", path, err, want)
			}
		}
		if data, err := h.read(file, 5); err != nil || string(data) != "12345" {
			t.Errorf("%q, %v", data, err)
		}
		if _, err := os.Stat("/proc/self/status"); err == nil { // a file whose length is told as 0
			if data, err := h.read("/proc/self/status", 1<<20); err != nil || !strings.Contains(string(data), "VmSize") {
				t.Errorf("%d bytes, %v", len(data), err)
			}
			if _, err := h.read("/proc/self/status", 10); err == nil {
				t.Error("more than 10 bytes were read")
			}
		}
	})
}

package bench

import (
	"bufio"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

//go:embed peers/*.py
var scripts embed.FS

// peers holds the child processes of a run: one for each script and number of threads, as libraries
// read that number when they start.
type peers struct {
	python  string
	running map[string]*peer // nil: not available
	found   []Found
	missing []Missing
}

func newPeers(python string) *peers { return &peers{python: python, running: map[string]*peer{}} }

// open prepares a case of a peer; nil if the peer is missing.
func (p *peers) open(r Rival, threads int) (Side, error) {
	key := fmt.Sprint(r.Script, " ", threads)
	child, started := p.running[key]
	if !started {
		var why error
		if child, why = startPeer(p.python, r.Script, threads); why != nil {
			p.miss(r.Name, why)
		} else {
			p.find(r.Name, child.hello)
		}
		p.running[key] = child
	}
	if child == nil {
		return nil, nil
	}
	var none struct{}
	if err := child.ask(r.Open, &none); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return child, nil
}

func (p *peers) find(name string, is hello) {
	for i := range p.found {
		if f := &p.found[i]; f.Name == name {
			f.Threads = append(f.Threads, is.Threads)
			return
		}
	}
	p.found = append(p.found, Found{name, is.Version, is.Kernels, []int{is.Threads}})
}

func (p *peers) miss(name string, why error) {
	for _, m := range p.missing {
		if m.Name == name {
			return
		}
	}
	m := Missing{Name: name, Why: why.Error(), Advice: "say --python PATH, of Python 3.10 or newer"}
	var absent *absentPackage
	if errors.As(why, &absent) {
		m.Advice = p.python + " -m pip install " + absent.name
	}
	p.missing = append(p.missing, m)
}

func (p *peers) close() {
	for _, c := range p.running {
		if c != nil {
			c.stop()
		}
	}
}

// absentPackage is the error that Python lacks a package that a script needs.
type absentPackage struct{ name string }

func (e *absentPackage) Error() string { return "package " + e.name + " is not installed" }

// peer is a child process that answers lines of JSON with lines of JSON.
type peer struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	errs  *tail
	hello hello
}

// hello is the greeting of a peer.
type hello struct {
	Version, Kernels string
	Threads          int
	Absent           string // name of a missing package
}

// choosing lists variables that make a peer's library choose other kernels or block sizes than by
// default. They are withheld from peers.
var choosing = []string{"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "NPY_DISABLE_CPU_FEATURES"}

// unset lists the variables in choosing that are set in this process.
func unset() (names []string) {
	for _, name := range choosing {
		if _, set := os.LookupEnv(name); set {
			names = append(names, name)
		}
	}
	return names
}

// startPeer runs a script and waits for its greeting.
func startPeer(python, script string, threads int) (*peer, error) {
	var source strings.Builder
	for _, name := range []string{"loop", script} {
		text, err := scripts.ReadFile("peers/" + name + ".py")
		if err != nil {
			panic(err)
		}
		source.Write(text)
	}
	p := &peer{cmd: exec.Command(python, "-c", source.String()), errs: &tail{}}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(choosing, name) {
			p.cmd.Env = append(p.cmd.Env, variable)
		}
	}
	for _, name := range []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+strconv.Itoa(threads))
	}
	p.cmd.Stderr = p.errs
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.answer(&p.hello); err != nil {
		p.stop()
		return nil, err
	}
	if absent := p.hello.Absent; absent != "" {
		p.stop()
		return nil, &absentPackage{absent}
	}
	return p, nil
}

func (p *peer) Run(n int) (t Time, err error) {
	err = p.ask(map[string]any{"run": n}, &t)
	return t, err
}

// Close keeps the child for the next case; stop ends it.
func (p *peer) Close() {}

func (p *peer) stop() {
	p.in.Close() // ends its loop
	p.cmd.Wait()
}

func (p *peer) ask(question map[string]any, answer any) error {
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return p.gone(err)
	}
	return p.answer(answer)
}

func (p *peer) answer(to any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return p.gone(err)
	}
	var failed struct{ Error string }
	if err := json.Unmarshal(line, &failed); err != nil {
		return fmt.Errorf("it answered %q, which is no JSON", strings.TrimSpace(string(line)))
	}
	if failed.Error != "" {
		return errors.New(failed.Error)
	}
	return json.Unmarshal(line, to)
}

// gone is the error that a child does not answer, with the end of its output.
func (p *peer) gone(err error) error {
	p.in.Close()
	p.cmd.Wait()
	if last := p.errs.line(); last != "" {
		return errors.New(last)
	}
	return fmt.Errorf("it ended: %w", err)
}

// tail keeps the end of the text written to it.
type tail struct{ bytes []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	t.bytes = t.bytes[max(0, len(t.bytes)-4096):]
	return len(p), nil
}

func (t *tail) line() string {
	lines := strings.Split(strings.TrimSpace(string(t.bytes)), "\n")
	return lines[len(lines)-1]
}

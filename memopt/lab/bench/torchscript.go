package bench

import (
	"bufio"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed torch/*.py
var torchFiles embed.FS

// torchScript is the Python program that runs one model, in a temporary folder.
type torchScript struct{ python, folder, version string }

func newTorchScript(python string) (*torchScript, error) {
	folder, err := os.MkdirTemp("", "memopt-bench-")
	if err != nil {
		return nil, err
	}
	s := &torchScript{python: python, folder: folder}
	files, err := torchFiles.ReadDir("torch")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := torchFiles.ReadFile("torch/" + f.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, f.Name()), text, 0o600)
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *torchScript) close() { os.RemoveAll(s.folder) }

// run runs one model of run.py.
func (s *torchScript) run(model string, quick bool, progress func(string)) (found TorchModel, err error) {
	return found, s.answer(&found, progress, quick, "run.py", model)
}

// answer runs one of the scripts, with this executable as the service, and reads its result.
func (s *torchScript) answer(result any, progress func(string), quick bool, file string, args ...string) error {
	args = append([]string{filepath.Join(s.folder, file)}, args...)
	if quick {
		args = append(args, "--quick")
	}
	errs := &tail{}
	c := exec.Command(s.python, args...)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(choosing, name) {
			c.Env = append(c.Env, variable)
		}
	}
	if os.Getenv("MEMOPT_PLUGIN_PATH") == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		c.Env = append(c.Env, "MEMOPT_PLUGIN_PATH="+self)
	}
	c.Env = append(c.Env, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	c.Stderr = errs
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	done := false
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var says struct {
			Says, Absent, Version string
			Result                json.RawMessage
		}
		if err := json.Unmarshal(line, &says); err != nil {
			c.Process.Kill()
			c.Wait()
			return fmt.Errorf("it answered %q, which is not as expected: %w", strings.TrimSpace(string(line)), err)
		}
		switch {
		case says.Absent != "":
			c.Wait()
			return &NoTorchError{s.python, says.Absent}
		case says.Version != "":
			s.version = says.Version
		case says.Result != nil:
			if err := json.Unmarshal(says.Result, result); err != nil {
				c.Process.Kill()
				c.Wait()
				return fmt.Errorf("its result is not as expected: %w", err)
			}
			done = true
		case progress != nil:
			progress(says.Says)
		}
	}
	if err := c.Wait(); err != nil || !done {
		if last := errs.line(); last != "" {
			return errors.New(last)
		}
		return fmt.Errorf("it ended: %w", err)
	}
	return nil
}

//go:build unix

package plugin

import (
	"os/exec"
	"testing"
	"time"
)

func TestWatchProcess(t *testing.T) {
	for name, watch := range map[string]func(int, func()){"watch": watchProcess, "poll": pollProcess} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sleep", "60")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			gone := make(chan bool, 1)
			watch(cmd.Process.Pid, func() { gone <- true })
			select {
			case <-gone:
				t.Fatal("gone while it lives")
			case <-time.After(50 * time.Millisecond):
			}
			cmd.Process.Kill()
			cmd.Wait() // the poll sees no process where a zombie is left
			select {
			case <-gone:
			case <-time.After(time.Second):
				t.Fatal("not noticed within a second")
			}
		})
	}
}

func TestWatchProcessThatIsGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan bool, 1)
	watchProcess(cmd.Process.Pid, func() { gone <- true })
	select {
	case <-gone:
	case <-time.After(time.Second):
		t.Fatal("not noticed within a second")
	}
}

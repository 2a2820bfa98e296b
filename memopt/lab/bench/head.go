package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Head is the context of figures: what was run, on what machine, when. Every bench's JSON begins
// with it.
type Head struct {
	Format  string  `json:"format"`
	Bench   string  `json:"bench"`
	Command string  `json:"command"`
	Version string  `json:"version"` // of memopt
	Date    string  `json:"date"`    // end of the run, in UTC
	Machine Machine `json:"machine"`
}

// Machine is the machine that figures depend on.
type Machine struct {
	Processor string `json:"processor"` // as named by the system
	// Model is the numbers that distinguish processors of one name; "" if unknown.
	Model string `json:"model,omitempty"`
	Cores int    `json:"cores"` // available to this process
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
}

// NewHead is the head of a run of a bench that ends now.
func NewHead(bench, command, version string) Head {
	return Head{"memopt.bench/1", bench, command, version, time.Now().UTC().Format(time.RFC3339), thisMachine()}
}

func thisMachine() Machine {
	m := Machine{Processor: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.identify(string(data))
	}
	return m
}

// identify reads the name and numbers of the first processor in Linux's cpuinfo.
func (m *Machine) identify(cpuinfo string) {
	first, _, _ := strings.Cut(cpuinfo, "\n\n")
	fields := map[string]string{}
	for line := range strings.Lines(first) {
		name, value, _ := strings.Cut(line, ":")
		fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if name := fields["model name"]; name != "" {
		m.Processor = name
	}
	var numbers []string
	for _, name := range []string{"cpu family", "model", "stepping", "CPU implementer", "CPU part"} {
		if value := fields[name]; value != "" {
			numbers = append(numbers, strings.TrimPrefix(strings.TrimPrefix(name, "cpu "), "CPU ")+" "+value)
		}
	}
	m.Model = strings.Join(numbers, ", ")
}

// Text writes the head for people.
func (h Head) Text(w io.Writer) {
	m := h.Machine
	if m.Model != "" {
		m.Processor += " (" + m.Model + ")"
	}
	cores := "cores"
	if m.Cores == 1 {
		cores = "core"
	}
	fmt.Fprintf(w, "%s, memopt %s, %s\n%s, %d %s, %s/%s, %s\n\n", h.Command, h.Version, h.Date, m.Processor, m.Cores, cores, m.OS, m.Arch, m.Go)
}

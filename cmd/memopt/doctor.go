package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/kernels"
	"memopt/memopt/devices"
	"memopt/memopt/report"
	"memopt/memopt/step"
)

var doctorCommand = &cli.Command{
	Name:      "doctor",
	Category:  "This machine",
	Usage:     "check the installation, and say how to get what is missing",
	ArgsUsage: " ",
	UsageText: "memopt doctor",
	Flags: common(
		&cli.StringFlag{Name: "findings", Usage: "findings of python -m memopt, as JSON", Hidden: true},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		var findings, python []finding
		if text := c.String("findings"); text != "" {
			if err := json.Unmarshal([]byte(text), &python); err != nil {
				return usage("--findings: %s", err)
			}
		}
		for _, look := range examinations {
			findings = append(findings, look())
		}
		if python == nil {
			python = []finding{lookPython()}
		}
		findings = append(findings, python...)
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.doctor/1", "version": step.Version, "findings": findings})
		}
		var rows [][]string
		for _, f := range findings {
			mark := "ok"
			if !f.OK {
				mark = "–"
			}
			rows = append(rows, []string{mark, f.Name, f.Found})
			if f.Advice != "" {
				rows = append(rows, []string{"", "", f.Advice})
			}
		}
		report.Table(c.App.Writer, "llt", rows)
		return nil
	},
}

// finding is the result of one examination.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// examinations is the table of examinations, except for Python's.
var examinations = []func() finding{lookProgram, lookMachine, lookMemory, lookOperators, lookVulkan, lookSockets}

func lookProgram() finding {
	f := finding{Name: "memopt", OK: true, Found: step.Version + ", " + runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				f.Found += ", revision " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return f
}

func lookMachine() finding {
	return finding{Name: "cpu device", OK: true, Found: fmt.Sprintf("%s/%s, %d cores, products by %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), kernels.Processor())}
}

func lookMemory() finding {
	f := finding{Name: "memory"}
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		f.Found = "not known on this system"
		return f
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			if kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
				f.OK, f.Found = true, report.Bytes(kb<<10)+" available"
			}
		}
	}
	return f
}

func lookOperators() finding {
	return finding{Name: "operators", OK: true, Found: fmt.Sprintf("%d forms in the library (memopt ops lists them)", len(kernels.Library.All()))}
}

// lookVulkan lists Vulkan devices. None is no problem, as the CPU device runs everything.
func lookVulkan() finding {
	f := finding{Name: "vulkan", Found: "no device"}
	all, missing := devices.List(nil)
	var names []string
	for _, d := range all {
		if d.Unfit == "" {
			names = append(names, fmt.Sprintf("%s (%s)", d.Name, d.Kind))
		}
	}
	switch {
	case len(names) > 0:
		f.OK, f.Found = true, strings.Join(names, ", ")
	case missing != "":
		f.Found, f.Advice = "none", missing
	default:
		f.Advice = "a driver is needed: mesa-vulkan-drivers on Debian and Ubuntu; memopt devices says more"
	}
	return f
}

func lookPython() finding {
	f := finding{Name: "python", Advice: "install Python 3.10 or newer and: pip install grpcio protobuf"}
	path, err := exec.LookPath("python3")
	if err != nil {
		f.Found = "python3 is not on PATH; only the Python package needs it"
		return f
	}
	out, err := exec.Command(path, "-c", "import sys, grpc; print('%d.%d.%d' % sys.version_info[:3], 'grpcio', grpc.__version__)").Output()
	if err != nil {
		f.Found = path + " has no grpcio; only the Python package needs it"
		return f
	}
	return finding{Name: "python", OK: true, Found: path + " " + strings.TrimSpace(string(out))}
}

func lookSockets() finding {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = "/tmp"
	}
	tmp, err := os.MkdirTemp(dir, "memopt-doctor-")
	if err != nil {
		return finding{Name: "service folder", Found: err.Error(), Advice: "the service needs a folder for its socket: set XDG_RUNTIME_DIR to one you can write to"}
	}
	os.Remove(tmp)
	return finding{Name: "service folder", OK: true, Found: filepath.Dir(tmp)}
}

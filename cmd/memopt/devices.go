package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/internal/visible"
	"memopt/memopt/devices"
	"memopt/memopt/report"
)

var devicesCommand = &cli.Command{
	Name:      "devices",
	Category:  "This machine",
	Usage:     "list the devices that a step can run on, and what --device auto selects",
	ArgsUsage: " ",
	UsageText: "memopt devices",
	Flags:     settingFlags("devices"),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		cfg, err := settings(c)
		if err != nil {
			return err
		}
		all, missing := devices.List(cfg.FastPaths)
		name, why := devices.Choice()
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.devices/1", "auto": map[string]string{"device": name, "why": why},
				"cpu": map[string]any{"arch": runtime.GOARCH, "workers": runtime.GOMAXPROCS(0)}, "vulkan": all, "missing": missing})
		}
		rows := [][]string{{"--device", "kind", "name", "driver", "memory"},
			{"cpu", "built in", fmt.Sprintf("%s, %d workers", runtime.GOARCH, runtime.GOMAXPROCS(0)), "", ""}}
		for _, d := range all {
			rows = append(rows, []string{d.Device, d.Kind, d.Name, d.Driver, heapsText(d.Heaps)})
		}
		report.Table(c.App.Writer, "=llttt", rows)
		for _, d := range all {
			visible.Fprintf(c.App.Writer, "\n%s %s\n", d.Device, d.Name)
			details := [][]string{
				{"", "Vulkan", d.API},
				{"", "subgroup", fmt.Sprint(d.Limits.Subgroup)},
				{"", "a buffer shown to a shader", report.Bytes(d.Limits.Range)},
				{"", "a block of memory", report.Bytes(d.Limits.Allocation)},
				{"", "offsets are multiples of", fmt.Sprint(d.Limits.Alignment)},
				{"", "groups of a dispatch", fmt.Sprint(d.Limits.Groups)},
				{"", "features", strings.Join(d.Features, ", ")},
			}
			for _, f := range d.Paths {
				details = append(details, []string{"", "fast path " + f.Name, pathText(f)})
			}
			for i, t := range d.Types {
				details = append(details, []string{"", fmt.Sprintf("memory type %d", i), fmt.Sprintf("heap %d: %s", t.Heap, strings.Join(t.Flags, ", "))})
			}
			if d.Unfit != "" {
				details = append(details, []string{"", "cannot be used", d.Unfit})
			}
			report.Table(c.App.Writer, "llt", details)
		}
		report.Text(c.App.Writer, 2, "\nauto is %s: %s\n", name, why)
		if missing != "" {
			warn(c, missing)
		}
		return nil
	},
}

// pathText says what a fast path does, and whether it is used.
func pathText(f devices.Path) string {
	if f.Taken {
		return "taken: " + f.Does
	}
	return "not taken, " + f.Why + ": " + f.Does
}

// heapsText is the sizes of heaps, and the bytes that the driver leaves to this process.
func heapsText(heaps []devices.Heap) string {
	var all []string
	for _, h := range heaps {
		text := report.Bytes(h.Size)
		if h.Local {
			text += " local"
		}
		if h.Budget > 0 {
			text += fmt.Sprintf(" (%s for us, %s taken)", report.Bytes(h.Budget), report.Bytes(h.Usage))
		}
		all = append(all, text)
	}
	return strings.Join(all, " + ")
}

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/visible"
	"memopt/memopt"
	"memopt/memopt/report"
)

var leaksCommand = &cli.Command{
	Name:      "leaks",
	Category:  "Inspect",
	Before:    gcForService,
	Usage:     "load, train and unload a model repeatedly; show memory that grows, by owner",
	ArgsUsage: "MODEL",
	UsageText: "memopt leaks gpt.onnx --dims batch=8,seq=64\n" +
		"memopt leaks gpt.onnx --dims batch=8,seq=64 --device vulkan --cycles 50",
	Description: "Each cycle opens the model, plans it, runs two steps on made-up numbers and closes it. The first quarter of the cycles " +
		"are not counted. The exit code is 1 if anything grows.",
	Flags: settingFlags("leaks",
		&cli.IntFlag{Name: "cycles", Value: 20, Usage: "`N` number of cycles, 8 or more (default 20)"},
	),
	Action: onModel(func(c *cli.Context, cfg configs.Config, asJSON bool) error {
		n := c.Int("cycles")
		if n < 8 || n > 1<<20 {
			return usage("--cycles is at least 8, not %d: fewer cannot show growth", n)
		}
		s, since := newStatus(c), time.Now()
		found, err := memopt.FindLeaks(c.Context, c.Args().First(), cfg, n, func(cycle int) { s.show("%s", bar(cycle, n, time.Since(since))) })
		s.clear()
		if err != nil {
			return err
		}
		if asJSON {
			err = printJSON(c.App.Writer, leaksJSON(found))
		} else {
			printLeaks(c.App.Writer, c.Args().First(), found)
		}
		if err == nil && found.Grow() {
			return cannot{filepath.Base(c.Args().First()) + ": something grows from cycle to cycle"}
		}
		return err
	}),
}

func printLeaks(w io.Writer, path string, l *memopt.Leaks) {
	report.Text(w, 2, "%s: %d cycles of load, two steps and unload on %s\n\n", visible.Line(filepath.Base(path)), l.Cycles, l.Device)
	rows := [][]string{{"left after", "the first", "the last", "a cycle", ""}}
	for _, o := range l.Owners {
		show := func(n int64) string {
			if o.Bytes {
				return report.Bytes(n)
			}
			return fmt.Sprint(n)
		}
		each := show(int64(o.PerCycle))
		if !o.Bytes {
			each = strings.TrimSuffix(fmt.Sprintf("%.1f", o.PerCycle), ".0")
		}
		verdict := "does not grow"
		if o.Grows {
			verdict = "GROWS"
		}
		rows = append(rows, []string{o.Name, show(o.Sizes[0]), show(o.Sizes[len(o.Sizes)-1]), each, verdict})
	}
	report.Table(w, "=lrrrl", rows)
}

// leaksFile is the JSON of leaks.
type leaksFile struct {
	Format string       `json:"format"`
	Device string       `json:"device"`
	Cycles int          `json:"cycles"`
	Grows  bool         `json:"grows"`
	Owners []growthFile `json:"owners"`
}

type growthFile struct {
	Owner    string  `json:"owner"`
	Unit     string  `json:"unit"` // bytes or count
	PerCycle float64 `json:"per_cycle"`
	Grows    bool    `json:"grows"`
	Sizes    []int64 `json:"sizes"`
}

func leaksJSON(l *memopt.Leaks) leaksFile {
	f := leaksFile{Format: "memopt.leaks/1", Device: l.Device, Cycles: l.Cycles, Grows: l.Grow()}
	for _, o := range l.Owners {
		unit := "count"
		if o.Bytes {
			unit = "bytes"
		}
		f.Owners = append(f.Owners, growthFile{o.Name, unit, o.PerCycle, o.Grows, o.Sizes})
	}
	return f
}

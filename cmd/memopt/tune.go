package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/visible"
	"memopt/memopt"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/memopt/training"
)

var tuneCommand = &cli.Command{
	Name:      "tune",
	Category:  "This machine",
	Usage:     "measure the variants of a model's Vulkan kernels, for runs with --tune on",
	ArgsUsage: "MODEL",
	UsageText: "memopt tune gpt.onnx --dims batch=8,seq=64 --device vulkan",
	Description: "Sizes that were measured on the device before are not measured again. It takes 20 s at most; what is left then is " +
		"measured by the next call. All variants of a kernel give the same bits.",
	Flags: settingFlags("tune"),
	Action: onModel(func(c *cli.Context, cfg configs.Config, asJSON bool) error {
		s := newStatus(c)
		s.show("measuring kernels")
		t, err := training.Tune(cfg, func(cfg configs.Config) (*step.Model, error) {
			return memopt.OpenContext(c.Context, c.Args().First(), cfg)
		})
		s.clear()
		if err != nil {
			return err
		}
		warn(c, t.Warnings...)
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.tune/1", "device": t.Device, "file": t.File, "known": t.Known, "measured": t.Measured, "left": t.Left})
		}
		printTuned(c.App.Writer, c.Args().First(), t)
		return nil
	}),
}

func printTuned(w io.Writer, path string, t *training.TunedKernels) {
	report.Text(w, 2, "%s on %s: %d kinds of kernels measured, %d known before, %d left\n", visible.Line(filepath.Base(path)), visible.Line(t.Device), len(t.Measured), t.Known, len(t.Left))
	if len(t.Measured) > 0 {
		rows := [][]string{{"kernel and size", "fastest", "time", "expected", "time"}}
		for _, x := range t.Measured {
			rows = append(rows, []string{x.Class, x.Variant, micros(x.Took), x.Expected, micros(x.Would)})
		}
		fmt.Fprintln(w)
		report.Table(w, "=llrlr", rows)
	}
	visible.Fprintf(w, "\nkept in %s\n", t.File)
}

func micros(d time.Duration) string {
	return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
}

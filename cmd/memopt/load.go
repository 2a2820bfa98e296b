package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/loader"
	"memopt/memopt/load"
	"memopt/memopt/report"
	"memopt/plugin"
)

var loadCommand = &cli.Command{
	Name:      "load",
	Category:  "Run",
	Before:    gcForService,
	Usage:     "load a forward model's weights to a device and unload them, and show the memory of each phase",
	ArgsUsage: "MODEL",
	UsageText: "memopt load gpt.onnx --dims batch=1,seq=128\n" +
		"memopt load gpt.onnx --dims batch=1,seq=128 --load-mode all --device vulkan",
	Description: "W is the bytes of all weights, w of the largest, A of the activations of a run, c of the ring buffer that weights stream through. " +
		"Promised figures are computed before the load; measured ones are the allocations made, and the process as the operating system counts it.",
	Flags: settingFlags("load"),
	Action: onModel(func(c *cli.Context, cfg configs.Config, asJSON bool) error {
		path := c.Args().First()
		done := busy(c, "loading "+filepath.Base(path))
		found, err := loaded(c.Context, path, cfg)
		done()
		if err != nil {
			return err
		}
		return found.print(c, asJSON)
	}),
}

func (front) Load(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	return ask(ctx, r, func(j job) (answer, error) { return loaded(j.ctx, j.model, j.cfg) }, "load")
}

// loaded loads a model in one mode, or in each in turn.
func loaded(ctx context.Context, path string, cfg configs.Config) (answer, error) {
	modes := []string{cfg.LoadMode}
	if cfg.LoadMode == "all" {
		modes = loader.Modes()
	}
	var loads []*load.Loaded
	var unsuited []*loader.UnsuitedError
	for _, name := range modes {
		mode, err := loader.ParseMode(name)
		if err != nil {
			return answer{}, asInput(err)
		}
		l, err := load.Repeatedly(ctx, path, cfg, mode, cfg.Reloads, cfg.Repeats)
		var not *loader.UnsuitedError
		if cfg.LoadMode == "all" && errors.As(err, &not) {
			unsuited = append(unsuited, not)
			continue
		}
		if err != nil {
			return answer{}, err
		}
		loads = append(loads, l)
	}
	text := func(w io.Writer) {
		for i, l := range loads {
			if i > 0 {
				fmt.Fprintln(w)
			}
			loadText(w, filepath.Base(path), l)
		}
		if len(loads) > 1 {
			fmt.Fprintln(w)
			modesText(w, loads)
		}
		for _, e := range unsuited {
			report.Text(w, 0, "%s: left out: %s\n", e.Mode, e.Why)
		}
	}
	if len(loads) == 1 {
		return answer{loads[0], text}, nil
	}
	return answer{map[string]any{"format": "memopt.loads/1", "loads": loads, "eager_to_streamed": ratios(loads), "left_out": leftOut(unsuited)}, text}, nil
}

// leftOut lists the modes that do not suit the device, and why.
func leftOut(unsuited []*loader.UnsuitedError) map[loader.Mode]string {
	all := map[loader.Mode]string{}
	for _, e := range unsuited {
		all[e.Mode] = e.Why
	}
	return all
}

// loadText prints one load.
func loadText(w io.Writer, model string, l *load.Loaded) {
	fmt.Fprintf(w, "%s on %s, %s\n", model, l.Device, l.Mode)
	report.Text(w, 2, "W %s in %d weights, largest w %s, A %s, c %s\n\n", report.Bytes(l.W), l.Weights, report.Bytes(l.Largest), report.Bytes(l.A), report.Bytes(l.C))
	report.Phases(w, l.Phases)
	fmt.Fprintln(w)
	spread := func(x load.Spread) []string {
		return []string{unlessUnknown(x.Min), unlessUnknown(x.Median), unlessUnknown(x.Max)}
	}
	row := func(name, promised string, x load.Spread, why string) []string {
		return append(append([]string{name, promised}, spread(x)...), why)
	}
	head := []string{"", "promised", "least", "middle", "most", fmt.Sprintf("of %d loads", l.Repeats)}
	report.Table(w, "=lrrrrt", [][]string{head,
		row("device", report.Bytes(l.DevicePromised), l.Spread.Device, "at most; "+driverText(l)),
		row("device and host", report.Bytes(l.Promised), l.Spread.Both, l.Formula+", of weights and activations, as allocated"),
		row("process", "", l.Spread.System, "at most, above P1; "+l.Rule),
		row("host", "", l.Spread.HostGrowth, "most anonymous memory above P1, without the device"),
	})
	report.Text(w, 2, "left after %d reloads: %s on the device; each added %s to the process\n", l.Reloads, report.Bytes(l.LeftDevice), report.Signed(l.LeftHost))
}

func unlessUnknown(n int64) string {
	if n < 0 {
		return "not reported"
	}
	return report.Bytes(n)
}

// driverText is the driver's count at the end of the load.
func driverText(l *load.Loaded) string {
	for _, p := range l.Phases {
		if p.Name == "P7" && p.Driver != nil {
			return fmt.Sprintf("the driver counts %s of %s", report.Bytes(p.Driver.Usage), report.Bytes(p.Driver.Budget))
		}
	}
	return "driver: not reported"
}

// modesText prints a comparison of loads in several modes.
func modesText(w io.Writer, loads []*load.Loaded) {
	rows := [][]string{{"mode", "device", "device and host", "promised", "process", "formula"}}
	for _, l := range loads {
		rows = append(rows, []string{string(l.Mode), report.Bytes(l.DeviceMeasured), report.Bytes(l.Measured), report.Bytes(l.Promised), unlessUnknown(l.System), l.Formula})
	}
	report.Table(w, "=lrrrrt", rows)
	var said []string
	for _, r := range ratios(loads) {
		said = append(said, fmt.Sprintf("%.2f × %s", r.Ratio, r.Of))
	}
	if said != nil {
		fmt.Fprintf(w, "\neager / streamed: %s\n", strings.Join(said, ", "))
	}
}

// ratio is a figure of the eager load divided by that of the streamed one.
type ratio struct {
	Of    string  `json:"of"`
	Ratio float64 `json:"ratio"`
}

func ratios(loads []*load.Loaded) (out []ratio) {
	by := map[loader.Mode]*load.Loaded{}
	for _, l := range loads {
		by[l.Mode] = l
	}
	eager, streamed := by[loader.Eager], by[loader.Streamed]
	if eager == nil || streamed == nil {
		return nil
	}
	for _, f := range []struct {
		of   string
		a, b int64
	}{{"device and host", eager.Measured, streamed.Measured}, {"the device", eager.DeviceMeasured, streamed.DeviceMeasured}, {"the process", eager.System, streamed.System}} {
		if f.a > 0 && f.b > 0 {
			out = append(out, ratio{f.of, float64(f.a) / float64(f.b)})
		}
	}
	return out
}

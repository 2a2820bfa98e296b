package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/internal/visible"
	"memopt/internal/whole"
	"memopt/memopt/devices"
	"memopt/memopt/report"
	"memopt/memopt/step"
	"memopt/planner/profile"
)

var profileCommand = &cli.Command{
	Name:      "profile",
	Category:  "This machine",
	Usage:     "measure what operators cost on a device, for plans with --cost time",
	ArgsUsage: " ",
	UsageText: "memopt profile\n" +
		"memopt profile --device vulkan -o vulkan.json\n" +
		"memopt profile --for h100",
	Flags: settingFlags("profile",
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the profile there instead of where plans look for it"},
		&cli.BoolFlag{Name: "list", Usage: "list the profiles that are shipped"}),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		cfg, err := settings(c)
		if err != nil {
			return err
		}
		if c.Bool("list") {
			return listProfiles(c, asJSON)
		}
		var p *profile.Profile
		to := c.String("output")
		if cfg.ForDevice != "" {
			if p, err = profile.For(cfg.ForDevice); err != nil {
				return usage("%v", err)
			}
		} else {
			line := newStatus(c)
			p, err = devices.Measure(c.Context, cfg, func(what string) { line.show("measuring %s", what) })
			line.clear()
			if err != nil {
				return err
			}
			if to == "" {
				if to, err = step.KeepProfile(cfg.Device, p); err != nil {
					return err
				}
			}
		}
		if c.String("output") != "" {
			if err := whole.Bytes(to, p.JSON()); err != nil {
				return err
			}
		}
		if asJSON {
			return printJSON(c.App.Writer, p)
		}
		printProfile(c.App.Writer, p)
		if to != "" {
			visible.Fprintf(c.App.Writer, "\nwritten to %s\n", to)
		}
		return nil
	},
}

// listProfiles prints the shipped profiles.
func listProfiles(c *cli.Context, asJSON bool) error {
	var all []*profile.Profile
	rows := [][]string{{"--for", "products, 32 and 16 bits", "bandwidth", "source"}}
	for _, name := range profile.Shipped() {
		p, err := profile.For(name)
		if err != nil {
			return err
		}
		all = append(all, p)
		rows = append(rows, []string{name, fmt.Sprintf("%s, %s", rate(p.Rates["product"][""]), rate(p.Rates["product"]["bf16"])), fmt.Sprintf("%.0f GB/s", p.Bandwidth[""]), p.Source})
	}
	if asJSON {
		return printJSON(c.App.Writer, map[string]any{"format": "memopt.profiles/1", "profiles": all})
	}
	report.Table(c.App.Writer, "=lrrt", rows)
	return nil
}

// printProfile prints what a profile says.
func printProfile(w io.Writer, p *profile.Profile) {
	rows := [][]string{{"profile", p.String()}, {"launch", fmt.Sprintf("%.2f µs", p.Launch/1000)}}
	if p.Host > 0 {
		rows = append(rows, []string{"of the program", fmt.Sprintf("%.2f µs", p.Host/1000)})
	}
	second := func(who string, s profile.Second) {
		rows = append(rows, []string{"second run" + who, fmt.Sprintf("%.2f µs, and %.2f µs for a tensor", s.Again/1000, s.Dropped/1000)})
	}
	if p.Replays == nil {
		second("", p.Second)
	}
	for _, replay := range slices.Sorted(maps.Keys(p.Replays)) {
		second(" ("+replay+")", p.Replays[replay])
	}
	if p.Passes != nil {
		rows = append(rows, []string{"of its passes", fmt.Sprintf("%.2f µs forward, %.2f µs backward", p.Passes.Forward/1000, p.Passes.Backward/1000)})
	}
	for _, class := range slices.Sorted(maps.Keys(p.Bandwidth)) {
		rows = append(rows, []string{strings.TrimSpace(class + " bandwidth"), fmt.Sprintf("%.1f GB/s", p.Bandwidth[class])})
	}
	for _, class := range slices.Sorted(maps.Keys(p.Rates)) {
		for _, t := range slices.Sorted(maps.Keys(p.Rates[class])) {
			rows = append(rows, []string{strings.TrimSpace(class + " arithmetic " + t), rate(p.Rates[class][t])})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Typed)) {
		for _, class := range slices.Sorted(maps.Keys(p.Typed[name])) {
			rows = append(rows, []string{strings.TrimSpace(class + " bandwidth " + name), fmt.Sprintf("%.1f GB/s", p.Typed[name][class])})
		}
	}
	for _, all := range []struct {
		pass  string
		rates map[string]map[string]profile.Arithmetic
	}{{"", p.Arithmetic}, {"gradients of ", p.BackwardArithmetic}} {
		for _, class := range slices.Sorted(maps.Keys(all.rates)) {
			for _, t := range slices.Sorted(maps.Keys(all.rates[class])) {
				x := all.rates[class][t]
				rows = append(rows, []string{strings.TrimSpace(all.pass + class + " by size " + t), fmt.Sprintf("%s, and %.1f GB/s", rate(x.Flops), x.Bytes)})
			}
		}
	}
	for _, f := range p.Far {
		rows = append(rows, []string{"beyond " + strings.TrimSpace(report.Bytes(f.Beyond)), fmt.Sprintf("%.1f GB/s beside", f.Rate)})
	}
	for _, place := range slices.Sorted(maps.Keys(p.Copies)) {
		x := p.Copies[place]
		rows = append(rows, []string{"copies to the " + place, fmt.Sprintf("%.2f GB/s, %.2f GB/s back, and %.2f µs for each", x.Out, x.In, x.Delay/1000)})
	}
	report.Table(w, "lt", rows)
}

// rate prints operations per nanosecond.
func rate(perNS float64) string {
	if perNS >= 1000 {
		return fmt.Sprintf("%.1f TFLOP/s", perNS/1000)
	}
	if perNS < 1 {
		return fmt.Sprintf("%.1f MFLOP/s", perNS*1000)
	}
	return fmt.Sprintf("%.1f GFLOP/s", perNS)
}

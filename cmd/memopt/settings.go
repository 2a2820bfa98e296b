package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/report"
	"memopt/memopt/step"
)

// settingFlag is the flag of a setting.
type settingFlag struct {
	*cli.StringFlag
	row configs.Row
}

func newSettingFlag(r configs.Row, command string) cli.Flag {
	var also []string
	if r.Short != "" && r.ShortIn == command {
		also = []string{r.Short}
	}
	return settingFlag{&cli.StringFlag{Name: r.Flag, Aliases: also, Usage: "`" + r.Takes + "` " + r.Help(), Category: r.Group}, r}
}

// settingFlags lists the flags of the settings that a command uses, and its other flags. Every
// command with settings takes config files.
func settingFlags(command string, more ...cli.Flag) (flags []cli.Flag) {
	for _, r := range configs.Rows() {
		if r.Commands != nil && (r.Uses(command) || r.Form == configs.Elsewhere) {
			flags = append(flags, newSettingFlag(r, command))
		}
	}
	return common(append(flags, more...)...)
}

// profileFlag is the flag for measured times.
func profileFlag() cli.Flag {
	return &cli.StringFlag{Name: "profile", Usage: "`FILE` plan with times: of nodes, measured by train --record, or of a device, measured by memopt profile; or measured or shipped: what was measured of the device, or its data sheet"}
}

// given is the settings that flags give, by name.
func given(c *cli.Context) map[string]string {
	all := map[string]string{}
	for _, f := range c.Command.Flags {
		if s, ok := f.(settingFlag); ok && c.IsSet(s.Name) {
			all[s.row.Name] = c.String(s.Name)
		}
	}
	return all
}

// settings merges flags, environment and files by precedence.
func settings(c *cli.Context) (configs.Config, error) {
	asked := configs.Asked{Command: c.Command.Name, Settings: given(c), Environ: os.Environ()}
	if c.Command.Name == "config" { // config shows every setting
		asked.Command = ""
	}
	cfg, warnings, err := asked.Config()
	if err != nil {
		return cfg, asInput(err)
	}
	warn(c, warnings...)
	return cfg, nil
}

// shownSettings lists the settings that were given and their sources, and the source of times.
func shownSettings(m *step.Model, profile string) []report.Setting {
	out := nonDefaults(m.Config)
	if m.LossInput != "" {
		out = append(out, report.Setting{Name: "input", Value: m.LossInput, Source: "added by --loss"})
	}
	if m.Profiled != "" {
		out = append(out, report.Setting{Name: "time", Value: "as measured on " + m.Profiled, Source: "--profile " + profile})
	}
	return out
}

// nonDefaults lists the settings that were given and their sources.
func nonDefaults(cfg configs.Config) []report.Setting {
	var out []report.Setting
	for _, s := range cfg.NonDefaults() {
		out = append(out, report.Setting{Name: s.Name, Value: s.Value, Source: s.Source.String()})
	}
	return out
}

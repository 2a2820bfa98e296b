package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/report"
)

// htmlFlag is the flag for an HTML page.
func htmlFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "html", Usage: "`FILE` " + usage}
}

// writePage writes the page of a plan.
func writePage(ctx context.Context, to string, p report.Page) error {
	var page bytes.Buffer
	if err := report.HTML(&page, p); err != nil {
		return err
	}
	return writeText(ctx, to, page.Bytes())
}

// writeStepSVG writes a picture of memory over the step of a new plan.
func writeStepSVG(ctx context.Context, to string, p report.Page) error {
	var svg bytes.Buffer
	if err := report.StepSVG(&svg, p); err != nil {
		return err
	}
	return writeFile(ctx, to, svg.Bytes())
}

// typed is the command as typed, for a shell: with settings of the environment in front, and
// without flags that only say where results go.
func typed(c *cli.Context, cfg configs.Config) string {
	var words []string
	for _, s := range cfg.NonDefaults() {
		if s.Source.Origin == configs.OriginEnv || s.Source.Origin == configs.OriginFile { // a variable may name a file
			if value, ok := os.LookupEnv(s.Source.Name); ok {
				word := s.Source.Name + "=" + configs.ShellWord(value)
				if !slices.Contains(words, word) {
					words = append(words, word)
				}
			}
		}
	}
	words = append(words, "memopt", c.Command.Name)
	for _, a := range c.Args().Slice() {
		if strings.HasPrefix(a, "-") {
			a = "./" + a
		}
		words = append(words, configs.ShellWord(a))
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if !c.IsSet(name) || aside[name] {
			continue
		}
		words = append(words, "--"+name)
		if _, is := f.(*cli.BoolFlag); !is {
			words = append(words, configs.ShellWord(c.String(name)))
		}
	}
	return strings.Join(words, " ")
}

// aside lists flags that do not change what is planned, trained or measured.
var aside = map[string]bool{"html": true, "svg": true, "output": true, "emit": true, "show": true, "format": true, "quiet": true, "log-level": true,
	"save": true, "save-every": true, "record": true, "python": true}

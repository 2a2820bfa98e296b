package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

func init() { cli.FlagStringer = flagText }

// flagText is a flag's line in a help text: its names, what it takes, and what
// it does. What it takes stands in backquotes at the beginning of its usage.
func flagText(f cli.Flag) string {
	takes, usage := described(f)
	if takes != "" {
		takes = " " + takes
	}
	var names []string
	for _, n := range f.Names() {
		dashes := "--"
		if len(n) == 1 {
			dashes = "-"
		}
		names = append(names, dashes+n)
	}
	return strings.Join(names, ", ") + takes + "\t" + usage
}

// described is what a flag takes, and what it does.
func described(f cli.Flag) (takes, usage string) {
	usage = f.(cli.DocGenerationFlag).GetUsage()
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		takes, usage, _ = strings.Cut(rest, "` ")
	}
	return takes, usage
}

package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"memopt/memopt/step"
)

var versionCommand = &cli.Command{
	Name:      "version",
	Category:  "Service and shell",
	Usage:     "print the version of the program, its service and its Python package",
	ArgsUsage: " ",
	UsageText: "memopt version",
	Flags:     common(),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.version/1", "version": step.Version})
		}
		_, err = fmt.Fprintln(c.App.Writer, "memopt version", step.Version)
		return err
	},
}

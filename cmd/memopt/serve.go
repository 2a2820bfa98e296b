package main

import (
	"github.com/urfave/cli/v2"

	"memopt/plugin"
)

var serveCommand = &cli.Command{
	Name:      "serve",
	Category:  "Service and shell",
	Before:    thrifty,
	Usage:     "run the service behind the Python package, which starts it itself",
	ArgsUsage: " ",
	UsageText: "memopt serve",
	Flags: common(
		&cli.BoolFlag{Name: "gencert", Usage: "print a client certificate and its key, and exit", Hidden: true},
	),
	Action: func(c *cli.Context) error {
		if _, err := begin(c, ""); err != nil {
			return err
		}
		if c.Bool("gencert") {
			return plugin.WriteClientCert(c.App.Writer)
		}
		ending.leave()
		return plugin.Serve(front{})
	},
}

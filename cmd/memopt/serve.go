package main

import (
	"github.com/urfave/cli/v2"

	"memopt/plugin"
)

var serveCommand = &cli.Command{
	Name:      "serve",
	Before:    thrifty,
	Usage:     "the service that the Python package starts; not for starting by hand",
	ArgsUsage: " ",
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

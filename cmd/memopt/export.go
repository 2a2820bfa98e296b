package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/memopt"
	"memopt/planner"
)

var exportCommand = &cli.Command{
	Name:      "export",
	Usage:     "a plan for another tool: ONNX Runtime's configuration, PyTorch's policies, JAX's names",
	ArgsUsage: "PLAN",
	Description: "memopt export gpt.plan.json --to ort -o mem_opt.json\n" +
		"memopt export gpt.plan.json --to pytorch > policy.json\n" +
		"memopt export gpt.plan.json --to jax",
	Flags: common(
		&cli.StringFlag{Name: "to", Usage: "`TOOL` " + strings.Join(memopt.Exports(), ", ")},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write what the tool reads"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PLAN")
		if err != nil {
			return err
		}
		if c.String("to") == "" {
			return usage("memopt export needs --to, one of %s", strings.Join(memopt.Exports(), ", "))
		}
		if err := destinations(c, "output"); err != nil {
			return err
		}
		f, err := planner.ReadFile(c.Args().First())
		if err != nil {
			return asInput(err)
		}
		e, err := memopt.ExportPlan(f, c.String("to"))
		if err != nil {
			return err
		}
		warn(c, e.Warnings...)
		to := c.String("output")
		if to != "" && e.Env != nil {
			e.Env["ORTMODULE_MEMORY_OPT_CONFIG"] = to
		}
		var file strings.Builder
		if err := exported[e.To](&file, e); err != nil {
			return err
		}
		if to != "" {
			if err := writeFile(to, []byte(file.String())); err != nil {
				return err
			}
		}
		switch {
		case asJSON:
			return printJSON(c.App.Writer, e)
		case to == "":
			fmt.Fprint(c.App.Writer, file.String())
			for _, name := range slices.Sorted(maps.Keys(e.Env)) {
				if !c.Bool("quiet") {
					fmt.Fprintf(c.App.ErrWriter, "export %s=%s\n", name, shellQuote(e.Env[name]))
				}
			}
		default:
			for _, name := range slices.Sorted(maps.Keys(e.Env)) {
				fmt.Fprintf(c.App.Writer, "export %s=%s\n", name, shellQuote(e.Env[name]))
			}
		}
		return nil
	},
}

// exported writes the file that each tool reads.
var exported = map[string]func(io.Writer, memopt.Export) error{
	"ort":     func(w io.Writer, e memopt.Export) error { return printJSON(w, e.Config) },
	"pytorch": func(w io.Writer, e memopt.Export) error { return printJSON(w, e) },
	"jax": func(w io.Writer, e memopt.Export) error {
		fmt.Fprintln(w, "import jax")
		fmt.Fprintln(w, "\n# Values are named with jax.ad_checkpoint.checkpoint_name(x, NAME).")
		fmt.Fprintln(w, "policy = jax.checkpoint_policies.save_only_these_names(")
		for _, name := range e.Save {
			text, err := json.Marshal(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "    %s,\n", text)
		}
		_, err := fmt.Fprintln(w, ")")
		return err
	},
}

// shellQuote is a word that a shell reads as it is.
func shellQuote(s string) string {
	if strings.ContainsFunc(s, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-./+", c))
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

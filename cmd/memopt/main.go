// Command memopt plans the memory of training steps and runs them.
//
// One file holds one command: its flags, and a function that reads them, calls
// package memopt and prints. Results go to standard output, everything else to
// standard error. Exit codes: 0 done, 1 the request cannot be met, 2 bad usage
// or input.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt"
)

// commands is the table of commands.
var commands = []*cli.Command{
	planCommand, trainCommand, checkCommand, explainCommand, packCommand,
	newCommand, opsCommand, doctorCommand, configCommand, serveCommand,
}

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// run is main without the process: arguments in, exit code out.
func run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:                 "memopt",
		Usage:                "plan the memory of a training step, and train under the plan",
		Version:              memopt.Version,
		Commands:             commands,
		Writer:               stdout,
		ErrWriter:            stderr,
		EnableBashCompletion: true,
		Suggest:              true,
		ExitErrHandler:       func(*cli.Context, error) {}, // errors are printed once, below
		CommandNotFound: func(_ *cli.Context, name string) {
			// Reported through Action, so that the exit code is ours.
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return usage("%s", err) },
	}
	for _, c := range commands {
		c.OnUsageError = app.OnUsageError
	}
	ordered, err := flagsFirst(args)
	if err == nil {
		err = app.Run(ordered)
	}
	if err == nil {
		return 0
	}
	msg := err.Error()
	if !strings.HasPrefix(msg, "memopt: ") {
		msg = "memopt: " + msg
	}
	fmt.Fprintln(stderr, msg)
	return memopt.Code(err)
}

// usageError is a mistake on the command line.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }
func (e usageError) ExitCode() int { return memopt.ExitInput }

func usage(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

func unknownCommand(name string) error {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	if near, ok := configs.Nearest(name, names); ok {
		return usage("no command is called %q; did you mean %q?", name, near)
	}
	return usage("no command is called %q; there are %s", name, strings.Join(names, ", "))
}

// flagsFirst puts flags in front of other arguments, because cli stops reading
// flags at the first argument that is none and would ignore the rest silently.
// After -- nothing is moved.
func flagsFirst(args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	var command *cli.Command
	for _, c := range commands {
		if c.HasName(args[1]) {
			command = c
		}
	}
	if command == nil {
		return args, nil
	}
	var flags, rest []string
	for i := 2; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			continue
		}
		flags = append(flags, a)
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		takes, known := flagTakesValue(command, name)
		if !known {
			return nil, unknownFlag(command, a)
		}
		if takes && !hasValue {
			if i+1 == len(args) {
				return nil, usage("%s needs a value", a)
			}
			i++
			flags = append(flags, args[i])
		}
	}
	out := append([]string{args[0], args[1]}, flags...)
	return append(append(out, "--"), rest...), nil
}

func flagTakesValue(c *cli.Command, name string) (takes, known bool) {
	if name == "help" || name == "h" || name == "generate-bash-completion" {
		return false, true
	}
	for _, f := range c.Flags {
		for _, n := range f.Names() {
			if n == name {
				_, isBool := f.(*cli.BoolFlag)
				return !isBool, true
			}
		}
	}
	return false, false
}

func unknownFlag(c *cli.Command, a string) error {
	var names []string
	for _, f := range c.Flags {
		names = append(names, "--"+f.Names()[0])
	}
	word, _, _ := strings.Cut(a, "=")
	if near, ok := configs.Nearest("--"+strings.TrimLeft(word, "-"), names); ok {
		return usage("memopt %s has no flag %s; did you mean %s?", c.Name, word, near)
	}
	return usage("memopt %s has no flag %s; it has %s", c.Name, word, strings.Join(names, " "))
}

// common is the flags of every command.
func common(flags ...cli.Flag) []cli.Flag {
	return append(flags,
		&cli.StringFlag{Name: "format", Value: "text", Usage: "text or json"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no progress and no warnings"},
		&cli.StringFlag{Name: "log-level", Usage: "debug, info, warn or error"},
	)
}

// begin checks what every command checks: the format, the log level and the
// number of arguments, which are named in want ("MODEL", "PLAN MODEL").
func begin(c *cli.Context, want string) (json bool, err error) {
	switch c.String("format") {
	case "text", "json":
	default:
		return false, usage("--format is text or json, not %q", c.String("format"))
	}
	level := slog.LevelWarn
	if l := c.String("log-level"); l != "" {
		if err := level.UnmarshalText([]byte(l)); err != nil {
			return false, usage("--log-level is debug, info, warn or error, not %q", l)
		}
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: level})))
	names := strings.Fields(want)
	if n := c.Args().Len(); n < len(names) {
		return false, usage("memopt %s needs %s", c.Command.Name, strings.Join(names, " and "))
	} else if n > len(names) {
		return false, usage("memopt %s takes %d argument(s), and %q is one too many", c.Command.Name, len(names), c.Args().Get(len(names)))
	}
	return c.String("format") == "json", nil
}

// warn prints a warning, unless --quiet.
func warn(c *cli.Context, msgs ...string) {
	if c.Bool("quiet") {
		return
	}
	for _, m := range msgs {
		fmt.Fprintln(c.App.ErrWriter, "memopt: warning:", m)
	}
}

// asInput gives an error of reading or writing files the exit code of input.
func asInput(err error) error {
	var coded interface{ ExitCode() int }
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return usageError{err.Error()}
}

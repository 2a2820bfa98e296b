// Command memopt plans the memory of training steps and runs them.
//
// Each file has one command: its flags, and a function that reads them, calls package memopt and
// prints. Results go to standard output, everything else to standard error. Exit codes: 0 done, 1
// the request cannot be met, 2 bad usage or input, 130 interrupted, 141 standard output was closed.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/visible"
	"memopt/internal/weights"
	"memopt/memopt/exit"
	"memopt/memopt/report"
	"memopt/memopt/step"
)

// commands is the table of commands.
var commands = []*cli.Command{
	planCommand, frontierCommand, maxbatchCommand, maxseqCommand, fitCommand, trainCommand, runCommand, loadCommand, checkCommand, explainCommand, diffCommand, leaksCommand, exportCommand, optimizeCommand, quantizeCommand, packCommand,
	newCommand, benchCommand, profileCommand, tuneCommand, opsCommand, devicesCommand, doctorCommand, configCommand, completionCommand, serveCommand, versionCommand,
}

func main() {
	gcForPlanning()
	if err := fitLimits(); err != nil {
		fmt.Fprintf(os.Stderr, "memopt: %s\n", err)
		os.Exit(exit.CodeCannot)
	}
	ending.listen()
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is main without the process: arguments in, exit code out.
func run(args []string, stdout, stderr io.Writer) int {
	out, notes := newScreen(stdout), newScreen(stderr)
	defer notes.Flush()
	app := &cli.App{
		Name:           "memopt",
		Usage:          "plan the memory of a training step, and train under the plan",
		Version:        step.Version,
		Commands:       commands,
		Writer:         out,
		ErrWriter:      notes,
		ExitErrHandler: func(*cli.Context, error) {}, // errors are printed once, below
		Action:         cli.ShowAppHelp,
		OnUsageError:   func(c *cli.Context, err error, _ bool) error { return plainly(c, err) },
	}
	for _, c := range commands {
		c.OnUsageError = app.OnUsageError
		c.HideHelpCommand = true // a model may be called help
	}
	ordered, err := order(args)
	if err == nil {
		err = guarded(func() error { return app.Run(ordered) })
	}
	out.Flush()
	if wrong := out.Err(); errors.Is(wrong, syscall.EPIPE) && quiet(err) {
		return exitUnread
	} else if err == nil && wrong != nil {
		err = usage("standard output: %s", underlying(wrong))
	}
	if err == nil {
		return 0
	}
	var cannot refusal
	if errors.As(err, &cannot) {
		notes.note("memopt: " + visible.Line(cannot.headline))
		report.Table(notes, "llt", cannot.rows)
		return exit.Code(err)
	}
	msg := ofFiles(err, visible.Error(err))
	if !strings.HasPrefix(msg, "memopt ") {
		msg = "memopt: " + msg
	}
	notes.note(shortened(msg))
	return exit.Code(err)
}

// guarded does a command. A mapped file that another process truncates while any part of the command
// reads it is the command's error.
func guarded(do func() error) (err error) {
	defer weights.Guard(&err)()
	return do()
}

// exitUnread is the exit code of a program ended by SIGPIPE, by the convention of shells.
const exitUnread = 128 + 13

// quiet reports whether an error only says that standard output was closed.
func quiet(err error) bool {
	return err == nil || errors.Is(err, syscall.EPIPE) || exit.Code(err) == exit.CodeStopped
}

// shortened cuts the middle out of a message that a file made too long.
func shortened(msg string) string {
	const first, last = 2000, 500
	if len(msg) <= first+last {
		return msg
	}
	return strings.ToValidUTF8(msg[:first], "") + " … " + strings.ToValidUTF8(msg[len(msg)-last:], "")
}

// usageError is a mistake on the command line.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }
func (e usageError) ExitCode() int { return exit.CodeInput }

func usage(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// common adds the flags of every command.
func common(flags ...cli.Flag) []cli.Flag {
	flags = append(flags,
		&cli.StringFlag{Name: "format", Value: "text", Usage: "`text|json` how results are printed (default text)"},
		columnsFlag(),
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no progress and no warnings"},
	)
	for _, r := range configs.Rows() {
		if r.Commands == nil {
			flags = append(flags, newSettingFlag(r, ""))
		}
	}
	return flags
}

// begin checks what every command checks: the format, the log level and the
// number of arguments, which are named in want ("MODEL", "PLAN MODEL").
func begin(c *cli.Context, want string) (json bool, err error) {
	switch c.String("format") {
	case "text", "json":
	default:
		return false, usage("--format is text or json, not %q", c.String("format"))
	}
	if err := setColumns(c); err != nil {
		return false, err
	}
	level, err := logLevel(c.String("log-level"))
	if err != nil {
		return false, asInput(err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: level})))
	names := strings.Fields(want)
	switch n := c.Args().Len(); {
	case n < len(names):
		return false, usage("memopt %s needs %s; see memopt %s --help", c.Command.Name, strings.Join(names, " and "), c.Command.Name)
	case n > len(names) && len(names) == 0:
		return false, usage("memopt %s takes no arguments, but was given %q", c.Command.Name, c.Args().First())
	case n > len(names):
		return false, usage("memopt %s takes %s, but was also given %q", c.Command.Name, strings.Join(names, " and "), c.Args().Get(len(names)))
	}
	for i, name := range names {
		if c.Args().Get(i) == "-" && slices.Contains(fileNames, name) {
			return false, usage("memopt %s does not read standard input; name a file (./- for one called -)", c.Command.Name)
		}
	}
	if err := mistaken(c.Command.Name, names, c.Args().Slice()); err != nil {
		return false, err
	}
	return c.String("format") == "json", nil
}

// fileNames lists the names of arguments that are files.
var fileNames = []string{"MODEL", "PLAN", "PROBLEM.csv"}

// logLevels maps ONNX Runtime's log levels to slog's.
var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "devinfo": slog.LevelDebug, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "error": slog.LevelError, "fatal": slog.LevelError + 4}

// logLevel is the level of the flag, else of the environment. Mistakes in the environment are
// reported by commands that read settings.
func logLevel(flag string) (slog.Level, error) {
	cfg := configs.Default()
	if flag != "" {
		if err := cfg.Set("log", flag, configs.Source{Origin: configs.OriginFlag, Name: "--log-level"}); err != nil {
			return 0, err
		}
	} else if env, _, err := configs.FromEnv(os.LookupEnv); err == nil {
		cfg = env
	}
	return logLevels[cfg.Log], nil
}

// warn prints a warning, unless --quiet.
func warn(c *cli.Context, msgs ...string) {
	if c.Bool("quiet") {
		return
	}
	for _, m := range msgs {
		c.App.ErrWriter.(*screen).note("memopt: warning: " + visible.Line(m))
	}
}

// asInput gives an error the exit code of bad input, unless it has a code.
func asInput(err error) error {
	var coded interface{ ExitCode() int }
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return usageError{ofFiles(err, err.Error())}
}

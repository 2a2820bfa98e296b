package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/memopt/report"
)

func init() {
	cli.HelpPrinter = func(w io.Writer, _ string, data any) {
		switch x := data.(type) {
		case *cli.App:
			helpAll(w, x)
		case *cli.Command:
			helpCommand(w, x)
		}
	}
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(c.App.Writer, "memopt version", c.App.Version) }
}

// firstSteps is the example in memopt --help.
const firstSteps = "memopt new gpt -o gpt.onnx --data gpt.npz --seq 64\n" +
	"memopt plan gpt.onnx --dims batch=8,seq=64 --budget 60%\n" +
	"memopt train gpt.onnx --dims batch=8,seq=64 --budget 60% --data gpt.npz"

// helpAll prints the list of commands, in groups.
func helpAll(w io.Writer, app *cli.App) {
	report.Text(w, 2, "memopt: %s\n", app.Usage)
	examples(w, firstSteps)
	fmt.Fprintln(w, "\nUsage: memopt COMMAND [ARGUMENTS] [FLAGS]")
	width := 0
	for _, c := range commands {
		width = max(width, len(c.Name))
	}
	for _, group := range groupsOf(commands, func(c *cli.Command) string { return c.Category }) {
		fmt.Fprintf(w, "\n%s\n", report.Headline(w, group.name))
		for _, c := range group.all {
			report.Text(w, width+2, "  %-*s  %s\n", width, c.Name, c.Usage)
		}
	}
	fmt.Fprintln(w)
	report.Text(w, 0, "memopt COMMAND --help shows examples of a command and all its flags.\n")
}

// helpCommand prints an example of a command, its usage and its flags.
func helpCommand(w io.Writer, c *cli.Command) {
	report.Text(w, 2, "memopt %s: %s\n", c.Name, c.Usage)
	examples(w, c.UsageText)
	line := "Usage: memopt " + c.Name
	if takes := strings.TrimSpace(c.ArgsUsage); takes != "" {
		line += " " + takes
	}
	fmt.Fprintf(w, "\n%s [FLAGS]\n", line)
	if c.Description != "" {
		fmt.Fprintln(w)
		for line := range strings.SplitSeq(strings.TrimSpace(c.Description), "\n") {
			report.Text(w, 0, "%s\n", line)
		}
	}
	shown := slices.DeleteFunc(slices.Clone(c.Flags), func(f cli.Flag) bool {
		shown, is := f.(cli.VisibleFlag)
		return is && !shown.IsVisible() || f == cli.HelpFlag
	})
	for _, group := range groupsOf(shown, category) {
		fmt.Fprintf(w, "\n%s\n", report.Headline(w, group.name))
		for _, f := range group.all {
			helpFlag(w, f)
		}
	}
}

// examples prints commands to type. They are not wrapped, so that they can be copied.
func examples(w io.Writer, lines string) {
	fmt.Fprintln(w)
	for line := range strings.Lines(lines + "\n") {
		fmt.Fprint(w, "  "+line)
	}
}

// helpFlag prints a flag's names and placeholder, and its usage behind or below them.
func helpFlag(w io.Writer, f cli.Flag) {
	const indent = 28
	takes, usage := described(f)
	var names []string
	for _, n := range f.Names() {
		dashes := "--"
		if len(n) == 1 {
			dashes = "-"
		}
		names = append(names, dashes+n)
	}
	head := "  " + strings.Join(names, ", ")
	if takes != "" {
		head += " " + takes
	}
	text := report.Wrap(usage, max(report.Width(w)-indent, 20), 0)
	if report.Width(w) == 0 {
		text = usage
	}
	lines := strings.Split(text, "\n")
	if len(head) > indent-2 {
		fmt.Fprintln(w, head)
		head = ""
	}
	for _, line := range lines {
		fmt.Fprintf(w, "%-*s%s\n", indent, head, line)
		head = ""
	}
}

// described splits a flag's usage into the placeholder, in backquotes at its beginning, and the
// text.
func described(f cli.Flag) (takes, usage string) {
	usage = f.(cli.DocGenerationFlag).GetUsage()
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		takes, usage, _ = strings.Cut(rest, "` ")
	}
	return takes, usage
}

// Groups of flags that are not settings.
const (
	flagsTitle  = "Flags"
	outputTitle = "Output"
)

// category is the group of a flag.
func category(f cli.Flag) string {
	if slices.Contains(outputFlags, f.Names()[0]) {
		return outputTitle
	}
	if c, is := f.(cli.CategorizableFlag); is && c.GetCategory() != "" {
		return c.GetCategory()
	}
	return flagsTitle
}

// outputFlags lists the flags of every command.
var outputFlags = []string{"format", "columns", "quiet", "log-level"}

type group[T any] struct {
	name string
	all  []T
}

// groupsOf puts together what has the same name, in the order of the first of each; what
// belongs to the command alone comes first, and what all have last.
func groupsOf[T any](all []T, name func(T) string) (groups []group[T]) {
	for _, x := range all {
		i := slices.IndexFunc(groups, func(g group[T]) bool { return g.name == name(x) })
		if i < 0 {
			i, groups = len(groups), append(groups, group[T]{name: name(x)})
		}
		groups[i].all = append(groups[i].all, x)
	}
	rank := func(name string) int {
		return map[string]int{flagsTitle: -1, outputTitle: 1}[name]
	}
	slices.SortStableFunc(groups, func(a, b group[T]) int { return rank(a.name) - rank(b.name) })
	return groups
}

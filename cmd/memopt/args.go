package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
)

// order moves flags in front of other arguments, because package cli stops reading flags at the
// first argument that is not one, and would silently ignore the rest. After -- nothing is moved.
func order(args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	name, tail := args[1], args[2:]
	switch {
	case slices.Contains([]string{"--help", "-help", "-h", "--version", "-version", "-v"}, name):
		return args[:2], nil
	case name == "help" || name == "h":
		if len(tail) > 0 && find(tail[0]) == nil {
			return nil, unknownCommand(tail[0])
		}
		return args, nil
	case strings.HasPrefix(name, "-"):
		return nil, usage("%s is not a command; flags follow the command, as in memopt plan MODEL --budget 60%%", name)
	}
	command := find(name)
	if command == nil {
		return nil, unknownCommand(name)
	}
	flags, rest, err := split(command, tail)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(flags, func(f string) bool { return slices.Contains(helpFlags, strings.TrimLeft(f, "-")) }) {
		return []string{args[0], name, "--help"}, nil
	}
	out := append([]string{args[0], name}, flags...)
	return append(append(out, "--"), rest...), nil
}

// split separates a command's flags and their values from its other arguments.
func split(command *cli.Command, args []string) (flags, rest []string, err error) {
	list := map[string]int{} // by name: the flag's index in flags
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return flags, append(rest, args[i+1:]...), nil
		}
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		takes, known := takesValue(command, name)
		switch {
		case !known:
			return nil, nil, unknownFlag(command, a)
		case !takes:
			flags = append(flags, a)
			continue
		case !hasValue && isSwitch(command, name) && (i+1 == len(args) || !switches(args[i+1])):
			value = "on"
		case !hasValue && i+1 == len(args):
			return nil, nil, usage("%s needs a value", a)
		case !hasValue:
			i++
			value = args[i]
		}
		if at, again := list[name]; again && gathers(command, name) {
			flags[at] += "," + value
			continue
		}
		list[name] = len(flags)
		flags = append(flags, "--"+name+"="+value)
	}
	return flags, rest, nil
}

// isSwitch reports whether a flag takes on or off and nothing else, so that the flag alone means
// on.
func isSwitch(c *cli.Command, name string) bool {
	return slices.ContainsFunc(c.Flags, func(f cli.Flag) bool {
		s, ok := f.(settingFlag)
		return ok && s.Name == name && s.row.Form == configs.Switch && len(s.row.Words) == 2
	})
}

// switches reports whether the argument after such a flag is its value.
func switches(word string) bool {
	return slices.Contains([]string{"on", "off", "true", "false"}, word)
}

// gathers reports whether the values of a repeated flag are joined. Of other flags the last one
// counts, so that a flag in a script can be overridden.
func gathers(c *cli.Command, name string) bool {
	for _, f := range c.Flags {
		if s, ok := f.(settingFlag); ok && s.Name == name {
			return s.row.Listed()
		}
	}
	return name == "only" || name == "with"
}

// helpFlags lists the flags that cli adds to every command.
var helpFlags = []string{"help", "h"}

func find(name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

func takesValue(c *cli.Command, name string) (takes, known bool) {
	if slices.Contains(helpFlags, name) {
		return false, true
	}
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool, true
		}
	}
	return false, false
}

func unknownCommand(name string) error {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	if near, ok := configs.Nearest(name, names); ok {
		return usage("no command is called %q; did you mean %q?", name, near)
	}
	return usage("no command is called %q; there are %s", name, strings.Join(names, ", "))
}

func unknownFlag(c *cli.Command, a string) error {
	var names []string
	for _, f := range c.Flags {
		names = append(names, "--"+f.Names()[0])
	}
	word, _, _ := strings.Cut(a, "=")
	for _, r := range configs.Rows() {
		given := strings.TrimLeft(word, "-")
		if r.Flag == given && !r.Uses(c.Name) {
			return usage("%s: %s", word, r.Unused(c.Name))
		}
		if r.Alias != "" && r.Alias == strings.ReplaceAll(given, "-", "_") && r.Uses(c.Name) {
			return usage("memopt %s has no flag %s; did you mean --%s?", c.Name, word, r.Flag)
		}
	}
	if near, ok := configs.Nearest("--"+strings.TrimLeft(word, "-"), names); ok {
		return usage("memopt %s has no flag %s; did you mean %s?", c.Name, word, near)
	}
	return usage("memopt %s has no flag %s; memopt %s --help lists those it has", c.Name, word, c.Name)
}

// plainly rephrases an error of package flag.
func plainly(c *cli.Context, err error) error {
	var value, name string
	msg := err.Error()
	if _, scan := fmt.Sscanf(msg, "invalid value %q for flag -%s", &value, &name); scan == nil {
		name = strings.TrimSuffix(name, ":")
		return usage("--%s is %s, not %q", name, numberForm(c.Command, name), value)
	}
	if _, scan := fmt.Sscanf(msg, "invalid boolean value %q for -%s", &value, &name); scan == nil {
		return usage("--%s takes no value, but was given %q", strings.TrimSuffix(name, ":"), value)
	}
	return asInput(err)
}

// numberForm describes the numbers that a flag takes.
func numberForm(c *cli.Command, name string) string {
	for _, f := range c.Flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.IntFlag, *cli.Int64Flag:
			return "a whole number"
		case *cli.Uint64Flag:
			return "a whole number from 0 up"
		}
	}
	return "a number"
}

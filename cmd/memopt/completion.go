package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
)

// completionCommand prints a shell script that completes commands, flags and values from a list. It
// is made from the table of commands.
var completionCommand = &cli.Command{
	Name:      "completion",
	Category:  "Service and shell",
	Usage:     "print the script by which bash, zsh or fish completes commands and flags",
	ArgsUsage: "SHELL",
	UsageText: "source <(memopt completion bash)    # in ~/.bashrc; zsh in ~/.zshrc\n" +
		"memopt completion fish > ~/.config/fish/completions/memopt.fish",
	Flags: common(),
}

func init() {
	completionCommand.Action = func(c *cli.Context) error { // not a literal: it refers to commands, which contains this command
		asJSON, err := begin(c, "SHELL")
		if err != nil {
			return err
		}
		shell := c.Args().First()
		var text strings.Builder
		switch shell {
		case "bash":
			completeBash(&text)
		case "zsh":
			text.WriteString("autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n")
			completeBash(&text)
		case "fish":
			completeFish(&text)
		default:
			return usage("memopt completion supports bash, zsh and fish, not %q", shell)
		}
		if asJSON {
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.completion/1", "shell": shell, "script": text.String()})
		}
		_, err = io.WriteString(c.App.Writer, text.String())
		return err
	}
}

// completeBash writes a function for bash, which completes files where the function has no words.
func completeBash(w io.Writer) {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	fmt.Fprintf(w, "_memopt() {\n\tlocal words= cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"+
		"\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\twords='%s'\n\telse\n\t\tcase \"${COMP_WORDS[1]} $before\" in\n", strings.Join(names, " "))
	for _, c := range commands {
		for _, f := range c.Flags {
			if words := choices(f); len(words) > 0 {
				fmt.Fprintf(w, "\t\t'%s --%s') words='%s' ;;\n", c.Name, f.Names()[0], strings.Join(words, " "))
			}
		}
	}
	fmt.Fprint(w, "\t\t*) case \"$cur\" in -*) case \"${COMP_WORDS[1]}\" in\n")
	for _, c := range commands {
		var flags []string
		for _, f := range c.Flags {
			flags = append(flags, "--"+f.Names()[0])
		}
		fmt.Fprintf(w, "\t\t\t%s) words='%s' ;;\n", c.Name, strings.Join(append(flags, "--help"), " "))
	}
	fmt.Fprint(w, "\t\t\tesac ;; esac ;;\n\t\tesac\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _memopt memopt\n")
}

// completeFish writes a line for each command and flag.
func completeFish(w io.Writer) {
	for _, c := range commands {
		fmt.Fprintf(w, "complete -c memopt -f -n __fish_use_subcommand -a %s -d %s\n", c.Name, configs.ShellWord(c.Usage))
		for _, f := range c.Flags {
			fmt.Fprintf(w, "complete -c memopt -n '__fish_seen_subcommand_from %s'", c.Name)
			for _, n := range f.Names() {
				fmt.Fprintf(w, " %s %s", map[bool]string{true: "-s", false: "-l"}[len(n) == 1], n)
			}
			if takes, _ := takesValue(c, f.Names()[0]); takes {
				fmt.Fprint(w, " -r")
			}
			if words := choices(f); len(words) > 0 {
				fmt.Fprintf(w, " -f -a %s", configs.ShellWord(strings.Join(words, " ")))
			}
			_, text := described(f)
			fmt.Fprintf(w, " -d %s\n", configs.ShellWord(text))
		}
	}
}

// choices lists the words that a flag takes: those of a setting, or those in its usage,
// `text|json`. Words in capitals are placeholders.
func choices(f cli.Flag) (words []string) {
	if s, ok := f.(settingFlag); ok {
		return s.row.Words
	}
	takes, _ := described(f)
	if !strings.Contains(takes, "|") {
		return nil
	}
	for word := range strings.SplitSeq(takes, "|") {
		if strings.ToUpper(word) != word {
			words = append(words, word)
		}
	}
	return words
}

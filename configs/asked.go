package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Asked is settings as a user gives them to a command, on any face.
type Asked struct {
	Command  string            // the command that uses them; "": only to show them
	Settings map[string]string // by name, as text
	Face     Face              // where they were given
	Folder   Folder            // base of relative paths
	Environ  []string          // NAME=value, as os.Environ has them
}

// Config merges the given settings with the environment and with files. A given setting that the
// command does not use is an error; one from the environment or a file, which may be meant for
// other commands, is left at its default and listed in Unused.
func (a Asked) Config() (c Config, warnings []string, err error) {
	flags := Config{}
	var file Config
	for _, name := range slices.Sorted(maps.Keys(a.Settings)) {
		if _, ok := Find(name); !ok {
			return Config{}, nil, &Error{Pos{File: name}, unknownField(name)}
		}
	}
	for _, r := range rows {
		text, ok := a.Settings[r.Name]
		if !ok {
			continue
		}
		name := a.Face.Name(r.Name)
		switch {
		case r.Form == Elsewhere:
			file, _, err = a.Folder.ParseConfig(strings.TrimSpace(text), name)
		case a.Command != "" && !r.Uses(a.Command):
			err = &Error{Pos{File: name}, r.Unused(a.Command)}
		default:
			err = flags.Set(r.Name, text, Source{Origin: OriginFlag, Name: name})
		}
		if err != nil {
			return Config{}, nil, err
		}
	}
	environ := map[string]string{}
	for _, entry := range slices.Backward(a.Environ) { // of duplicates the first wins, as in os.Getenv
		name, value, _ := strings.Cut(entry, "=")
		environ[name] = value
	}
	env, warnings, err := a.Folder.FromEnv(func(name string) (string, bool) { s, ok := environ[name]; return s, ok })
	if err != nil {
		return Config{}, nil, err
	}
	c = Merge(flags, file, env)
	c.face = a.Face
	if a.Command != "" {
		c = c.only(a.Command)
	}
	for _, r := range rows {
		if r.Form == Path || r.Form == Names {
			r.in(&c, a.Folder)
		}
	}
	return c, append(warnings, StrayEnv(a.Environ)...), nil
}

// Unused is the message that a command does not use the setting, and which commands do.
func (r Row) Unused(command string) string {
	do := "does"
	if len(r.Commands) > 1 {
		do = "do"
	}
	return fmt.Sprintf("memopt %s does not use it, %s %s", command, and(r.Commands), do)
}

// only resets settings that a command does not use to their defaults.
func (c Config) only(command string) Config {
	kept := c
	kept.given, kept.unused = maps.Clone(c.given), nil
	for _, r := range rows {
		if from, ok := c.given[r.Name]; ok && !r.Uses(command) {
			kept.unused = append(kept.unused, Setting{r.Name, r.print(&c), from})
			r.reset(&kept)
			delete(kept.given, r.Name)
		}
	}
	return kept
}

// Unused lists settings from files and the environment that the command does not use.
func (c Config) Unused() []Setting { return c.unused }

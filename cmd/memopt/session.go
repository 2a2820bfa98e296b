package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"memopt/plugin"
)

// openers hold a model open, by the mode that a host asks for.
var openers = map[string]func(context.Context, plugin.OpenRequest) (plugin.Opened, error){}

// modes are the names of openers, as a host is told them.
var modes = []string{"bridge", "resident", "forward"}

func (front) Open(ctx context.Context, r plugin.OpenRequest) (plugin.Opened, error) {
	open := openers[r.Mode]
	if open == nil {
		if slices.Contains(modes, r.Mode) {
			return plugin.Opened{}, asInput(fmt.Errorf("sessions of mode %s are not in this build", r.Mode))
		}
		return plugin.Opened{}, asInput(fmt.Errorf("session mode %q: there are %s", r.Mode, strings.Join(modes, ", ")))
	}
	return open(ctx, r)
}

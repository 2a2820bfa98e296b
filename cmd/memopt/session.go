package main

import (
	"context"
	"fmt"
	"strings"

	"memopt/plugin"
)

// openers hold a model open, each by the mode that a host asks for.
var openers = []struct {
	mode string
	open func(context.Context, plugin.OpenRequest) (plugin.Opened, error)
}{
	{"bridge", openTraining},
	{"resident", openTraining},
	{"forward", openForward},
}

func modes() (names []string) {
	for _, o := range openers {
		names = append(names, o.mode)
	}
	return names
}

func (front) Open(ctx context.Context, r plugin.OpenRequest) (plugin.Opened, error) {
	for _, o := range openers {
		if o.mode == r.Mode {
			return o.open(ctx, r)
		}
	}
	return plugin.Opened{}, asInput(fmt.Errorf("session mode %q: there are %s", r.Mode, strings.Join(modes(), ", ")))
}

package main

import (
	"context"
	"fmt"
	"strings"

	"memopt/plugin"
)

// openers lists the modes of sessions that a host can ask for.
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
	return plugin.Opened{}, asInput(fmt.Errorf("unknown session mode %q, use %s", r.Mode, strings.Join(modes(), ", ")))
}

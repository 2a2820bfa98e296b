package cluster

import "memopt/internal/graph"

// ValueOf is what an analysis knows of a value.
func (a *Analysis) ValueOf(name string) graph.OutlineValue { return a.value(name) }

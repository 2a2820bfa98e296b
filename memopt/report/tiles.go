package report

import (
	"fmt"
	"strings"

	"memopt/planner"
)

// Tiles says in how many tiles layers are computed: those that follow each other with the same number together.
func Tiles(all []planner.Tiled) string {
	var parts []string
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Tiles == all[0].Tiles {
			n++
		}
		what := all[0].Node
		if n > 1 {
			what = fmt.Sprintf("%d layers from %s to %s", n, all[0].Node, all[n-1].Node)
		}
		word := "tiles"
		if all[0].Tiles == 1 {
			word = "tile"
		}
		parts = append(parts, fmt.Sprintf("%s in %d %s", what, all[0].Tiles, word))
		all = all[n:]
	}
	return strings.Join(parts, ", ")
}

package configs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// mostTiles is more tiles than any sequence has blocks of rows.
const mostTiles = 1 << 20

// tileCounts is on, off, auto, a number of tiles, or a list of these for layers.
func tileCounts() kind[string] {
	const want = "on, off, auto, a number of tiles of at least 2, or a list of these but auto, such as off,off,on"
	k := switchOr("auto")
	words := k.parse
	k.form, k.metavar = Counts, "on|off|auto|N|LIST"
	k.takes = append(slices.Clone(asSwitch), gjson.Number)
	k.want = want
	k.parse = func(v value) (string, error) {
		parts := strings.Split(v.s, ",")
		for i, part := range parts {
			part = strings.TrimSpace(part)
			switch n, ok := integer(part); {
			case ok && n >= 1 && n <= mostTiles:
				part = strconv.Itoa(n)
				if n == 1 {
					part = "off" // one tile is the whole
				}
			case ok || len(parts) > 1 && part != "on" && part != "off":
				return "", v.fail("%s is not known, use %s", quote(part), want)
			case len(parts) == 1:
				if word, err := words(v); err == nil {
					return word, nil
				}
				return "", v.fail("%s is not known, use %s", quote(part), want)
			}
			parts[i] = part
		}
		return strings.Join(parts, ","), nil
	}
	k.schema = map[string]any{"anyOf": append(slices.Clone(k.schema["anyOf"].([]any)),
		map[string]any{"type": "integer", "minimum": 1, "maximum": mostTiles},
		map[string]any{"type": "string", "pattern": "^(on|off|[0-9]+)( *, *(on|off|[0-9]+))*$"})}
	return k
}

// Tiles is a value of sequence_tiles as numbers of tiles of layers: 0 for as many as keep the bits, 1 for none.
func Tiles(value string) (tiles []int) {
	for part := range strings.SplitSeq(value, ",") {
		n, _ := strconv.Atoi(part)
		if part == "off" {
			n = 1
		}
		tiles = append(tiles, n)
	}
	return tiles
}

package configs

import "strings"

// NearestCluster is Nearest for cluster IDs. Besides typing errors it handles abbreviated, missing
// and extra operators: of the IDs that share at least half of their operators with the word it
// returns the one that shares most.
func NearestCluster(word string, known []string) (string, bool) {
	if near, ok := Nearest(word, known); ok {
		return near, true
	}
	const longest = 4096
	if len(word) > longest {
		return "", false
	}
	asked := operators(word)
	best, found, most := "", false, 0.5
	for _, k := range known {
		has := operators(k)
		shared := 0
		left := append([]string{}, has...)
		for _, op := range asked {
			for i, other := range left {
				if sameOperator(op, other) {
					left[i] = ""
					shared++
					break
				}
			}
		}
		if share := float64(shared) / float64(max(len(asked), len(has), 1)); share > most || share == most && !found {
			best, found, most = k, true, share
		}
	}
	return best, found
}

// operators splits an ID.
func operators(id string) []string {
	return strings.FieldsFunc(strings.ToLower(id), func(r rune) bool { return r == '+' || r == ' ' || r == '@' })
}

// sameOperator reports whether one is probably meant by the other.
func sameOperator(a, b string) bool {
	const shortest = 3
	if a == "" || b == "" {
		return false
	}
	if a == b || len(a) > shortest && strings.Contains(b, a) || len(b) > shortest && strings.Contains(a, b) {
		return true
	}
	_, ok := Nearest(a, []string{b})
	return ok
}

package configs

import "strings"

// Nearest returns the known word that word was most likely meant to be, if there is one: the one at
// the smallest edit distance (insertion, deletion, substitution, or swap of neighbours; case is
// ignored) if that is small for its length; else the shortest that contains it; else one that ends
// like it after a hyphen or an underscore. Ties go to the first in known. Of words below four
// letters the first letter must match: gpu is not meant as cpu.
func Nearest(word string, known []string) (string, bool) {
	const longest = 256 // longer words are not typing errors
	w := strings.ToLower(word)
	if len(w) == 0 || len(w) > longest {
		return "", false
	}
	best, found := "", false
	least := max(1, len(w)/3) + 1
	for _, k := range known {
		if len(k) > longest || len(k)-len(w) >= least || len(w)-len(k) >= least {
			continue
		}
		if len(w) < 4 && !strings.HasPrefix(strings.ToLower(k), w[:1]) {
			continue
		}
		if d := edits(w, strings.ToLower(k)); d < least {
			best, found, least = k, true, d
		}
	}
	if found || len(w) < 3 {
		return best, found
	}
	for _, k := range known {
		if strings.Contains(strings.ToLower(k), w) && (!found || len(k) < len(best)) {
			best, found = k, true
		}
	}
	for end := strings.TrimLeft(w, "-"); !found; {
		cut := strings.IndexAny(end, "-_")
		if cut < 0 {
			break
		}
		end = end[cut+1:]
		for _, k := range known {
			if len(end) > 3 && end == strings.TrimLeft(strings.ToLower(k), "-") {
				return k, true
			}
		}
	}
	return best, found
}

// edits is the edit distance of two words, a swap of neighbours counting as one edit (optimal
// string alignment, with three rows of the table in memory).
func edits(a, b string) int {
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above, above2 := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			row[j] = min(row[j-1]+1, above[j]+1, above[j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], above2[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

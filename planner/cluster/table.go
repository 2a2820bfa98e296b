package cluster

import (
	"math/big"
	"strings"
)

// ValueText is what the table shows for a saving at the sizes that are known:
// a whole number in groups of thousands, or what is left of the formula.
func ValueText(e Expression, sizes map[string]int64) string {
	at := e.At(sizes)
	x, ok := at.Number()
	if !ok {
		return at.String()
	}
	return thousands(x)
}

func thousands(x float64) string {
	digits := new(big.Float).SetFloat64(x).Text('f', 0)
	sign := ""
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, groups...), ",")
}

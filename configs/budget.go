package configs

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"memopt/internal/bytesize"
)

// Budget is a limit on memory, in bytes or as a share of a total that the caller knows. The zero
// Budget is no limit.
type Budget struct {
	Bytes   int64
	Percent float64
}

// units maps suffixes of numbers, in lower case, to bytes. A letter alone is binary.
var units = map[string]int64{
	"b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
	"p": 1 << 50, "pib": 1 << 50, "pb": 1e15,
}

// sizeForms completes error messages about sizes.
const sizeForms = "write 6GiB, 512MiB, 6GB, 6442450944 or 60%"

// ParseBudget reads a size: 6GiB, 6GB, 1.5 GiB, 6442450944, 60%, or 0.6 for the same share. Case
// does not matter in units, nor do spaces around them. Fractions of a byte are rounded down, as a
// budget is a limit.
func ParseBudget(s string) (Budget, error) {
	return parseBudget(textValue(&text{name: "budget", s: s, flat: true}))
}

func parseBudget(v value) (Budget, error) {
	s := strings.TrimSpace(v.s)
	digits, unit := splitNumber(s)
	switch {
	case s == "":
		return Budget{}, v.fail("is empty, %s", sizeForms)
	case strings.HasPrefix(s, "-"):
		return Budget{}, v.fail("%s is negative, %s", quote(v.s), sizeForms)
	case digits == "":
		return Budget{}, v.fail("%s is not a size, %s", quote(v.s), sizeForms)
	}
	x, ok := exact(digits)
	if !ok {
		return Budget{}, v.fail("%s has more digits than a size can have, %s", quote(v.s), sizeForms)
	}
	scale, known := units[strings.ToLower(unit)]
	one := big.NewRat(1, 1)
	switch {
	case !known && unit != "" && unit != "%":
		return Budget{}, v.fail("%s has the unknown unit %s, use B, KiB, MiB, GiB, TiB, KB, MB, GB, TB or %%", quote(v.s), quote(unit))
	case x.Sign() == 0:
		return Budget{}, v.fail("%s is zero: leave it out for no limit, or %s", quote(v.s), sizeForms)
	case known:
		x.Mul(x, new(big.Rat).SetInt64(scale))
	case unit == "%":
		return percent(x), nil
	case x.Cmp(one) < 0, x.Cmp(one) == 0 && strings.Contains(digits, "."):
		return percent(x.Mul(x, big.NewRat(100, 1))), nil
	case !x.IsInt():
		return Budget{}, v.fail("%s is neither whole bytes nor a share up to 1.0, %s", quote(v.s), sizeForms)
	}
	n := new(big.Int).Quo(x.Num(), x.Denom())
	switch {
	case !n.IsInt64():
		return Budget{}, v.fail("%s is more than the largest size, %d bytes", quote(v.s), int64(math.MaxInt64))
	case n.Sign() == 0:
		return Budget{}, v.fail("%s is less than a byte", quote(v.s))
	}
	return Budget{Bytes: n.Int64()}, nil
}

func percent(x *big.Rat) Budget {
	p, _ := x.Float64()
	return Budget{Percent: p}
}

// splitNumber splits a number from its unit.
func splitNumber(s string) (number, unit string) {
	sc := scanner{s: s}
	if len(s) == 0 || !isDigit(s[0]) || sc.digits() != nil {
		return "", ""
	}
	return s[:sc.i], strings.TrimLeft(s[sc.i:], " ")
}

// exact reads a decimal number without rounding. Texts so long that this would be slow are refused.
func exact(digits string) (*big.Rat, bool) {
	if len(digits) > 64 {
		return nil, false
	}
	if _, exp, ok := strings.Cut(strings.ToLower(digits), "e"); ok {
		if e, err := strconv.Atoi(exp); err != nil || e < -30 || e > 30 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(digits)
}

// Of returns the budget in bytes, shares being shares of base; at most the largest int64. It is 0
// for the zero Budget.
func (b Budget) Of(base int64) int64 {
	if b.Percent == 0 {
		return b.Bytes
	}
	share := new(big.Rat).SetFloat64(b.Percent)
	if share == nil {
		panic(fmt.Sprintf("configs: budget of %v percent", b.Percent))
	}
	share.Mul(share, big.NewRat(base, 100))
	n := new(big.Int).Quo(share.Num(), share.Denom())
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// IsZero reports whether there is no limit.
func (b Budget) IsZero() bool { return b == Budget{} }

// String prints the budget in the shortest form that ParseBudget reads: 6GiB, 6GB, 1000001; "" for
// no limit.
func (b Budget) String() string {
	switch {
	case b.IsZero():
		return ""
	case b.Percent != 0:
		return strconv.FormatFloat(b.Percent, 'f', -1, 64) + "%"
	}
	short := strconv.FormatInt(b.Bytes, 10)
	for _, u := range exactUnits {
		if b.Bytes%u.bytes != 0 {
			continue
		}
		if s := strconv.FormatInt(b.Bytes/u.bytes, 10) + u.name; len(s) < len(short) {
			short = s
		}
	}
	return short
}

// exactUnits lists the units that String prints, in the order of preference.
var exactUnits = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"TB", 1e12}, {"PB", 1e15},
}

// FormatBytes prints a number of bytes for people: 1.50 GiB, 12 KiB, 1023 B.
func FormatBytes(n int64) string { return bytesize.Text(n) }

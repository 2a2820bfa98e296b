package configs

import (
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// LossScale is the factor of the loss: none (the zero LossScale), a number, or automatic.
type LossScale struct {
	Auto   bool
	Factor float64 // 0: none, or automatic
}

// String prints the scale in the form that is read.
func (l LossScale) String() string {
	switch {
	case l.Auto:
		return "auto"
	case l.Factor == 0:
		return "off"
	}
	return strconv.FormatFloat(l.Factor, 'g', -1, 64)
}

// lossScale is auto, off, or a number in the range of float32.
func lossScale() kind[LossScale] {
	const want = "auto, off or a number above 0"
	return kind[LossScale]{
		form: Scale, metavar: "auto|off|X", words: []string{"auto", "off"},
		takes: []gjson.Type{gjson.String, gjson.Number},
		want:  want,
		parse: func(v value) (LossScale, error) {
			switch strings.ToLower(v.s) {
			case "auto":
				return LossScale{Auto: true}, nil
			case "off":
				return LossScale{}, nil
			}
			x, ok := finite(v.s)
			if narrow := float32(x); !ok || !(narrow > 0) || math.IsInf(float64(narrow), 0) {
				return LossScale{}, v.fail("%s is not %s", quote(v.s), want)
			}
			return LossScale{Factor: x}, nil
		},
		print: LossScale.String,
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": math.MaxFloat32},
			map[string]any{"type": "string", "enum": []string{"auto", "off"}},
		}},
	}
}

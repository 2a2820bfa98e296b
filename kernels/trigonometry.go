package kernels

import (
	"math"

	"memopt/internal/graph"
)

// The rarer trigonometric and hyperbolic functions. Gradients use y where that is as simple, so
// that x need not be kept.
var _ = [...]*graph.Op{
	defineActivation(activation{name: "Tan", doc: "y = tan x", f: plain(math.Tan), fromY: true,
		slope: plain(func(y float64) float64 { return 1 + y*y }), shader: "wave(a, 0) / wave(a, 1)", shaderSlope: "T(1) + b * b", flops: 15, samples: inRange}),
	defineActivation(activation{name: "Asin", doc: "y = arcsin x", f: plain(math.Asin),
		slope: plain(func(x float64) float64 { return 1 / math.Sqrt(1-x*x) }), shader: "atanOf(a / sqrt((T(1) - a) * (T(1) + a)))", shaderSlope: "T(1) / sqrt(T(1) - b * b)", flops: 15, samples: inRange}),
	defineActivation(activation{name: "Acos", doc: "y = arccos x", f: plain(math.Acos),
		slope: plain(func(x float64) float64 { return -1 / math.Sqrt(1-x*x) }), shader: "T(1.57079633) - atanOf(a / sqrt((T(1) - a) * (T(1) + a)))", shaderSlope: "T(-1) / sqrt(T(1) - b * b)", flops: 15, samples: inRange}),
	defineActivation(activation{name: "Atan", doc: "y = arctan x", f: plain(math.Atan),
		slope: plain(func(x float64) float64 { return 1 / (1 + x*x) }), shader: "atanOf(a)", shaderSlope: "T(1) / (T(1) + b * b)", flops: 15, samples: inRange}),
	defineActivation(activation{name: "Sinh", doc: "y = sinh x", f: plain(math.Sinh),
		slope: plain(math.Cosh), shader: "T(0.5) * (expm1Of(a) - expm1Of(-a))", shaderSlope: "T(0.5) * (exp(b) + exp(-b))", flops: 15, samples: inRange}),
	defineActivation(activation{name: "Cosh", doc: "y = cosh x", f: plain(math.Cosh),
		slope: plain(math.Sinh), shader: "T(0.5) * (exp(a) + exp(-a))", shaderSlope: "T(0.5) * (expm1Of(b) - expm1Of(-b))", flops: 15, samples: inRange}),
	defineActivation(activation{name: "Asinh", doc: "y = arsinh x", f: plain(math.Asinh),
		slope: plain(func(x float64) float64 { return 1 / math.Sqrt(x*x+1) }), shader: "asinhOf(a)", shaderSlope: "T(1) / sqrt(b * b + T(1))", flops: 15, samples: inRange}),
	defineActivation(activation{name: "Acosh", doc: "y = arcosh x", f: plain(math.Acosh),
		slope: plain(func(x float64) float64 { return 1 / math.Sqrt(x*x-1) }), shader: "log1pOf((a - T(1)) + sqrt((a - T(1)) * (a + T(1))))", shaderSlope: "T(1) / sqrt(b * b - T(1))", flops: 15,
		samples: []string{"f32[4]{1.2,1.5,2,7}", "f64[2]{1.1,3}", "f16[1]{2}", "f32[0,2]", "f32[]{1.5}"}}),
	defineActivation(activation{name: "Atanh", doc: "y = artanh x", f: plain(math.Atanh),
		slope: plain(func(x float64) float64 { return 1 / (1 - x*x) }), shader: "T(0.5) * sign(a) * log1pOf(T(2) * abs(a) / (T(1) - abs(a)))", shaderSlope: "T(1) / (T(1) - b * b)", flops: 15, samples: inRange}),
}

// inRange are samples in the domain of all of these functions.
var inRange = []string{"f32[5]{-0.9,-0.3,0,0.5,0.7}", "f64[2]{0.1,-0.6}", "f16[2]{0.25,0.75}", "f32[0,2]", "f32[]{0.3}"}

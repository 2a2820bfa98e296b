package onnx

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tests write models as wire bytes: each of these is a message, made of fields.

type wire = []byte

func msg(fields ...wire) wire {
	var b wire
	for _, f := range fields {
		b = append(b, f...)
	}
	return b
}

func text(num fieldNum, s string) wire   { return appendText(nil, num, s) }
func number(num fieldNum, n int64) wire  { return appendInt(nil, num, n) }
func in(num fieldNum, m ...wire) wire    { return appendBytes(nil, num, msg(m...)) }
func float(num fieldNum, x float64) wire { return appendFloat(nil, num, x) }

// claim is a length-prefixed field that says n bytes and holds fewer.
func claim(num fieldNum, n uint64, b wire) wire {
	return append(protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.BytesType), n), b...)
}

// onnxModel is a model for opset 20 around the fields of its graph.
func onnxModel(graph ...wire) wire {
	return msg(number(modelIR, 10), onnxOpset(modelOpset, "", 20), in(modelGraph, graph...))
}

func onnxOpset(num fieldNum, domain string, version int64) wire {
	return in(num, text(opsetDomain, domain), number(opsetVersion, version))
}

// onnxValue is a value info: dims are int64 or string.
func onnxValue(num fieldNum, name string, elem int64, dims ...any) wire {
	var shape wire
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			shape = append(shape, in(shapeDim, number(dimValue, int64(d)))...)
		case string:
			shape = append(shape, in(shapeDim, text(dimParam, d))...)
		case nil:
			shape = append(shape, in(shapeDim)...)
		}
	}
	return in(num, text(valueName, name),
		in(valueType, in(typeTensor, number(tensorTypeElem, elem), in(tensorTypeShape, shape))))
}

func input(name string, dims ...any) wire { return onnxValue(graphInput, name, 1, dims...) }
func output(name string) wire             { return onnxValue(graphOutput, name, 1) }

type names []string

// onnxNode is a node named after its operator and first output.
func onnxNode(op string, inputs, outputs names, fields ...wire) wire {
	b := msg(text(nodeOp, op))
	for _, s := range inputs {
		b = append(b, text(nodeInput, s)...)
	}
	for _, s := range outputs {
		b = append(b, text(nodeOutput, s)...)
	}
	return in(graphNode, append(b, msg(fields...)...))
}

func attr(name string, kind int64, fields ...wire) wire {
	return in(nodeAttr, text(attrName, name), number(attrKind, kind), msg(fields...))
}

// onnxFloats is a float initializer with raw data.
func onnxFloats(name string, xs []float32, dims ...int64) wire {
	var raw wire
	for _, x := range xs {
		raw = protowire.AppendFixed32(raw, math.Float32bits(x))
	}
	return in(graphInit, tensorFields(name, 1, dims...), in(tensorRaw, raw))
}

func onnxInts(name string, xs []int64, dims ...int64) wire {
	var raw wire
	for _, x := range xs {
		raw = protowire.AppendFixed64(raw, uint64(x))
	}
	return in(graphInit, tensorFields(name, 7, dims...), in(tensorRaw, raw))
}

func tensorFields(name string, elem int64, dims ...int64) wire {
	b := msg(text(tensorName, name), number(tensorType, elem))
	for _, d := range dims {
		b = append(b, number(tensorDims, d)...)
	}
	return b
}

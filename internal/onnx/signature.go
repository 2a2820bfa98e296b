package onnx

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// Signature describes a model's inputs, outputs and metadata as written in its file.
type Signature struct {
	Inputs, Outputs []Port
	// Overridable lists the inputs that have an initializer.
	Overridable  []Port
	Initializers []string // in order
	Producer     string
	Domain       string
	Doc          string
	Graph        string // its name
	GraphDoc     string
	Version      int64
	Metadata     map[string]string
}

// Port is an input or output as the file declares it.
type Port struct {
	Name string
	// Type is in ONNX's notation: tensor(float), tensor(string), seq(tensor), or "" if unknown.
	Type string
	// Of is the element type; Invalid if it is not supported.
	Of graph.DType
	// Shape is dims as written: a number, a name, or "" for neither. Ranked says that there is a shape.
	Shape  []string
	Ranked bool
	// Denoted is the denotations of dims, such as DATA_BATCH, or "".
	Denoted []string
}

// ParseSignature reads only the signature of a model; name is for errors.
func ParseSignature(src []byte, name string) (s Signature, err error) {
	defer func() {
		if wrong := caught(recover(), name); wrong != nil {
			err = wrong
		}
	}()
	r := newReader(src, name, "", nil, nil)
	s.Metadata = map[string]string{}
	var graphs []byte
	for m := r.message("the model", r.src); m.next(); {
		switch m.num {
		case modelProducer:
			s.Producer = m.text()
		case modelDomain:
			s.Domain = m.text()
		case modelVersion:
			s.Version = m.int()
		case modelDoc:
			s.Doc = m.text()
		case modelMetadata:
			k, v := m.entry()
			s.Metadata[k] = v
		case modelGraph:
			graphs = m.bytes()
		}
	}
	var inputs []Port
	for m := r.message("the graph", graphs); m.next(); {
		switch m.num {
		case graphName:
			s.Graph = m.text()
		case graphDoc:
			s.GraphDoc = m.text()
		case graphInput:
			inputs = append(inputs, r.port("input", m.bytes()))
		case graphOutput:
			s.Outputs = append(s.Outputs, r.port("output", m.bytes()))
		case graphInit:
			for t := r.message("an initializer", m.bytes()); t.next(); {
				if t.num == tensorName {
					s.Initializers = append(s.Initializers, t.text())
				}
			}
		}
	}
	has := make(map[string]bool, len(s.Initializers))
	for _, name := range s.Initializers {
		has[name] = true
	}
	for _, p := range inputs {
		if has[p.Name] {
			s.Overridable = append(s.Overridable, p)
		} else {
			s.Inputs = append(s.Inputs, p)
		}
	}
	return s, nil
}

func (r *reader) port(what string, b []byte) Port {
	v := r.valueInfo(what, b)
	p := Port{Name: v.name, Of: v.dtype, Shape: slices.Clone(v.spelled), Ranked: v.hasShape, Denoted: v.denoted}
	switch {
	case v.kind != "":
		p.Type = v.kind
	case v.elem > 0:
		p.Type = fmt.Sprintf("tensor(%s)", typeWord(v.elem))
	}
	if !p.Of.Valid() {
		p.Of = graph.Invalid
	}
	return p
}

// typeWord is ONNX's name of an element type.
func typeWord(elem int64) string {
	if elem > 0 && elem < int64(len(typeWords)) && typeWords[elem] != "" {
		return typeWords[elem]
	}
	return elemName(elem)
}

var typeWords = [...]string{
	1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16", 11: "double",
	12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
}

// typeKinds names the types other than tensors.
var typeKinds = map[fieldNum]string{4: "seq(tensor)", 5: "map", 8: "sparse_tensor", 9: "optional"}

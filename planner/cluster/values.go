package cluster

import "memopt/memopt/graph"

// value is what is known of a value.
func (a *Analysis) value(name string) graph.OutlineValue {
	if !a.Rules.compat() && a.Rules.Value != nil {
		if v, ok := a.Rules.Value(name); ok {
			return v
		}
	}
	if v, ok := a.Outline.Values[name]; ok && v.Known {
		return v
	}
	if v, ok := a.inferred[name]; ok {
		return v
	}
	return a.Outline.Values[name]
}

// bytesOf is the size of a value as far as it is known, else 0.
func (a *Analysis) bytesOf(name string) graph.Dim {
	v := a.value(name)
	if !v.Known {
		return graph.Num(0)
	}
	return v.Shape.Elems().Mul(graph.Num(v.Type.Size()))
}

// infer adds what files leave out and ONNX Runtime knows all the same: the
// statistics of normalizations.
func (a *Analysis) infer() {
	for _, n := range a.Outline.Nodes {
		if !norms[n.Op] || len(n.Inputs) == 0 {
			continue
		}
		x, known := a.Outline.Values[n.Inputs[0]]
		if !known || !x.Known {
			continue
		}
		axis, kind := int64(-1), graph.Float32
		for _, attr := range n.Attrs {
			k, ok := attr.Value.(int64)
			switch {
			case ok && attr.Name == "axis":
				axis = k
			case ok && attr.Name == "stash_type" && k >= 0 && k < 256:
				kind = graph.DType(k)
			}
		}
		if axis < 0 {
			axis += int64(len(x.Shape))
		}
		v := graph.OutlineValue{Type: kind, Known: true}
		for i, d := range x.Shape {
			text := d.String()
			if x.Spelled != nil {
				text = x.Spelled[i]
			}
			if int64(i) >= axis {
				d, text = graph.Num(1), "1"
			}
			v.Shape, v.Spelled = append(v.Shape, d), append(v.Spelled, text)
		}
		for k, name := range n.Outputs {
			if k > 0 && name != "" {
				a.inferred[name] = v
			}
		}
	}
}

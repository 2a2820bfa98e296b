package cluster

import "memopt/internal/graph"

// value is the known type and shape of a value.
func (a *Analysis) value(name string) graph.OutlineValue {
	if !a.Rules.compat() && a.Rules.Value != nil {
		if v, ok := a.Rules.Value(name); ok {
			return v
		}
	}
	if v, ok := a.Outline.Values[name]; ok && v.Known {
		return v
	}
	return a.inferred[name]
}

// bytesOf is the bytes of a value, 0 if its shape is unknown.
func (a *Analysis) bytesOf(name string) graph.Dim {
	v := a.value(name)
	if !v.Known {
		return graph.Num(0)
	}
	return a.sizes.of(v.Shape, v.Type).bytes
}

// infer adds types and shapes that files leave out and ONNX Runtime infers: element types, and the
// shapes of statistics of normalizations.
func (a *Analysis) infer() {
	for _, i := range a.Order {
		n := &a.Outline.Nodes[i]
		for k, name := range n.Outputs {
			old, recorded := a.Outline.Values[name]
			if recorded && old.Known {
				continue
			}
			v := graph.OutlineValue{Type: a.typeOf(n)}
			if recorded {
				v.Type = old.Type
			}
			if norms[n.Op] && k > 0 && len(n.Inputs) > 0 {
				v = statistics(n, a.value(n.Inputs[0]))
			}
			a.inferred[name] = v
		}
	}
}

// typed lists operators whose results have another type than their first input.
var typed = map[string]graph.DType{"Shape": graph.Int64, "Size": graph.Int64, "NonZero": graph.Int64, "ConcatTraining": graph.Int64,
	"Equal": graph.Bool, "Less": graph.Bool, "Greater": graph.Bool, "LessOrEqual": graph.Bool, "GreaterOrEqual": graph.Bool}

// typeOf is the type of a node's results, for operators that may run again.
func (a *Analysis) typeOf(n *graph.OutlineNode) graph.DType {
	if t, ok := typed[n.Op]; ok {
		return t
	}
	if n.Op == "Cast" {
		if to, ok := number(n, "to"); ok && to > 0 && to < 256 {
			return graph.DType(to)
		}
		return graph.Invalid
	}
	k := 0
	if n.Op == "Where" {
		k = 1
	}
	if len(n.Inputs) <= k {
		return graph.Invalid
	}
	return a.value(n.Inputs[k]).Type
}

// statistics is the type and shape of a norm's mean or deviation of x.
func statistics(n *graph.OutlineNode, x graph.OutlineValue) graph.OutlineValue {
	v := graph.OutlineValue{Type: graph.Float32, Known: x.Known}
	if kind, ok := number(n, "stash_type"); ok && kind > 0 && kind < 256 {
		v.Type = graph.DType(kind)
	}
	axis, ok := number(n, "axis")
	if !ok {
		axis = -1
	}
	if axis < 0 {
		axis += int64(len(x.Shape))
	}
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
	return v
}

// number is the value of an integer attribute.
func number(n *graph.OutlineNode, name string) (int64, bool) {
	for _, a := range n.Attrs {
		if k, ok := a.Value.(int64); ok && a.Name == name {
			return k, true
		}
	}
	return 0, false
}

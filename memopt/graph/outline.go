package graph

// Outline is a training program as its file spells it: every node under its
// own name, operator form and domain, nothing folded, rewritten or inferred
// beyond what the file records. ONNX Runtime's clusters are defined on it, and
// a program that is to be written back node for node is edited in it.
type Outline struct {
	Nodes   []OutlineNode
	Values  map[string]OutlineValue // type and shape of the values that have them
	Inputs  []string                // fed values and weights alike: what no node makes
	Outputs []string
}

// OutlineNode is a node by names.
type OutlineNode struct {
	Name, Domain, Op string
	Since            int // first opset whose form of the operator this is
	Inputs, Outputs  []string
	Attrs            []Attr
	// Of is the place in Nodes of the node this is a copy of, or −1.
	Of int
}

// OutlineValue is what is known of a value without running anything.
type OutlineValue struct {
	Type  DType
	Shape Shape
	// Spelled is the dims as the file writes them; "" for one that has neither
	// a number nor a name. nil if there is no file.
	Spelled []string
	// Known says that there is a shape, be it that of a scalar.
	Known bool
}

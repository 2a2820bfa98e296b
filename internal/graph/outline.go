package graph

// Outline is a training program exactly as its file has it: every node with its name, operator
// form and domain, and nothing folded, rewritten or inferred beyond what the file records. ONNX
// Runtime's clusters are defined on it, and programs that are written back node for node are
// edited in it.
type Outline struct {
	Nodes   []OutlineNode
	Values  map[string]OutlineValue // type and shape of the values that have them
	Inputs  []string                // values that no node makes: inputs and weights
	Outputs []string
}

// OutlineNode is a node by names.
type OutlineNode struct {
	Name, Domain, Op string
	Since            int // first opset whose form of the operator this is
	Inputs, Outputs  []string
	Attrs            []Attr
	// Of is the index in Nodes of the node that this is a copy of, or −1.
	Of int
}

// OutlineValue is what is known of a value without running anything.
type OutlineValue struct {
	Type  DType
	Shape Shape
	// Spelled is the dims as written in the file; "" for one that has neither
	// a number nor a name. nil if there is no file.
	Spelled []string
	// Known says that the shape is known, as an empty Shape may be a scalar's.
	Known bool
}

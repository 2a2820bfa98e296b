// Package onnx reads ONNX files into graphs and writes graphs as ONNX files.
//
//	g, source, err := onnx.Open("model.onnx", kernels.Library)
//	err = onnx.Write("out.onnx", g)
//	source.Close()                                         // g has no weights any more
//
//	o, err := onnx.ReadOutline("training.onnx")            // nodes as the file spells them
//	err = onnx.WriteEdited("out.onnx", "training.onnx", o, order)
//
// # Reading
//
// The wire format is parsed in a mapping of the file, without message structs and
// without copying weights. An initializer's Data is a block of the mapping, or of the
// mapping of an external file, which must be in the model's folder. Only numbers in
// typed fields (float_data and the like) are decoded to the heap, after their count
// has been compared with the shape.
//
// Default opsets 1 to 28 are read, with any IR version. Operators are looked up
// in the library, which checks them and infers their outputs; this package knows no
// operator by name. Model-local functions are inlined, and so are the branches of an If
// whose condition is constant. Unsorted nodes are sorted. Shapes come from the operators;
// the file's shapes of intermediate values are ignored. Chains that only compute shapes
// disappear (graph.FoldInts).
//
// A float initializer becomes a Param, a ModelBuffer or a Const, by the exporter's
// metadata or else by its name (origin.go, names.go); others become Consts. With From.Apart,
// parameters that PyTorch's exporter merged, folded or left out get initializers of their own
// again (apart.go). A dim_param
// may be a formula; text that looks like a name, even with hyphens, is one symbol; a dim
// without either is named after its input. An output named "X.new", where X is an
// initializer of the same type and shape, is also the Update of X. The only scalar float
// output is the loss.
//
// A training graph with a border (graph.Op.Border; ONNX Runtime's YieldOp) is split
// there: the forward pass is what the border depends on, the backward pass is the rest.
// The border's inputs are also outputs of the graph, the first scalar one is the loss,
// and an output named "X_grad", where X is an input, is the gradient of X.
//
// Names of dims that must have the same size, by the graph's equations (Graph.Assumed),
// are merged: all become the first in the order of the inputs, and the equation between
// the names is kept.
//
// Everything that is not supported is reported at once, as an *UnsupportedError.
// A broken file gives an error with the first fault. Any bytes give a
// graph or an error, in time and memory proportional to the file.
//
// ParseKnown reads a model with some inputs as constants, for models that take
// axes or target shapes as inputs. ParseOutline and ParseTensor are for test cases.
//
// # Writing
//
// Files are written atomically, by rename, and pass the ONNX checker if all operators
// are ONNX's own. Initializers are streamed. Above 2 GB, or with the option External,
// weights go to "<name>.data" beside the model. Constants that are formulas are
// computed by nodes from the shapes of the inputs.
//
// What ONNX cannot express is in metadata with the key prefix "memopt.": phases, kinds
// of initializers, gradients, updates, the loss. Reading a written file gives the same
// text (graph.Graph.String) with these exceptions: FoldInts is applied, a formula with
// ceil becomes the equal one with floor, and lists of floats in attributes are rounded
// to float32. States without numbers become zeros.
//
// # Editing
//
// To keep a file's nodes as they are, edit an outline instead of a graph. WriteEdited
// writes the file with the outline's changes: nodes with other inputs, further
// attributes, copies of nodes. Everything else, including weights, is copied byte for
// byte. If the file uses operators of a runtime that ONNX has adopted since, its opset
// is raised to the one that has them, provided that this changes no other node.
package onnx

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
// The wire format is walked over a mapping of the file; there are no message
// structs and weights are never copied. An initializer's Data is a block of the
// mapping, or of the mapping of an external file, which has to lie in the
// model's folder. Only numbers written in typed fields (float_data and its kin)
// are decoded to the heap, after their count has been compared with the shape.
//
// Default opsets 1 to 28 are read, with any IR version. Operators are looked up
// in the library and checked and inferred by it; no operator is known here by
// name. Model-local functions are inlined, and so is a then_branch/else_branch
// pair whose condition is known ahead. Nodes out of order are sorted. Shapes
// come from the operators; those that the file claims for intermediate values
// are not looked at. Chains that only compute shapes disappear (graph.FoldInts).
//
// A float initializer becomes a Param, a ModelBuffer or a Const, as the exporter's
// metadata or else its name says (origin.go, names.go), others Consts. A dim_param that is a formula
// is read as one; anything that looks like a name is one symbol, hyphens
// included; a dim that is not given is named after its input. An output named
// "X.new", where X is an initializer of the same type and shape, is also the
// Update of X. The only float output of one element is the loss.
//
// A training graph that is cut by a border (graph.Op.Border; ONNX Runtime's
// YieldOp) is parted there: what the border needs is the forward pass, all else
// the backward pass. The border's inputs are outputs of the graph too, the first
// that is one number is the loss, and an output named "X_grad", where X is an
// input, is the gradient of X.
//
// Names of dims that have to be one size for the graph to run, by its equations
// (Graph.Assumed), are joined: all are the first in the order of the inputs, and
// the equation between the two names stays among the assumed ones.
//
// Everything that is not supported is reported at once, as an *UnsupportedError.
// A file that is broken gives an error with the first fault. Any bytes give a
// graph or an error, in time and memory in proportion to the file.
//
// ParseKnown reads a model with some inputs as constants, for models that take
// axes or target shapes as inputs. ParseOutline and ParseTensor read what test
// cases are made of.
//
// # Writing
//
// Files appear by rename and pass the ONNX checker if all operators are ONNX's
// own. Initializers are streamed from where they lie. Above 2 GB, or with the
// option External, weights go to "<name>.data" beside the model. Contents that
// are known only as formulas are computed by nodes from the shapes of the inputs.
//
// What ONNX has no word for is metadata with keys that begin with "memopt.":
// phases, kinds of initializers, gradients, updates, the loss. Reading a written
// file gives back the same text (graph.Graph.String), with these exceptions:
// what FoldInts would change is changed, a formula with ceil comes back as the
// equal one with floor, and lists of floats in attributes are rounded to
// float32. States without numbers come back as zeros.
//
// # Editing
//
// A file whose nodes are to stay what they are is not written from a graph.
// WriteEdited takes an outline that was edited and writes the file back: nodes
// with other inputs, an attribute more, copies of nodes. What the edit leaves
// alone is copied byte for byte, weights and what no outline tells among it. A
// file that uses operators of a runtime's own which ONNX has taken up since says
// the opset that has them, if it then means what it meant.
package onnx

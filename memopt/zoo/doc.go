// Package zoo makes small models out of a few numbers: for demos, for tests,
// and for graphs of any size that a planner can be tried on.
//
// A Family is a kind of model: gpt, bert, llama, resnet, mlp. A Spec is its
// numbers; those left at zero are the family's own. New builds the forward
// graph with its loss, over symbolic batch and seq, and Data makes up a task
// that the model can learn:
//
//	g, err := zoo.New(zoo.Spec{Family: "gpt", Layers: 2, Width: 64}, kernels.Library)
//	data, err := zoo.Data(zoo.Spec{Family: "gpt", Layers: 2, Width: 64}, 256, 32, 1)
//
// Parameters carry PyTorch's names and layouts, and initial values that depend
// on nothing but the seed, the name and the index of an element. They are made
// when they are read and not kept, so a model of any size costs only its nodes
// until it is written.
//
// A model is what PyTorch would export: ONNX's own operators, activations as
// [batch, seq, width], matrix products over their rows. A value is named for
// the module that makes it, a shape for what it says.
//
// Operators are named here. Only this package and kernels may do that: a model
// is made of operators, all else asks what an operator is like.
package zoo

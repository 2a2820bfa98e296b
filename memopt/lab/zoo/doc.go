// Package zoo makes small models from a few numbers: for demos, for tests, and as graphs of any size for the
// planner.
//
// A Family is a kind of model: gpt, bert, llama, resnet, mlp. A Spec has the numbers of a model; zeros are replaced
// by the family's defaults. New builds the forward graph with its loss, over symbolic batch and seq, and Data
// generates a task that the model can learn:
//
//	g, err := zoo.New(zoo.Spec{Family: "gpt", Layers: 2, Width: 64}, kernels.Library)
//	data, err := zoo.Data(zoo.Spec{Family: "gpt", Layers: 2, Width: 64}, 256, 32, 1)
//
// Parameters have PyTorch's names and layouts. Their initial values depend only on the seed, the name and the index
// of an element. They are computed when they are read and not stored, so a model of any size takes only the memory
// of its nodes until it is written.
//
// Models are as PyTorch would export them: ONNX's own operators, activations as [batch, seq, width], matrix
// products over their rows. A value is named after the module that makes it, a shape after its contents.
//
// This package names operators. Only it and kernels may do that: other packages query the properties of operators.
package zoo

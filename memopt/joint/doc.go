// Package joint reads forward and backward passes that were recorded elsewhere,
// as one list of operators in JSON: PyTorch's joint graphs, before anything was
// decided about what to keep.
//
// # The file
//
// JSON, plain or gzipped, of the form memopt-fx-joint/1:
//
//	{"format": "memopt-fx-joint/1", "model": "gpt2", "num_fwd_outputs": 1,
//	 "outputs": ["loss", "mm_3", null],
//	 "nodes": [
//	  {"name": "primals_1", "op": "input", "kind": "param", "source": "w", "inputs": [],
//	   "outputs": [{"shape": [64, 64], "dtype": "float32", "bytes": 16384}]},
//	  {"name": "mm", "op": "aten.mm.default", "inputs": ["primals_2", "primals_1"], "flops": 524288,
//	   "is_backward": false, "outputs": [{"shape": [64, 64], "dtype": "float32", "bytes": 16384}]}, …]}
//
// Nodes stand in the order in which they ran. Outputs are the results of the
// forward pass (the last is the loss), then a gradient or null for each input
// that is no tangent. Of what a node says, its bytes are believed: shape and
// type may leave out how a tensor lies in memory.
//
// At the top may also stand threads, the number of threads that operators used, and layout, a
// text that tells how the tensors that were fed lie in memory. Work space depends on both, so
// they are part of the graph's fingerprint: a plan says what it is for, and is not taken for
// another number of threads. With allocator, a name, where tensors lie is left to the allocator
// of whoever runs the step, PyTorch's say. Plans then have no places: an arena is the bytes that
// are alive at once, and that is what a budget binds, with nothing lost to how lives lie beside
// each other. flops_per_byte, a whole number, is how many flops the device does in the time of a
// byte that moves; a quarter of one, about the balance of a processor, where it is not said.
//
// # What becomes of it
//
// A graph.Graph of opaque operators: each has the name that PyTorch gave it, a
// number of flops, outputs of known size, and nothing to run. It can be
// planned, explained, checked and exported, but not trained or written as ONNX.
//
//   - An output of an operator is a storage of its own and has the name of the
//     getitem that selects it. The list of outputs leaves out those that were
//     not computed, so the index of a getitem need not be a place in it.
//   - A node with alias_of owns no bytes: it becomes a view. The parts of a view
//     with several outputs (split, unbind) are views each.
//   - A node with the flag "once" does not run again, whatever the reason. Nor does one
//     with the flag "random", unless it draws nothing: an attention whose dropout is 0. The
//     flags are the node's: another of the same operator may run again.
//   - An output with held_until, the name of a node, is held by the program: what its
//     operator wrote when it first ran stays until that node has run for the first time,
//     whoever reads it and whatever runs again. So a Python variable is told that lives
//     longer than the last operator that reads it: until the last node of the forward pass,
//     or of the file, if nobody knows better. It may stand at an operator's output, at a
//     getitem's or at a view's, which holds what it is a view of; the longest holds. A node
//     that does not run, as a view, stands for the last before it that does, and one that ran
//     before says nothing. Behind it a plan may drop the value, and have it made again.
//   - Everything after the first node of the backward pass is backward, so that
//     the order stays that of the file.
package joint

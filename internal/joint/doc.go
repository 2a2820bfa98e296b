// Package joint reads forward and backward passes that were recorded elsewhere, as one list of operators in JSON:
// PyTorch's joint graphs, before any decision about what to save.
//
// # The file
//
// The file is JSON of at most 512 MiB, plain or gzipped, which then unpacks to at most 64 times its size and 1 MiB,
// in the format memopt-fx-joint/1:
//
//	{"format": "memopt-fx-joint/1", "model": "gpt2", "num_fwd_outputs": 1,
//	 "outputs": ["loss", "mm_3", null],
//	 "nodes": [
//	  {"name": "primals_1", "op": "input", "kind": "param", "source": "w", "inputs": [],
//	   "outputs": [{"shape": [64, 64], "dtype": "float32", "bytes": 16384}]},
//	  {"name": "mm", "op": "aten.mm.default", "inputs": ["primals_2", "primals_1"], "flops": 524288,
//	   "is_backward": false, "outputs": [{"shape": [64, 64], "dtype": "float32", "bytes": 16384}]}, …]}
//
// Nodes are listed in execution order. Outputs are the results of the forward pass (the last is the loss), then a
// gradient or null for each input that is not a tangent. A node's bytes are authoritative: shape and type may not
// describe the layout of a tensor in memory.
//
// Sizes may be formulas, as texts: "bytes": "8192*batch*seq". They are of the dims of the graph that is read, so a step that was
// recorded once is planned at any size. A number is written as one.
//
// Optional fields at the top level are threads, the number of threads that operators used, and layout, a text that
// describes the memory layout of the inputs. Work space depends on both, so they are part of the graph's
// fingerprint: a plan is not accepted for another number of threads. allocator names the allocator that places
// tensors at run time, such as PyTorch's. Plans then have no addresses: the size of an arena is the peak of live
// bytes, without fragmentation, and budgets limit that. flops_per_byte, a whole number, is the number of flops that
// the device performs in the time of moving a byte; the default is a quarter, about the balance of a processor.
//
// A node may have calls, the number of operators that ran for it: those of a backward node are one node.
//
// # The graph
//
// The result is a graph.Graph of opaque operators: each has PyTorch's name, a number of flops and outputs of known
// size, but no implementation. It can be planned, explained, checked and exported, but not trained or written as
// ONNX.
//
//   - Each output of an operator is a separate storage, named after the getitem that selects it. The list of
//     outputs omits those that were not computed, so the index of a getitem need not be an index into it.
//   - A node with alias_of owns no bytes: it becomes a view. The parts of a view with several outputs (split,
//     unbind) become one view each.
//   - A node with the flag "once" is never recomputed. Nor is one with the flag "random", unless it draws
//     nothing, such as attention whose dropout is 0. Flags apply to the node: others of the same operator may
//     be recomputed.
//   - An output with held_until, the name of a node, is held by the program: its first computed value stays
//     allocated until that node has run for the first time, whatever reads it and whatever is recomputed. This
//     describes Python variables that outlive the last operator that reads them: until the last node of the
//     forward pass or, lacking better knowledge, of the file. It may be given on the output of an operator, a
//     getitem or a view, which holds its base; the longest one counts. A node that does not run, such as a
//     view, stands for the last node before it that does; one that ran earlier has no effect. After that node,
//     a plan may drop the value and recompute it.
//   - A step may run forward again behind a backward pass, as that of a generator and a discriminator does: each node is
//     forward or backward as it says, and forward nodes of later passes may be recomputed as those of the first.
package joint

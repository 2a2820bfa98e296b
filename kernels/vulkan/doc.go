// Package vulkan is the device that runs kernels on Vulkan. It executes a schedule.Schedule:
// blocks of device memory for each space, every value at its offset, launches in order, each
// as the dispatches that its operator's Lower returns.
//
// # How a step runs
//
// Open lowers every node, makes a pipeline for each kernel and set of specialization constants,
// binds buffers with exact offset and size, and records the whole step into command buffers
// (lists), once. Run copies the inputs, sets seed and step, submits the lists and waits. After
// Open nothing is allocated except the results of Output and State, and timestamps on request.
//
// Descriptor sets are written once. Push descriptors (VK_KHR_push_descriptor) are no faster to
// record, and make a launch of a recorded step take 20 µs instead of 15 on lavapipe, which
// writes them again each time.
//
// A barrier is recorded where a dispatch reads or writes bytes that were written since the last
// barrier, or writes bytes that were read. Hazards are found by byte ranges, not by values, since
// a plan reuses memory.
//
// A list has at most 128 commands and is submitted on its own, so that displays are served in
// between and watchdogs do not fire.
//
// Matrix products are split into tiles by a table (kernels/productlower.go), for CPU drivers,
// where subgroups work alone, and for GPUs, where workgroups use shared memory.
// MEMOPT_VULKAN_GROUPS=alone or shared overrides the choice. On CPU drivers, factors with lines
// of odd length are copied to work space with padding, at most 1 MiB of one at a time: pairs of
// floats load twice as fast as single ones. So are large factors whose lines are a multiple of a
// page apart, which evict each other from the cache. Large convolutions are matrix products, too,
// except depthwise ones: on CPU drivers by im2col (kernels/convproductlower.go), on GPUs by the tiled
// product kernel, whose workgroups gather the image's elements themselves, so that no copy of it is
// written and read (kernels/implicitlower.go). AttentionInRows runs the kernels of its parts for some
// heads at a time (kernels/attentioninrows.go). FlashAttention's gradient is two passes without atomics,
// dQ, then dK and dV; on GPUs workgroups stage the rows that they go along in shared memory.
//
// Gradients of normalizations sum columns in two passes of fixed order; on GPUs the first of them computes dx, too, with a
// row in registers (kernels/normgradlower.go).
//
// All tiles of the table sum in the same order. So which one runs is free (graph.Pick): a model of the
// device picks one (tilesFor), or Options.Picker, or what was measured on the device (Options.Tune, tune.go).
//
// # Fast paths
//
// Features beyond Vulkan 1.2 are used by named fast paths (fastpaths.go): auto uses those that
// the device supports and that are known to help, none uses none, and a list those it names.
// MEMOPT_FAST_PATHS sets the same, and memopt devices shows the result. Paths are chosen once, when
// a schedule is opened, and by a node's types and shapes alone, so recomputed values have the
// same bits. float32 is never computed in a narrower type.
//
// cooperative-matrix: float16 matrix products, and convolutions as products, use matrices that a
// subgroup multiplies at once, with float32 accumulators (kernels/cooperative.go). Products of
// two float16 are exact in float32, so only the order of the sums is the device's. The operands'
// types alone decide, not their sizes. Edges are padded with zeros in shared memory, so no matrix
// is copied. CPU drivers emulate it at a fifth of the speed (lavapipe 26.2: 3.4 to 5 GFLOP/s a
// thread, 14 to 21 without), so auto does not use it there. It has not run on a GPU here, and
// drivers are known to announce it but give wrong products: so one launch is run both ways before
// the first step (prove.go), and if the results differ the path is not used, with a warning.
//
// cooperative-bfloat16: the same for bfloat16, by kernels made from those for float16 (spirv.BFloat16). It is a path of its own, as a
// driver may have either type, and may get one wrong.
//
// buffer-addresses: matrix products access their buffers by address instead of by descriptor, with
// the same bits (kernels/addressed.go). On lavapipe 25.0.7 that takes 0.65–1 of the time if a
// strip of the second factor stays in the L1 cache or its lines are contiguous along the sums,
// and it is only used then. The validation layer cannot check accesses by address, so with it
// descriptors are used.
//
// copy-queues: what moves to the host's memory goes by queues that only copy (lanes.go). Buffers are shared by both families of
// queues then (VK_SHARING_MODE_CONCURRENT), as each copy would have to hand its bytes over and back otherwise. A device with one
// queue can be asked to use the path: batches and semaphores are the same, which is how it is tested.
//
// push-descriptors: where a kernel's buffers are is recorded with it (vkCmdPushDescriptorSetKHR), so that no descriptor sets are made. A
// kernel with more bindings than the device pushes keeps its set. Lists are recorded once, so a submission is the same either way.
//
// Float16 arithmetic (shaderFloat16) is not a path: elementwise kernels of 16-bit floats are
// bound by memory, and it would round after every operation. On lavapipe the sum of two takes
// 0.65 to 0.85 of the time through float32, with the same bits, but a gate of a dozen operations
// 2.3 to 3.1 times as long.
//
// # Moves
//
// A schedule may move values to the host's memory and back (moves.go). That is one block that is allocated with the arena, and
// no part of it; Memory.Host counts it. Without queues of their own, copies are commands of the lists, as early as the schedule
// has them begin; the barriers of hazards, with the block as one more space, keep them apart from launches that touch the same bytes. Optimizer states that
// lie there for good are copied into a ring and back around the pieces of their update (streams.go).
//
// # What has no kernel
//
// A node whose operator has no Lower, or whose Lower refuses it (Lowering.Refused), runs on the
// CPU with the operator's Fast or Eval, between two lists. Nothing is copied for it if the device's
// memory is host-visible. Warnings lists these nodes, the reasons, and the bytes copied.
//
// # Chains
//
// A schedule may have launches that stand for several pointwise ones (planner, Plan.Chained).
// Their kernels are assembled when the schedule is opened, from functions compiled ahead. All
// arithmetic of pointwise kernels has NoContraction, so values have the same bits either way. A
// chain with too many dims or buffers for the kernel runs as separate launches.
//
// # Joined updates
//
// Small updates that can run at the same place become one dispatch with a table of the places of
// parameters, gradients and states (join.go): with gradient clipping by the global norm almost
// all of them, else those of a layer's weight and bias. In a GPT of 12 layers with width 64 and
// clipping, 112 of 148 updates are joined, in 3 dispatches; its step takes 1–3 % less CPU time on
// lavapipe, and 4 % less without clipping. Large updates are not joined: the table costs more
// than a dispatch. Delaying updates to join more would keep gradients alive longer than planned.
//
// # 16-bit floats
//
// float16 and bfloat16 are storage only; arithmetic is float32. Kernels access them as 32-bit words
// of two, so the device needs no 16-bit types: a lowering for float32 is switched to the kernels'
// half forms (kernels/halves.go), where a specialization constant gives the type of each binding.
// Operands of kernels without a half form are converted to float32 in the plan's work space.
//
// # Large operands
//
// A descriptor covers a limited range of a buffer: 128 MiB on Adreno and lavapipe, 4 GiB on most
// other devices. Pointwise operators, products, reductions, losses, softmax and normalizations
// over the last dims, parameter updates and operators that move elements then run in pieces
// (kernels/piecelower.go), convolutions and batch normalizations by some samples at a time, with
// the same bits. Other operators access large buffers by address, which has no limit: every kernel
// has that form, derived from its SPIR-V on demand (kernels/addressed.go). On a device without
// buffer addresses, or with more than 2³¹ elements, they run on the CPU. Memory that is not
// host-visible is accessed through a staging block of 16 MiB; MEMOPT_VULKAN_HIDDEN makes tests do
// so.
//
// # Failures
//
// A plan larger than the driver's budget for the process is refused before the first allocation. A
// submission that fails (out of memory, device lost, timeout) names its launches, with kernels and
// tensors. Afterwards every call returns that first error, since memory may hold half a step: open
// the plan again and continue from a checkpoint. Memory reports the memory held. Tests make calls
// fail with Options.Faults.
//
// # Adding a kernel
//
// Add Lower to the operator's file in kernels. Pointwise operators give an expression
// (lower.Pointwise); there are families for moving elements, sums and norms (move, reduce,
// row). A new shader is a .comp file in kernels/lower and a call of lower.Shader; go generate ./kernels compiles
// it. Rules:
//
//   - An element is computed by one invocation or subgroup in a fixed order, without atomics, for
//     any subgroup size from 8 on.
//   - Floats are computed as written: SPIR-V is marked NoContraction, so that no driver fuses a
//     multiplication and an addition in one shader but not in another. Where a single rounding
//     is wanted, as in products, the shader uses fma.
//   - Workgroups and offsets depend on shapes alone, so that recomputed values have the same bits.
//   - Work space must not depend on the device: the plan reserves it.
//   - Accumulators are separate variables; in an array they may be spilled to memory (see
//     product.comp). Adjacent elements are loaded in vectors of four where possible.
//   - The validation layer checks plans by buffer ranges: bind no more than is used.
package vulkan

// Package vulkan is the device that runs kernels. It obeys a planner.Schedule:
// blocks of device memory for each space, every value at its offset, launches
// in order, each as the dispatches that its operator's Lower gives.
//
// # How a step runs
//
// Open asks every node for its dispatches, makes a pipeline for each kernel and
// set of constants, binds buffers with exact offset and size, and records the
// whole step into lists of commands, once. Run copies the inputs, sets seed and
// step, submits the lists and waits. Nothing is allocated after Open but what
// Output and State hand out, and timestamps when somebody asks for them.
//
// Bindings are sets that are written once. Pushed into the commands instead
// (VK_KHR_push_descriptor) they are no quicker to record, and lavapipe then takes
// 20 µs for a launch of a recorded step rather than 15: it writes them again each
// time.
//
// A barrier stands where a dispatch reads or writes bytes that another has
// written since the last barrier, or writes bytes that another reads. That is
// told from byte ranges, not from values: a plan lays values where others were.
//
// A list is not longer than 128 commands, and is submitted by itself:
// displays are served in between and watchdogs stay calm.
//
// Products are parted into tiles by a table (kernels/productlower.go): for
// drivers of the processor, whose subgroups work alone, and for graphics
// processors, whose groups share memory. MEMOPT_VULKAN_GROUPS=alone or shared
// picks by hand. Factors on lines of odd length are laid out anew in work space,
// at most 1 MiB of one at a time: pairs of floats load twice as fast as floats.
// So are large ones on lines that are pages apart, which drive each other out of
// a cache. Large convolutions are products, too, of the filters and what their
// taps see of the image (kernels/convproductlower.go), unless each channel
// stands alone. Attention in rows is the launches of its pieces, for some heads
// at a time (kernels/attentioninrows.go).
//
// # Fast paths
//
// What a device may offer beside Vulkan 1.2 is used by paths that have names
// (fastpaths.go): auto takes those that are offered and known to help, none takes
// none, and a list those that it names. MEMOPT_FAST_PATHS says the same, and memopt
// devices what becomes of each. They are settled once, when a schedule is opened,
// and by a node's types and shapes alone: a value that is computed again has the
// bits that it had. Nothing of float32 is ever computed from less.
//
// cooperative-matrix: products of float16, and convolutions that are products, go
// through matrices that a subgroup multiplies at once (kernels/cooperative.go),
// summed in float32; a product of two float16 is exact there, so only the order of
// the sums is the device's own. The operands' types alone decide, not their sizes.
// Edges are zeros in the group's memory, so no matrix is laid out anew. A driver for
// the processor imitates it, at a fifth of the speed (lavapipe 26.2: 3.4 to 5 GFLOP/s a
// thread, 14 to 21 without), so auto leaves it alone there. No graphics processor has
// run it here, and drivers have announced it that gave wrong products: so one launch
// is done both ways before the first step (prove.go), and a path that comes out
// otherwise is not taken, with a warning.
//
// buffer-addresses: products find their buffers by addresses, not descriptors, which gives
// the same bits (kernels/addressed.go). On lavapipe 25.0.7 that takes 0.65–1 of the
// time where a strip of the second factor stays in a core's first cache or its lines
// lie along the sums, and only there it is done. The validation layer sees nothing
// through addresses, so under it descriptors stay.
//
// Arithmetic in float16 (shaderFloat16) is no path: elementwise kernels of 16-bit
// floats wait for memory, and it would round at every operation. One operation has
// the same bits either way. On lavapipe a sum of two takes 0.65 to 0.85 of the time
// that it takes through float32, and a gate of a dozen operations 2.3 to 3.1 times.
//
// # What has no kernel
//
// A node whose operator has no Lower, or whose Lower refuses it (Lowering.
// Refused), runs on the processor, by the operator's Fast or Eval, between two
// lists. Where the processor sees the device's memory nothing is copied for it.
// Warnings says which nodes those are, why, and how many bytes move.
//
// # Chains
//
// A schedule may have launches that stand for several elementwise ones (planner,
// Plan.Chained). The kernel is put together when the schedule is opened, from
// functions that were compiled ahead. All arithmetic of elementwise kernels is
// marked as exact, so a value has the same bits from either. What a kernel does
// not take, for its dims or because the device shows it too few buffers, runs in
// parts.
//
// # Joined updates
//
// Small updates that stand together, or could, are one dispatch with a table of
// where each has its parameter, gradient and states (join.go): as many as have
// gradients at that time, so with a common norm of gradients almost all, and
// without one those of a layer's weight and bias. Of a GPT of 12 layers with width
// 64 and such a norm 112 of 148 are joined, in 3 dispatches. Its step takes 1–3 %
// less of lavapipe's processor time, and 4 % less without the norm. Large ones stay
// alone: the table costs them more than a dispatch. Waiting longer for gradients
// would keep them alive, which the plan has not promised.
//
// # 16-bit floats
//
// float16 and bfloat16 are storage; arithmetic is float32. A kernel sees them as
// words of two, so that no device need have 16-bit types: a lowering for float32
// is changed to the kernels' other form (kernels/halves.go), by a constant that
// says what each binding holds. What a kernel without that form sees is widened
// into the plan's work space and narrowed behind it.
//
// # Large operands
//
// A device shows a kernel so many bytes of a buffer at most; Adreno and lavapipe
// 128 MiB, most others 4 GiB. Elementwise operators, products, reductions, losses,
// softmax and normalisations over the last dims, updates of parameters and what
// moves elements are done in pieces then (kernels/piecelower.go), convolutions and
// normalisations of batches by some samples at a time: to the bits that they have
// whole. What else is larger is done whole by kernels that find their buffers by
// addresses, of which no limit is told: every kernel has that form, made of its
// SPIR-V when it is asked for (kernels/addressed.go). On a device without addresses,
// or of more than 2³¹ elements, the processor does it. Copies through a block of
// 16 MiB serve memory that the processor does not see; MEMOPT_VULKAN_HIDDEN has
// tests go that way.
//
// # What goes wrong
//
// A plan that is larger than what the driver leaves to the process is refused
// before the first allocation. A submission that fails (memory, a lost device,
// no end in time) names the launches that it had, with kernels and tensors;
// after it every call is refused with that first cause, since memory may hold
// half a step: open the plan anew and go on from a checkpoint. Memory tells what
// is held of the driver. Tests make calls fail through Options.Faults.
//
// # Adding a kernel
//
// Put Lower into the operator's file in kernels. Elementwise operators give an
// expression (kernels/pointwise.go); what carries elements about, sums or takes
// norms has a family there (move, reduce, row). A new shader is a .comp file and
// a line shader(…) in Go; go generate ./kernels compiles it. Rules:
//
//   - An element is computed by one invocation or subgroup in one order; no
//     atomics. Any size of subgroup from 8 on.
//   - Floats are computed as they are written: what is compiled is marked so that
//     no driver fuses a product and a sum in one shader and not in another. Where
//     one rounding is wanted, as in products, the shader says fma.
//   - Groups and offsets come from shapes alone, so a recomputed value is bit
//     for bit the first.
//   - Scratch must not depend on the device: the plan has it.
//   - Sums have names of their own; in an array they may lie in memory (see
//     product.comp). Neighbours are loaded by fours, where they are whole.
//   - Buffer ranges are what the validation layer checks plans by: bind no more
//     than is used.
package vulkan

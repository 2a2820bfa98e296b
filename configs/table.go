package configs

import (
	"math"
	"slices"
)

// Values of the choices.
var (
	strategies = []string{"auto", "keep-all", "recompute-cheap", "recompute-all", "optimize"}
	oldNames   = map[string]string{"greedy": "optimize"}
	optimizes  = []string{"off", "clean", "fuse"}
	optimizers = []string{"sgd", "momentum", "adam", "adamw", "lamb", "adagrad"}
	devices    = []string{"auto", "cpu", "vulkan"}
	fastPaths  = []string{"cooperative-matrix", "cooperative-bfloat16", "buffer-addresses", "copy-queues", "push-descriptors"}
	compats    = []string{"1.19"}
	lossies    = []string{"off", "bf16", "fp16", "fp8"}
	arenas     = []string{"planned", "kNextPowerOfTwo", "kSameAsRequested"}
	loadModes  = []string{"streamed", "lazy", "eager", "inplace", "all"}
	costs      = []string{"auto", "time", "flops"}
	offloads   = []string{"disk", "host"}
	statesAt   = []string{"disk", "host", "auto"}
	replays    = []string{"native", "python", "compiled", "graph"}
	integers   = []string{"int8", "uint8", "int16", "uint16"}
	integersAs = map[string]string{"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16"}
	calibrates = []string{"minmax", "entropy", "percentile"}
	formats    = []string{"qdq", "qoperator"}
	logLevels  = []string{"debug", "devinfo", "info", "warn", "error", "fatal"}
	logAliases = map[string]string{"trace": "debug", "verbose": "debug", "warning": "warn"}
)

// Which commands use a setting, and so take it as a flag. All others refuse the flag, and ignore
// the setting in files and the environment.
var (
	stepping  = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune"}                                     // make a training step
	choosing  = []string{"plan", "maxbatch", "maxseq", "train", "leaks", "tune"}                                                 // choose one plan of it
	pricing   = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune"}                                     // weigh extra work
	priced    = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune", "profile"}                          // name a profile
	limiting  = []string{"plan", "maxbatch", "maxseq", "train", "leaks", "tune", "check"}                                        // plan or check under limits
	checking  = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune", "check"}                            // make the step or compare it
	reading   = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune", "check", "optimize"}                // read a model to train
	rewriting = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune", "run", "optimize", "load"}          // rewrite the graph
	drawing   = []string{"plan", "train"}                                                                                        // write graphs
	spilling  = []string{"train", "profile"}                                                                                     // write to a disk
	training  = []string{"train"}                                                                                                // runs the step
	serving   = []string{"serve"}                                                                                                // answers a trainer
	tuning    = []string{"train", "run"}                                                                                         // run steps
	opening   = []string{"train", "leaks", "tune", "run", "devices", "load"}                                                     // open devices
	sizing    = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune", "check", "run", "load", "quantize"} // bind dims
	placing   = []string{"plan", "frontier", "maxbatch", "maxseq", "train", "leaks", "tune", "run", "load", "profile"}           // plan for a device
	seeding   = []string{"plan", "train", "leaks", "run"}                                                                        // draw random numbers
	running   = []string{"run"}                                                                                                  // runs forward programs
	holding   = []string{"run", "load"}                                                                                          // hold weights under a limit
	bringing  = []string{"train", "leaks", "run", "load"}                                                                        // bring weights to a device
	loading   = []string{"load"}                                                                                                 // only loads weights
	outside   = []string{"optimize", "quantize"}                                                                                 // write models
	rounding  = []string{"quantize"}                                                                                             // quantizes weights
)

//go:generate go -C ../plugin run ./internal/gen tables

// OptimizerGroup is the heading of the settings of updates.
const OptimizerGroup = "Optimizer"

// aParameter describes an entry of a list of parameters.
const aParameter = "the name of a parameter or a pattern like encoder.*"

// rows lists every setting: one row, and one field of Config. Only the code that uses a setting
// names it elsewhere.
var rows = slices.Concat(
	group("Model",
		row("dims", func(c *Config) *map[string]int64 { return &c.Dims }, sizes(), nil, sizing,
			"Sizes of the model's named dims, as in batch=8,seq=1024."),
		row("loss", func(c *Config) *string { return &c.Loss }, name("the name of an output, or of a loss to add"), "", reading,
			"Output to minimize, needed if several outputs are scalars; or a loss to append: cross-entropy, mse, l1, bce-with-logits, mean, or cross-entropy:OUTPUT. Its new input is called labels or targets.", shapes),
		row("trainable", func(c *Config) *[]string { return &c.Trainable }, names(aParameter), nil, reading,
			"Parameters to train, by name or pattern like encoder.*; by default all parameters of the file. !encoder.* excludes, @names.txt reads names from a file, one a line or a JSON array. A buffer is trained if its full name is given.", shapes),
		row("frozen", func(c *Config) *[]string { return &c.Frozen }, names(aParameter), nil, reading,
			"Parameters not to train, by name, pattern or @names.txt; !encoder.* excludes from the list.", shapes),
		row("tied", func(c *Config) *bool { return &c.Tied }, onOff(), false, training,
			"Train also where the file does not tell all parameters apart, as PyTorch's exporter merged some: they stay tied, or are not trained."),
		row("optimize", func(c *Config) *string { return &c.Optimize }, choice(optimizes, nil), "fuse", rewriting,
			"Passes over the forward graph: none (off), those that keep every bit (clean), or fusions, too (fuse).", shapes),
	),
	group("Limits",
		row("budget", func(c *Config) *Budget { return &c.Budget }, size(), Budget{}, limiting,
			"Most memory that the step may hold, weights and optimizer included: 6GiB, 6GB, or 60% of the memory with everything kept.", alias("memory_budget")),
		row("activation_budget", func(c *Config) *Budget { return &c.ActivationBudget }, size(), Budget{}, limiting,
			"Most memory for the arena: activations, gradients in flight and workspace."),
		row("max_overhead", func(c *Config) *float64 { return &c.MaxOverhead }, share(), 0, limiting,
			"Most extra time, as a share of the step's: 10% or 0.1. Without a budget the plan is the lowest within it."),
		row("offload", func(c *Config) *string { return &c.Offload }, choice(offloads, nil), "", pricing,
			"Move values that the step does not need for a while to a file on disk, or to the memory of a GPU's host, and back, where that is cheaper than to compute them again; the same bits."),
		row("host_budget", func(c *Config) *int64 { return &c.HostBudget }, bytes(), 0, pricing,
			"Most bytes that offload and states may have there at a time; by default there is no limit."),
		row("cost", func(c *Config) *string { return &c.Cost }, choice(costs, nil), "auto", pricing,
			"What extra work counts in: time, in nanoseconds of a profile of the device (auto is the same), or flops and bytes."),
		row("for_device", func(c *Config) *string { return &c.ForDevice }, name("the name of a device, or a profile's file"), "", priced,
			"Price plans for a device that need not be here: h100, a100, 4090, mi300x …, or a file of memopt profile.", flag("for"), metavar("h100")),
		row("replay", func(c *Config) *string { return &c.Replay }, choice(replays, nil), "native", pricing,
			"Who runs operators of a recorded step again, whose time counts: the native module, Python, compiled graphs, or a captured graph."),
	),
	group("What is recomputed",
		row("preset", func(c *Config) *string { return &c.Preset }, choice(presetNames, nil), "", choosing,
			"Ready-made settings to start from; any other setting that is given overrides them."),
		row("strategy", func(c *Config) *string { return &c.Strategy }, choice(strategies, oldNames), "auto", choosing,
			"How the values to recompute are chosen: none, the cheap ones, all, or at least cost within the limits (optimize). Auto: optimize if there are limits, else keep-all."),
		row("level", func(c *Config) *int { return &c.Level }, whole(0, 2), 0, choosing,
			"ONNX Runtime's level: 0 the clusters in config, 1 all clusters of each transformer layer, 2 also compromises.", ort("ORTMODULE_MEMORY_OPT_LEVEL")),
		row("config", func(c *Config) *[]Request { return &c.Requests }, clusters(), nil, stepping,
			"JSON file of settings, or of ONNX Runtime's array of clusters; or the JSON itself, or clusters: BiasGelu+:1:-1,Dropout+:1:{0-3,7}. In such a file: the clusters.", ort(configVariable)),
		row("boundary", func(c *Config) *bool { return &c.Boundary }, onOff(), true, stepping,
			"End clusters at the boundaries of transformer layers."),
		row("compat", func(c *Config) *string { return &c.Compat }, choice(compats, nil), "", stepping,
			"ONNX Runtime release whose clusters and choices are reproduced exactly, including defects.", metavar("1.19")),
	),
	group("Form of the step",
		row("shrink", func(c *Config) *string { return &c.Shrink }, switchOr("auto"), "auto", stepping,
			"Keep only the sign, mask or index of a value for the backward pass if that is all it uses; exact. Auto: under a budget or at level 2, if it helps.", shapes),
		row("chunk_loss", func(c *Config) *string { return &c.ChunkLoss }, switchOr("auto"), "auto", stepping,
			"Compute the scores of a cross entropy some rows at a time, and recompute them for the backward pass instead of keeping them; the same bits. Auto: under a budget, if it helps.", shapes),
		row("flash_attention", func(c *Config) *string { return &c.Flash }, switchOr("auto", "rows"), "auto", stepping,
			"Compute attention in pieces, and recompute them for the backward pass instead of keeping probabilities. Rows: some queries at a time, the same bits. On: tiles, less memory, the last digits are rounded differently. Auto: rows under a budget, if it helps.", shapes),
		row("sequence_tiles", func(c *Config) *string { return &c.SequenceTiles }, tileCounts(), "off", stepping,
			"Compute feed-forward layers some rows of the sequence at a time, and recompute their hidden values for the backward pass instead of keeping them; the same bits. On: in as many tiles as sums of the same bits allow. N: in about N tiles. A list such as off,off,on or 2,8 is for one layer after another, its last entry for all further ones. Auto: under a budget, for as many layers as it helps; maxseq takes that by default.", shapes),
		row("fuse_chains", func(c *Config) *string { return &c.FuseChains }, switchOr("auto"), "auto", stepping,
			"Run chains of elementwise operators as one launch; the same bits. Auto: on devices that run kernels."),
		row("lossy", func(c *Config) *string { return &c.Lossy }, choice(lossies, map[string]string{"f16": "fp16", "f8": "fp8"}), "off", stepping,
			"Keep activations for the backward pass in a smaller type: gradients are no longer exact, and train prints their error. Under a budget as many as it requires, else those in config, or all.", shapes),
	),
	group(OptimizerGroup,
		row("optimizer", func(c *Config) *string { return &c.Optimizer }, choice(optimizers, nil), "adamw", checking,
			"Update rule; its states are part of the memory.", shapes),
		row("states", func(c *Config) *string { return &c.States }, choice(statesAt, nil), "", stepping,
			"Keep the optimizer's states in a file on disk, or in the memory of a GPU's host: they come in with the update of their parameter and go out behind it, a piece at a time; the same bits. Auto: only as many as the budget needs, those of the largest parameters first; none where everything fits."),
		row("lr", func(c *Config) *float64 { return &c.LR }, real(positive), 1e-3, training,
			"Learning rate."),
		row("warmup", func(c *Config) *int { return &c.Warmup }, whole(0, math.MaxInt32), 0, training,
			"Updates over which the learning rate rises linearly to lr. Adam's first updates are as long as the rate, however small the gradients; at the full rate they can make the loss jump."),
		row("momentum", func(c *Config) *float64 { return &c.Momentum }, real(below1), 0.9, stepping,
			"Momentum: decay of the velocity.", shapes),
		row("nesterov", func(c *Config) *bool { return &c.Nesterov }, onOff(), false, stepping,
			"Momentum: use Nesterov's variant.", shapes),
		row("beta1", func(c *Config) *float64 { return &c.Beta1 }, real(below1), 0.9, stepping,
			"Adam, AdamW and LAMB: decay of the mean gradient.", shapes),
		row("beta2", func(c *Config) *float64 { return &c.Beta2 }, real(below1), 0.999, stepping,
			"Adam, AdamW and LAMB: decay of the mean squared gradient.", shapes),
		row("epsilon", func(c *Config) *float64 { return &c.Epsilon }, real(positive), 1e-8, stepping,
			"Adam, AdamW, LAMB and Adagrad: added to the root of the squared gradients.", shapes),
		row("weight_decay", func(c *Config) *float64 { return &c.WeightDecay }, real(atLeast0), 0.01, stepping,
			"AdamW and LAMB: share of a parameter subtracted at each update, times the learning rate.", shapes),
		row("lr_decay", func(c *Config) *float64 { return &c.LRDecay }, real(atLeast0), 0, stepping,
			"Adagrad: the learning rate is divided by 1 + lr_decay × updates done.", shapes),
		row("clip_norm", func(c *Config) *float64 { return &c.ClipNorm }, real(atLeast0), 0, stepping,
			"Largest norm of all gradients together; 0: no clipping.", shapes),
		row("loss_scale", func(c *Config) *LossScale { return &c.LossScale }, lossScale(), LossScale{}, stepping,
			"Factor on the loss in the backward pass, for models of 16-bit floats. Auto starts at 65536; when gradients overflow it halves and the update is skipped.", shapes),
		row("loss_scale_window", func(c *Config) *int { return &c.ScaleWindow }, whole(1, math.MaxInt32), 2000, stepping,
			"Updates without an overflow before an automatic loss scale doubles.", shapes),
		row("accumulate", func(c *Config) *int { return &c.Accumulate }, whole(1, math.MaxInt32), 1, stepping,
			"Micro-batches whose gradients are summed for one update.", shapes),
	),
	group("Quantization",
		row("weight_type", func(c *Config) *string { return &c.WeightType }, choice(integers, integersAs), "int8", rounding,
			"Integer type of weights; those of 16 bits are for --calibrate and the format qdq. Without --calibrate, activations are uint8."),
		row("per_channel", func(c *Config) *bool { return &c.PerChannel }, onOff(), false, rounding,
			"One scale per output channel of a product instead of one per tensor."),
		row("reduce_range", func(c *Config) *bool { return &c.ReduceRange }, onOff(), false, rounding,
			"Round weights to 7 bits: on x86 processors without VNNI, ONNX Runtime's 8-bit products saturate otherwise. Those of memopt are exact on every processor."),
		row("op_types", func(c *Config) *[]string { return &c.OpTypes }, names("the name of an operator"), nil, rounding,
			"Operators to quantize; by default MatMul, Gemm, Conv, Gather, Transpose, LSTM, and ONNX Runtime's Attention and EmbedLayerNormalization."),
		row("nodes", func(c *Config) *[]string { return &c.Nodes }, names("the name of a node"), nil, rounding,
			"Quantize these nodes only, by name; @names.txt reads names from a file."),
		row("exclude", func(c *Config) *[]string { return &c.Exclude }, names("the name of a node"), nil, rounding,
			"Nodes not to quantize, by name or @names.txt."),
		row("weight_symmetric", func(c *Config) *string { return &c.WeightSymmetric }, switchOr("auto"), "auto", rounding,
			"Quantize weights symmetrically around zero. Auto: if they are int8."),
		row("activation_symmetric", func(c *Config) *bool { return &c.ActivationSymmetric }, onOff(), false, rounding,
			"Quantize tables that are read as activations, as by a Gather, symmetrically."),
		row("matmul_const_b_only", func(c *Config) *string { return &c.MatMulConstBOnly }, switchOr("auto"), "auto", rounding,
			"Do not quantize a MatMul whose second factor is computed. Auto: without --calibrate."),
		row("enable_subgraph", func(c *Config) *bool { return &c.EnableSubgraph }, onOff(), false, rounding,
			"Quantize the branches and bodies of If, Loop and Scan, too."),
		row("force_quantize_no_input_check", func(c *Config) *bool { return &c.ForceQuantize }, onOff(), false, rounding,
			"Quantize a Transpose, and others that only move values, if it reads a weight; off: if it reads a quantized value."),
		row("fold_transposes", func(c *Config) *bool { return &c.FoldTransposes }, onOff(), false, rounding,
			"Treat the Transpose of a weight as a weight, for models that PyTorch exported without optimizing; ONNX Runtime's quantize_dynamic does so after quant_pre_process."),
		row("minimum_real_range", func(c *Config) *float64 { return &c.MinimumRealRange }, real(atLeast0), 0, rounding,
			"Smallest range of floats to compute a scale for."),
		row("external_data", func(c *Config) *bool { return &c.ExternalData }, onOff(), false, outside,
			"Write weights to FILE.data beside the model, aligned for mapping; above 2 GB always."),
	),
	group("Static quantization",
		row("calibrate", func(c *Config) *string { return &c.Calibrate }, filePath("a file or folder"), "", rounding,
			"Sample inputs: activations are quantized by the ranges that they have on these, as by ONNX Runtime's quantize_static. An npz file of arrays, taken as many rows at a time as --dims says; or a folder of such files, each one run, in the order of their names."),
		row("calibrate_method", func(c *Config) *string { return &c.CalibrateMethod }, choice(calibrates, nil), "minmax", rounding,
			"How ranges are found: the extremes; those that lose least information (entropy); or those of most values (percentile)."),
		row("quant_format", func(c *Config) *string { return &c.QuantFormat }, choice(formats, nil), "qdq", rounding,
			"Pairs of QuantizeLinear and DequantizeLinear (qdq), or operators on integers (qoperator), most of which are ONNX Runtime's own."),
		row("activation_type", func(c *Config) *string { return &c.ActivationType }, choice(integers, integersAs), "int8", rounding,
			"Integer type of activations."),
		row("calib_percentile", func(c *Config) *float64 { return &c.CalibPercentile }, real(percentage), 99.999, rounding,
			"Percentile: share of values inside the range, in percent."),
		row("calib_tensor_range_symmetric", func(c *Config) *string { return &c.CalibSymmetric }, switchOr("auto"), "auto", rounding,
			"Make ranges symmetric around zero. Auto: those of percentiles."),
		row("calib_moving_average", func(c *Config) *bool { return &c.CalibMoving }, onOff(), false, rounding,
			"Minmax: average the extremes of the runs."),
		row("calib_moving_average_constant", func(c *Config) *float64 { return &c.CalibAverage }, real(below1), 0.01, rounding,
			"Weight of a later stride of runs in that average."),
		row("calib_strided_min_max", func(c *Config) *int { return &c.CalibStride }, whole(0, math.MaxInt32), 0, rounding,
			"Runs whose ranges are found together, before those of the next are added; 0: all."),
		row("activation_restricted_asymmetric", func(c *Config) *bool { return &c.ActivationRestricted }, onOff(), false, rounding,
			"Zero points of uint8 activations are 0 or 128."),
		row("add_qdq_pair_to_weight", func(c *Config) *bool { return &c.PairToWeight }, onOff(), false, rounding,
			"Qdq: weights stay floats, and are rounded when the model runs."),
		row("dedicated_qdq_pair", func(c *Config) *bool { return &c.DedicatedPair }, onOff(), false, rounding,
			"Qdq: a pair for each reader of a value."),
		row("quantize_bias", func(c *Config) *bool { return &c.QuantizeBias }, onOff(), true, rounding,
			"Qdq: round biases to 32 bits."),
		row("qdq_keep_removable_activations", func(c *Config) *bool { return &c.KeepRemovable }, onOff(), false, rounding,
			"Qdq: keep a Relu or Clip whose work rounding does."),
		row("qdq_disable_weight_adjust_for_int32_bias", func(c *Config) *bool { return &c.KeepWeightScales }, onOff(), false, rounding,
			"Qdq: do not widen the scale of a weight whose bias would not fit into 32 bits."),
		row("use_qdq_contrib_ops", func(c *Config) *bool { return &c.ContribPairs }, onOff(), false, rounding,
			"Qdq: pairs of ONNX Runtime's own domain, as 16-bit types have below opset 21."),
		row("op_types_to_exclude_output_quantization", func(c *Config) *[]string { return &c.PlainResults }, names("the name of an operator"), nil, rounding,
			"Qdq: operators whose results stay floats."),
		row("qdq_op_type_per_channel_support_to_axis", func(c *Config) *[]string { return &c.ChannelAxes }, names("an operator and an axis, as in MatMul=0"), nil, rounding,
			"Qdq: axes of scales per channel, as in MatMul=0."),
		row("sigmoid_nnapi", func(c *Config) *bool { return &c.SigmoidNNAPI }, onOff(), false, rounding,
			"Qoperator: results of a Sigmoid have the scale 1/256."),
	),
	group("Run",
		row("steps", func(c *Config) *int { return &c.Steps }, whole(1, math.MaxInt32), 10, training,
			"Number of updates."),
		row("seed", func(c *Config) *uint64 { return &c.Seed }, seed(), 0, seeding,
			"Seed of all random numbers: the same seed gives the same run."),
		row("device", func(c *Config) *string { return &c.Device }, deviceName(), "auto", placing,
			"Device to run on; vulkan:1 and vulkan:llvmpipe name one of several."),
		row("fast_paths", func(c *Config) *[]string { return &c.FastPaths }, someOf(fastPaths, "auto", "none"), []string{"auto"}, opening,
			"Fast paths of a Vulkan device to use, as listed by memopt devices. Some sum in another order; a recomputed value still has the same bits as the first."),
		row("tune", func(c *Config) *bool { return &c.Tune }, onOff(), false, tuning,
			"Choose among a Vulkan device's kernels by measuring: variants of a size that has not been measured on the device run when it is opened, for 20 s at most, and the fastest is kept in a file. Off: what a model of the device expects to be fastest. Bits are the same."),
		row("service_budget", func(c *Config) *Budget { return &c.ServiceBudget }, size(), Budget{}, serving,
			"Most memory that the service may allocate; a request that does not fit is refused. Tensors shared with the trainer do not count."),
		row("spill_folder", func(c *Config) *string { return &c.SpillFolder }, folder(), "", spilling,
			"Folder on a disk for what offload and states keep there; its file has no name, and is gone when the process ends. By default /var/tmp, or what TMPDIR names."),
		row("load_mode", func(c *Config) *string { return &c.LoadMode }, choice(loadModes, nil), "streamed", bringing,
			"How weights reach the device. Streamed: in chunks through a ring buffer. Lazy: each read in full, copied and dropped. Eager: all held until the end. Inplace: read straight into device memory that the processor can address. All (of load): every mode in turn.", short("load", "mode")),
		row("chunk", func(c *Config) *int64 { return &c.Chunk }, bytes(), 16<<20, bringing,
			"Size of the ring buffer that weights stream through."),
		row("reloads", func(c *Config) *int { return &c.Reloads }, whole(0, math.MaxInt32), 20, loading,
			"Times to reload and drop the model, to check that no memory is left."),
		row("repeats", func(c *Config) *int { return &c.Repeats }, whole(1, 100), 3, loading,
			"Times to measure the load; the least, the median and the most are shown."),
		row("mem_limit", func(c *Config) *int64 { return &c.MemoryLimit }, bytes(), 0, holding,
			"Most memory for weights, the arena, copies of inputs, and results; when loading, for weights, their copies, the ring buffer and activations."),
		row("arena_extend_strategy", func(c *Config) *string { return &c.ArenaStrategy }, choice(arenas, lowerCase(arenas)), "planned", running,
			"How the arena grows: to the size of the largest plan, by regions of doubling size, or by the bytes requested."),
		row("enable_mem_pattern", func(c *Config) *bool { return &c.MemoryPattern }, onOff(), true, running,
			"Place all values of a run in one block, planned for its shapes; off: allocate them in the arena one by one."),
		row("max_patterns", func(c *Config) *int { return &c.MaxPatterns }, whole(0, 1<<16), 0, running,
			"Number of input shapes whose plans are cached, those of the latest runs; 0: as many as the graph's size allows."),
		row("enable_cpu_mem_arena", func(c *Config) *bool { return &c.CPUArena }, onOff(), true, running,
			"Keep memory in an arena between runs; off: allocate it from the system each time."),
		row("initial_chunk_size_bytes", func(c *Config) *int64 { return &c.InitialChunk }, bytes(), 0, running,
			"Size of the arena's first region; by default 1 MiB."),
		row("initial_growth_chunk_size_bytes", func(c *Config) *int64 { return &c.InitialGrowth }, bytes(), 0, running,
			"Size of the arena's next region after it was shrunk; by default 2 MiB."),
		row("max_dead_bytes_per_chunk", func(c *Config) *int64 { return &c.MaxDead }, bytes(), 0, running,
			"A chunk is not split if less than this would be left of it; by default 128 MiB."),
		row("max_power_of_two_extend_bytes", func(c *Config) *int64 { return &c.MaxPowerOfTwo }, bytes(), 0, running,
			"Size up to which regions of kNextPowerOfTwo double; by default 1 GiB."),
		row("threads", func(c *Config) *int { return &c.Threads }, whole(0, 1<<12), 0, running,
			"Threads per operator, with the same bits for any number; 0: one per processor."),
		row("optimized_model_filepath", func(c *Config) *string { return &c.OptimizedModelPath }, filePath("a file"), "", running,
			"ONNX file to write the optimized graph to."),
		row("optimized_weights_file", func(c *Config) *string { return &c.OptimizedModelFile }, name("the name of a file"), "", running,
			"File in the same folder for its weights; by default they are inside."),
		row("optimized_weights_from", func(c *Config) *int64 { return &c.OptimizedModelFrom }, bytes(), 0, running,
			"Least bytes of a weight that goes to that file; by default 1 KiB."),
		row("log", func(c *Config) *string { return &c.Log }, choice(logLevels, logAliases), "warn", nil,
			"Lowest level that is logged.", flag("log-level"), ort("ORTMODULE_LOG_LEVEL", "VERBOSE", "DEVINFO", "INFO", "WARNING", "ERROR", "FATAL")),
		row("save_onnx_path", func(c *Config) *string { return &c.SaveONNXPath }, folder(), "", drawing,
			"Folder to write the training graph to, before and after planning.", ort("ORTMODULE_SAVE_ONNX_PATH")),
	),
)

package onnx

import (
	"path"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// In a file that does not say which initializers are parameters, names decide. PyTorch's older
// exporter (dynamo=False), like most others, keeps the names of the state dict and generates
// names for folded values. A generated name is of a folded value, which its readers classify;
// a name of the list below is a buffer's; every other float initializer is a parameter.
// --trainable and --frozen override that.

// bufferName is a suffix of buffers' names, of whole words between dots.
type bufferName struct {
	name  string // patterns as in path.Match
	rank  int    // minimum rank, as a vector of that name may be a parameter
	where string // libraries that register it
}

// bufferNames are names under which libraries register float buffers.
var bufferNames = []bufferName{
	{"running_mean", 0, "torch.nn.BatchNorm1d/2d/3d, InstanceNorm"},
	{"running_var", 0, "torch.nn.BatchNorm1d/2d/3d, InstanceNorm"},
	{"num_batches_tracked", 0, "torch.nn.BatchNorm1d/2d/3d, InstanceNorm"},
	{"moving_mean", 0, "Keras BatchNormalization"},
	{"moving_variance", 0, "Keras BatchNormalization"},
	{"weight_u", 0, "torch.nn.utils.spectral_norm"},
	{"weight_v", 0, "torch.nn.utils.spectral_norm"},
	{"parametrizations.weight.*._u", 0, "torch.nn.utils.parametrizations.spectral_norm"},
	{"parametrizations.weight.*._v", 0, "torch.nn.utils.parametrizations.spectral_norm"},

	{"inv_freq", 0, "transformers: rotary embeddings of LLaMA, GPT-NeoX, Mistral, …"},
	{"original_inv_freq", 0, "transformers: rotary embeddings that are scaled"},
	{"*cos_cached", 0, "transformers before 4.38: LlamaRotaryEmbedding"},
	{"*sin_cached", 0, "transformers before 4.38: LlamaRotaryEmbedding"},
	{"cos_sin_cache", 0, "vLLM: RotaryEmbedding"},
	{"cos_cache", 0, "torchtune, torchtitan: rotary embeddings"},
	{"sin_cache", 0, "torchtune, torchtitan: rotary embeddings"},
	{"freqs_cis", 0, "Meta's LLaMA, diffusers"},
	{"freqs_cos", 0, "llama2.c"},
	{"freqs_sin", 0, "llama2.c"},
	{"rotary*.freqs", 0, "rotary-embedding-torch"},
	{"rope*.freqs", 0, "rotary-embedding-torch"},
	{"rope*.periods", 0, "DINOv3"},
	{"attn.embed_positions", 2, "transformers: GPTJAttention, CodeGenAttention"},
	{"embed_positions.weights", 2, "fairseq, transformers: SinusoidalPositionalEmbedding"},
	{"embeddings.position_ids", 0, "transformers: BertEmbeddings"},
	{"position_ids", 0, "transformers: embeddings of BERT, CLIP, ViT, …"},
	{"token_type_ids", 0, "transformers: BertEmbeddings"},
	{"pe", 2, "PyTorch tutorials: PositionalEncoding"},
	{"relative_position_index", 0, "Swin Transformer, BEiT"},
	{"relative_coords_table", 0, "Swin Transformer v2"},
	{"attention_bias_idxs", 0, "LeViT, EfficientFormer"},

	{"attn.bias", 2, "GPT-2 (transformers, nanoGPT): causal mask"},
	{"attention.bias", 2, "GPT-Neo, GPT-NeoX (transformers): causal mask"},
	{"masked_bias", 0, "GPT-2, GPT-J, GPT-NeoX (transformers)"},
	{"attn_mask", 0, "Swin Transformer, open_clip"},
	{"attention_mask", 2, "decoders with a registered mask"},
	{"causal_mask", 0, "decoders with a registered mask"},
	{"mask", 2, "minGPT, nanoGPT: causal mask"},
	{"tril", 2, "nanoGPT lectures: Head"},
	{"alibi", 0, "MPT, BLOOM: attention with linear biases"},
	{"slopes", 0, "attention with linear biases"},

	{"betas", 0, "diffusion: beta schedule"},
	{"alphas", 0, "diffusion: 1 - betas"},
	{"alphas_bar", 0, "diffusion"},
	{"*alphas_cumprod*", 0, "diffusion: alphas_cumprod, sqrt_one_minus_alphas_cumprod, …"},
	{"*alphas_bar*", 0, "diffusion"},
	{"posterior_variance", 0, "diffusion: posterior"},
	{"posterior_log_variance_clipped", 0, "diffusion: posterior"},
	{"posterior_mean_coef?", 0, "diffusion: posterior"},
	{"lvlb_weights", 0, "latent diffusion"},
	{"p2_loss_weight", 0, "denoising-diffusion-pytorch"},
	{"loss_weight", 0, "denoising-diffusion-pytorch"},
	{"snr", 0, "denoising-diffusion-pytorch"},
	{"sigmas", 0, "score models, k-diffusion"},
	{"log_sigmas", 0, "k-diffusion"},
	{"timesteps", 0, "diffusion"},

	{"mean", 0, "normalizing layers: Wav2Vec 2, timm, kornia"},
	{"std", 0, "normalizing layers: Wav2Vec 2, timm, kornia"},
	{"var", 0, "normalizing layers of tabular models"},
	{"*_mean", 0, "image_mean, pixel_mean, feature_mean: normalizing layers, Detectron 2"},
	{"*_std", 0, "image_std, pixel_std, feature_std: normalizing layers, Detectron 2"},
	{"*_var", 0, "running statistics of other layers"},
	{"mel_filters", 0, "Whisper"},
	{"mel_scale.fb", 0, "torchaudio.transforms.MelScale"},
	{"spectrogram.window", 0, "torchaudio.transforms.Spectrogram"},
	{"fb", 2, "torchaudio: filter bank"},
	{"window", 0, "torchaudio, STFT layers"},
	{"dct_mat", 0, "torchaudio.transforms.MFCC"},

	{"anchors", 0, "YOLOv5, SSD"},
	{"anchor_grid", 0, "YOLOv5"},
	{"cell_anchors.*", 0, "Detectron 2: AnchorGenerator"},
	{"strides", 0, "YOLO"},
	{"resample_filter", 0, "StyleGAN 2 and 3"},
	{"noise_const", 0, "StyleGAN 2"},
	{"w_avg", 0, "StyleGAN 2 and 3"},
	{"filt", 2, "anti-aliased CNNs: BlurPool"},
	{"cluster_size", 0, "VQ-VAE: exponential moving averages"},
	{"embed_avg", 0, "VQ-VAE: exponential moving averages"},
	{"ema_w", 0, "VQ-VAE: exponential moving averages"},
	{"min_val", 0, "torch.ao.quantization observers"},
	{"max_val", 0, "torch.ao.quantization observers"},
	{"e_score_correction_bias", 0, "DeepSeek-V3: balance of experts"},
}

// isBufferName finds a name in the list.
func isBufferName(name string, rank int) bool {
	words := strings.Split(name, ".")
	return slices.ContainsFunc(bufferNames, func(b bufferName) bool {
		n := strings.Count(b.name, ".") + 1
		if rank < b.rank || n > len(words) {
			return false
		}
		ok, err := path.Match(b.name, strings.Join(words[len(words)-n:], "."))
		return ok && err == nil
	})
}

// constantNames are patterns of exporters' and optimizers' names of literals in a program. A
// node's output is named after the node.
var constantNames = []string{
	"*/Constant_output_0", "*/Constant_*_output_0", "Constant_output_0", "Constant_*_output_0", // PyTorch, once nodes are initializers
	"Constant_[0-9]*", "Const__[0-9]*", "*/Const:0", "*/Const_[0-9]*:0", "*/[xy]:0", // TensorFlow
}

// madeUpNames are patterns of their names of folded values.
var madeUpNames = []string{
	"onnx::*", "*_output_[0-9]", // PyTorch, dynamo=False
	"val_[0-9]*", "_val_[0-9]*", // PyTorch, dynamo=True
	"const_fold_opt__*", "new_shape__*", // TensorFlow
	"ortshared_*", // ONNX Runtime: equal constants
}

func isConstantName(name string) bool { return matchesAny(constantNames, name) }

// isMadeUp reports whether a name was generated. PyTorch's oldest exporters used numbers.
func isMadeUp(name string) bool {
	return matchesAny(madeUpNames, name) || strings.Trim(name, "0123456789") == ""
}

func matchesAny(patterns []string, name string) bool {
	name = strings.ReplaceAll(name, "/", "\x00")
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(strings.ReplaceAll(p, "/", "\x00"), name)
		return ok && err == nil
	})
}

// weighing lists operators with weights among their inputs: a folded value that they read is
// made of parameters, for example transposed or concatenated ones.
var weighing = []string{
	"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "RNN", "GRU", "LSTM", "Gather", "PRelu",
	"BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization",
}

// joining lists operators whose folded inputs are mostly parameters: position embeddings, class
// tokens and biases.
var joining = []string{"Add", "Sum", "Concat", "Expand"}

// byReaders classifies a folded value by its readers. A scalar is a constant, and a weight of
// a product or normalization is a parameter. The other rules are heuristics, which --trainable
// and --frozen override: values that are added are parameters (position embeddings), unless
// a softmax follows (masks); a factor per channel is a parameter, a table of factors (rotary
// embeddings) a buffer; values that are subtracted, divided by or selected are buffers.
func byReaders(v *graph.Value, uses *graph.Uses) (graph.Kind, Origin) {
	if v.Rank() == 0 {
		return graph.Const, Origin{}
	}
	kind, sure := graph.ModelBuffer, false
	for _, n := range seenBy(v, uses, 0) {
		switch {
		case slices.Contains(weighing, n.Op.Name):
			kind, sure = graph.Param, true
		case sure:
		case slices.Contains(joining, n.Op.Name) && !feedsSoftmax(n, uses), n.Op.Name == "Mul" && wideDims(v) <= 1:
			kind = graph.Param
		}
	}
	return kind, Origin{Folded: true, Unsure: !sure}
}

// seenBy lists the nodes that read v, directly or through views.
func seenBy(v *graph.Value, uses *graph.Uses, depth int) (nodes []*graph.Node) {
	const deepest = 8
	for _, n := range uses.Of(v) {
		if n.Op.View && depth < deepest {
			nodes = append(nodes, seenBy(n.Outputs[0], uses, depth+1)...)
		} else {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func feedsSoftmax(n *graph.Node, uses *graph.Uses) bool {
	return slices.ContainsFunc(uses.Of(n.Outputs[0]), func(n *graph.Node) bool { return n.Op.Name == "Softmax" })
}

// wideDims counts the dims that are not 1.
func wideDims(v *graph.Value) (n int) {
	for _, d := range v.Shape {
		if !d.Is(1) {
			n++
		}
	}
	return n
}

// isStatistic reports whether a node reads v as a running statistic.
func isStatistic(v *graph.Value, uses *graph.Uses) bool {
	return slices.ContainsFunc(uses.Of(v), func(n *graph.Node) bool {
		return slices.ContainsFunc(n.Op.Running, func(s graph.Running) bool { return n.In(s.In) == v })
	})
}

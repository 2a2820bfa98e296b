package bench

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// vulkanCase is one step on the device, and its rivals.
type vulkanCase struct {
	group, name string
	work        float64
	unit        string
	bytes       float64 // bytes read and written
	path        string  // "", or the fast path to measure
	byClock     bool    // also measure with all threads, by wall time
	graphics    bool    // only on graphics processors, which smaller ones leave idle
	job         func() (job, error)
	rivals      []vulkanRival
}

// vulkanRival is another implementation, or a baseline with the same work.
type vulkanRival struct {
	name string
	bar  Bar // on drivers for processors
	goal Bar // on graphics processors
	side func(b *vulkanBench, c *vulkanCase, threads int) (Side, error)
}

// paths lists the fast paths of a case.
func (c *vulkanCase) paths() []string {
	if c.path == "" {
		return nil
	}
	return []string{c.path}
}

var vulkanCases = vulkanCasesOf(graphicsSizes)

func vulkanCasesOf(s caseSizes) (cases []*vulkanCase) {
	for _, table := range []func(caseSizes) []*vulkanCase{vulkanProducts, vulkanConvolutions, vulkanAttention, vulkanRows, vulkanChains, vulkanPaths, vulkanSteps} {
		cases = append(cases, table(s)...)
	}
	return cases
}

// caseSizes are the sizes of the cases of graphics processors.
type caseSizes struct {
	product, beside     int // of a matrix, and of the one that others stand beside
	images, image, wide int // of convolutions: how many, their side, and channels
	heads, tokens       int
	resnet              resnetSizes
	gpt                 gptSizes
}

type resnetSizes struct{ images, side, width int }

type gptSizes struct{ layers, width, heads, batch, tokens, vocab int }

// graphicsSizes keep a graphics processor busy; smallSizes are for trials on any device.
var (
	graphicsSizes = caseSizes{product: 4096, beside: 2048, images: 32, image: 56, wide: 64, heads: 96, tokens: 1024, resnet: resnetSizes{32, 64, 64}, gpt: gptSizes{6, 384, 6, 8, 256, 8192}}
	smallSizes    = caseSizes{product: 96, beside: 128, images: 3, image: 8, wide: 16, heads: 3, tokens: 48, resnet: resnetSizes{2, 16, 8}, gpt: gptSizes{1, 32, 2, 2, 16, 64}}
)

// ofPeer is a case of a Python script. If the device is a GPU, PyTorch uses one, too.
func ofPeer(r Rival, bar Bar) vulkanRival {
	return vulkanRival{r.Name, bar, Bar{}, func(b *vulkanBench, _ *vulkanCase, threads int) (Side, error) {
		if r.Script == "torch" && !b.software() {
			r.Open = maps.Clone(r.Open)
			r.Open["graphics"] = true
		}
		return b.peers.open(r, threads)
	}}
}

// onProcessor is our CPU device.
var onProcessor = vulkanRival{name: "memopt's CPU device", side: processor}

// openBLAS is a bar for software drivers: nine tenths of what the fastest known style of shader
// reaches relative to OpenBLAS on lavapipe 25.0.7.
var openBLAS = Bar{Speed: 0.19}

// vulkanProducts are C = op(A)·op(B) of square matrices. Odd sizes are compared with a size whose
// rows are aligned.
func vulkanProducts(sizes caseSizes) (cases []*vulkanCase) {
	for _, n := range []int{512, 1024, 333, 1001} {
		for _, trans := range []string{"NN", "NT", "TN"} {
			open := map[string]any{"open": "product", "m": n, "n": n, "k": n, "trans": trans}
			rivals := []vulkanRival{ofPeer(Rival{Name: "NumPy", Script: "numpy", Open: open}, openBLAS), onProcessor}
			if n%2 != 0 {
				rivals = []vulkanRival{asProduct(Bar{Speed: 0.8})}
			}
			cases = append(cases, &vulkanCase{group: "matmul", name: fmt.Sprint(n, " ", trans), work: 2 * float64(n*n*n), unit: "FLOP", byClock: n%2 == 0,
				job: written(productText(n, trans)), rivals: rivals})
		}
	}
	large := sizes.product
	return append(cases, &vulkanCase{group: "matmul", name: fmt.Sprint(large, " NN"), work: productWork(large), unit: "FLOP", bytes: 3 * 4 * float64(large*large), graphics: true,
		job: written(productText(large, "NN")), rivals: []vulkanRival{asProduct(Bar{}), byShader(Bar{})}})
}

// productWork is the operations of a product of square matrices.
func productWork(n int) float64 { return 2 * math.Pow(float64(n), 3) }

func productText(n int, trans string) string {
	text := fmt.Sprintf("a f32[%[1]d,%[1]d] = param\nb f32[%[1]d,%[1]d] = param\nc = Gemm(a, b)", n)
	if trans[0] == 'T' {
		text += " transA=1"
	}
	if trans[1] == 'T' {
		text += " transB=1"
	}
	return text + "\noutput c"
}

// asProduct is a product with as many operations on the same device: one that keeps it busy.
func asProduct(bar Bar) vulkanRival {
	return vulkanRival{"product", bar, Bar{}, func(b *vulkanBench, c *vulkanCase, _ int) (Side, error) {
		n := 512
		if !b.software() {
			n = graphicsSizes.beside
		}
		if b.o.Rehearse {
			n = smallSizes.beside
		}
		s, err := b.baseline("product", func() (Side, error) {
			j, err := written(productText(n, "NN"))()
			if err != nil {
				return nil, err
			}
			return b.ours("the product that others stand beside", j)
		})
		return share{s, c.work / productWork(n)}, err
	}}
}

// reaching is a rival with a goal for graphics processors.
func (r vulkanRival) reaching(speed float64) vulkanRival {
	r.goal = Bar{Speed: speed}
	return r
}

// copiedBytes is the size of copies in baselines, too large for any cache.
const copiedBytes = 32 << 20

// byShader and byCommand are baselines of the device's memory bandwidth: as many bytes are copied
// by a shader, and by the driver's buffer copy.
func byShader(bar Bar) vulkanRival {
	return vulkanRival{"copy shader", bar, Bar{}, func(b *vulkanBench, c *vulkanCase, _ int) (Side, error) {
		s, err := b.baseline("shader", func() (Side, error) {
			j, err := copyJob()
			if err != nil {
				return nil, err
			}
			return b.ours("the copy that others stand beside", j)
		})
		return share{s, c.bytes / (2 * copiedBytes)}, err
	}}
}

var copyJob = written(fmt.Sprintf("x f32[%d] = param\ny = Cast(x) to=1\noutput y", copiedBytes/4))

var byCommand = vulkanRival{name: "vkCmdCopyBuffer", side: func(b *vulkanBench, c *vulkanCase, _ int) (Side, error) {
	s, err := b.baseline("command", func() (Side, error) {
		at := func(offset int64) []schedule.Ref {
			return []schedule.Ref{{Space: schedule.Arena, Offset: offset, Bytes: copiedBytes}}
		}
		d, err := vulkan.Open(&schedule.Schedule{Arena: 2 * copiedBytes, Launches: []schedule.Launch{{In: at(0), Out: at(copiedBytes)}}}, b.gpu, vulkan.Options{})
		if err != nil {
			return nil, err
		}
		return local{func() error { return run(d, job{}) }, func() { d.Close() }}, nil
	})
	return share{s, c.bytes / (2 * copiedBytes)}, err
}}

// vulkanConvolutions are layers of residual nets, and their gradients.
func vulkanConvolutions(sizes caseSizes) (cases []*vulkanCase) {
	for _, c := range []struct{ batch, in, side, out, kernel, stride, group int }{
		{sizes.images, sizes.wide, sizes.image, sizes.wide, 3, 1, 1},
		{sizes.images, 4 * sizes.wide, sizes.image / 4, 4 * sizes.wide, 3, 1, 1},
		{8, 64, 28, 64, 3, 1, 1},
		{8, 64, 28, 128, 3, 2, 1},
		{8, 256, 14, 256, 1, 1, 1},
		{2, 3, 224, 64, 7, 2, 1},
		{8, 64, 28, 64, 3, 1, 64},
	} {
		places := (c.side-1)/c.stride + 1
		x, w := []int{c.batch, c.in, c.side, c.side}, []int{c.out, c.in / c.group, c.kernel, c.kernel}
		y := []int{c.batch, c.out, places, places}
		values := ""
		bytes := 0.0
		for i, shape := range [][]int{x, w, y} {
			name := "xwy"[i : i+1]
			dims := strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]")
			values += fmt.Sprintf("%s f32[%s] = param\n%ss i64[4] = const {%s}\n", name, dims, name, dims)
			bytes += 4 * float64(shape[0]*shape[1]*shape[2]*shape[3])
		}
		attrs := fmt.Sprintf(" pads=[%[1]d, %[1]d, %[1]d, %[1]d] strides=[%[2]d, %[2]d] group=%[3]d\noutput z", c.kernel/2, c.stride, c.group)
		size := fmt.Sprintf(", %d × %d channels of %d² to %d, %d × %d", c.batch, c.in, c.side, c.out, c.kernel, c.kernel)
		if c.stride > 1 {
			size += fmt.Sprintf(" by %d", c.stride)
		}
		bar := Bar{Speed: 0.6}
		if c.group > 1 {
			size, bar = size+", each alone", Bar{}
		}
		for _, side := range []struct{ name, text string }{
			{"forward", "z = Conv(x, w)"},
			{"gradient of x", "z = memopt.ConvGradX(y, w, xs)"},
			{"gradient of w", "z = memopt.ConvGradW(y, x, ws)"},
		} {
			if c.in == 3 && side.name == "gradient of x" {
				continue // gradients of images are not needed
			}
			rivals := []vulkanRival{asProduct(bar), byShader(Bar{}), onProcessor}
			if c.batch == sizes.images {
				rivals = []vulkanRival{asProduct(Bar{}).reaching(0.6), byShader(Bar{})}
			}
			cases = append(cases, &vulkanCase{group: "conv", name: side.name + size, graphics: c.batch == sizes.images,
				work: 2 * float64(c.batch*c.out*c.in/c.group*c.kernel*c.kernel*places*places), unit: "FLOP", bytes: bytes,
				job: written(values + side.text + attrs), rivals: rivals})
		}
	}
	return cases
}

// vulkanAttention is attention of eight heads, forward and with gradients, as separate operators,
// in rows and in tiles; also causal, whose work is counted as if all keys were read.
func vulkanAttention(sizes caseSizes) []*vulkanCase {
	return append(attentionOf(8, 256, false), attentionOf(sizes.heads, sizes.tokens, true)...)
}

func attentionOf(heads, tokens int, graphics bool) (cases []*vulkanCase) {
	const width = 64
	operand := fmt.Sprintf(" f32[%d,%d,%d] = param\n", heads, tokens, width)
	head := "q" + operand + "k" + operand + "v" + operand
	work, bytes := float64(4*heads*tokens*tokens*width), 4*float64(4*heads*tokens*width)
	name := fmt.Sprintf(", %d heads of %d tokens by %d", heads, tokens, width)
	rivals := []vulkanRival{asProduct(Bar{}), byShader(Bar{}), onProcessor}
	if graphics {
		rivals = []vulkanRival{asProduct(Bar{}).reaching(0.5), byShader(Bar{})}
	}
	const scores = "scale f32[] = const {0.125}\nkt = Transpose(k) perm=[0, 2, 1]\nqk = MatMul(q, kt)\ns = Mul(qk, scale)\n"
	for _, c := range []struct{ how, text string }{
		{"", scores + "p = Softmax(s)\ny = MatMul(p, v)\n"},
		{" in rows", "y = memopt.AttentionInRows(q, k, v) scale=0.125\n"},
		{" by tiles", "y, lse = memopt.FlashAttention(q, k, v) scale=0.125\n"},
		{", causal", scores + "seen = memopt.BandMask(s) right=0 fill=-1e30\np = Softmax(seen)\ny = MatMul(p, v)\n"},
		{", causal in rows", "y = memopt.AttentionInRows(q, k, v) scale=0.125 right=0 fill=-1e30\n"},
		{", causal by tiles", "y, lse = memopt.FlashAttention(q, k, v) scale=0.125 right=0 fill=-1e30\n"},
	} {
		if graphics && !strings.Contains(c.how, "tiles") {
			continue
		}
		text := head + c.text
		cases = append(cases,
			&vulkanCase{group: "attention", name: "forward" + c.how + name, work: work, unit: "FLOP", bytes: bytes, graphics: graphics, job: written(text + "output y"), rivals: rivals},
			&vulkanCase{group: "attention", name: "forward and backward" + c.how + name, work: 3 * work, unit: "FLOP", bytes: 3 * bytes, graphics: graphics,
				job: writtenStep(text+"mean = ReduceMean(y) keepdims=0\noutput mean", ""), rivals: rivals})
	}
	return cases
}

// vulkanRows are operators that mainly read and write, like the CPU's, and losses and optimizers.
func vulkanRows(caseSizes) (cases []*vulkanCase) {
	const wide, narrow, channels = 4 * lines * width, 4 * width, 256
	beside := byShader(Bar{Speed: 0.5}).reaching(0.8)
	cases = append(cases, &vulkanCase{group: "rows", name: "copy shader", work: 2 * copiedBytes, unit: "B", bytes: 2 * copiedBytes, job: copyJob, rivals: []vulkanRival{byCommand}})
	for _, r := range []struct {
		name, text string
		bytes      float64
	}{
		{"Add", "y = Add(x, z)", 3 * wide},
		{"Gelu", "y = Gelu(x)", 2 * wide},
		{"GeluGrad", "y = memopt.GeluGrad(x, z)", 3 * wide},
		{"Softmax", "y = Softmax(x)", 2 * wide},
		{"SoftmaxGrad", "y = com.microsoft.SoftmaxGrad_13(x, z)", 3 * wide},
		{"LayerNorm", "y = LayerNormalization(x, w, w)", 2*wide + 2*narrow},
		{"LayerNormGrad", "y, dw, db = memopt.LayerNormalizationGrad(x, z, w, w)", 3*wide + 3*narrow},
		{"RMSNorm", "y = RMSNormalization(x, w)", 2*wide + narrow},
		{"RMSNormGrad", "y, dw = memopt.RMSNormalizationGrad(x, z, w)", 3*wide + 2*narrow},
		{"BatchNorm", fmt.Sprintf("xs i64[3] = const {%[1]d, %[2]d, %[3]d}\nxc = Reshape(x, xs)\ny, m, v = BatchNormalization(xc, c, c, c, c) training_mode=1", lines/64, channels, 64*width/channels), 2 * wide},
		{"sums of columns", "ax i64[1] = const {0}\ny = ReduceSum(x, ax) keepdims=0", wide},
		{"sums of rows", "ax i64[1] = const {1}\ny = ReduceSum(x, ax) keepdims=0", wide},
		{"cross entropy", "y = SoftmaxCrossEntropyLoss(x, labels)", wide},
		{"gradient of cross entropy", "one f32[] = const {1}\ny = memopt.SoftmaxCrossEntropyLossGrad(one, x, labels)", 2 * wide},
	} {
		text := fmt.Sprintf("x f32[%d,%d] = param\nz f32[%d,%d] = param\nw f32[%d] = param\nlabels i64[%d] = param\nc f32[%d] = param\n%s\noutput y", lines, width, lines, width, width, lines, channels, r.text)
		cases = append(cases, &vulkanCase{group: "rows", name: r.name, work: r.bytes, unit: "B", bytes: r.bytes, job: written(text), rivals: []vulkanRival{beside, onProcessor}})
	}
	adamw := updateText("AdamW", lines*width)
	return append(cases, &vulkanCase{group: "rows", name: "AdamW", work: 7 * wide, unit: "B", bytes: 7 * wide, job: written(adamw), rivals: []vulkanRival{beside, onProcessor}})
}

// oneByOne is the same plan without fused chains.
var oneByOne = vulkanRival{name: "one by one", side: func(b *vulkanBench, c *vulkanCase, _ int) (Side, error) {
	j, err := c.job()
	if err != nil {
		return nil, err
	}
	_, _, d, err := b.open(j, planner.Request{Strategy: "keep-all"})
	if err != nil {
		return nil, err
	}
	return stepsOn(d, j), nil
}}

// vulkanChains are successive elementwise operators, fused into one launch.
func vulkanChains(caseSizes) (cases []*vulkanCase) {
	const wide = 4 * lines * width
	shorter := oneByOne
	shorter.bar = Bar{Time: 0.8}
	for _, r := range []struct {
		name, text string
		passes     float64 // over a whole operand, one by one
	}{
		{"sum and Relu", "s = Add(x, z)\ny = Relu(s)\noutput y", 5},
		{"gate with its parts kept", "s = Sigmoid(x)\na = Mul(x, s)\ny = Mul(a, z)\noutput y\noutput a\noutput s", 8},
		{"gradients of a gate", "da = Mul(z, u)\ndu = Mul(z, v)\nd1 = Mul(da, x)\nds = Mul(da, v)\nd2 = com.microsoft.SigmoidGrad(ds, x)\ny = Sum(d1, d2)\noutput y\noutput du", 18},
		{"rotary embedding", "a = Mul(x, c)\nb = Mul(z, c)\ny = Add(a, b)\noutput y", 7},
		{"bias and three activations", "b = Add(x, c)\ng = Gelu(b)\nt = Tanh(g)\ny = Mul(t, z)\noutput y", 9},
	} {
		text := fmt.Sprintf("x f32[%[1]d,%[2]d] = param\nz f32[%[1]d,%[2]d] = param\nu f32[%[1]d,%[2]d] = param\nv f32[%[1]d,%[2]d] = param\nc f32[%[2]d] = param\n%[3]s", lines, width, r.text)
		cases = append(cases, &vulkanCase{group: "chains", name: r.name, work: r.passes * wide, unit: "B", bytes: r.passes * wide, job: written(text), rivals: []vulkanRival{shorter}})
	}
	return append(cases, &vulkanCase{group: "chains", name: "step of a Llama of 2 layers, 64 tokens, AdamW", work: 1, unit: "step", rivals: []vulkanRival{oneByOne},
		job: func() (job, error) {
			return zooStep(zoo.Spec{Family: "llama", Layers: 2}, "adamw", map[string]int64{"batch": 2, "seq": 64})
		}})
}

// Bars of steps: 15 ms on lavapipe 25.0.7 with two threads, where PyTorch takes 1.44 and 0.97 ms.
var stepBars = struct{ mlp, block Bar }{Bar{Time: 15 / 1.44}, Bar{Time: 15 / 0.97}}

// vulkanPaths are launches with a fast path, against the same without.
func vulkanPaths(sizes caseSizes) (cases []*vulkanCase) {
	without := vulkanRival{name: "without fast paths", side: func(b *vulkanBench, c *vulkanCase, _ int) (Side, error) {
		j, err := c.job()
		if err != nil {
			return nil, err
		}
		return b.ours(c.group+" "+c.name, j, vulkan.FastPathsNone)
	}}
	with := func(c *vulkanCase, rivals ...vulkanRival) {
		if c.path == "" {
			c.path = vulkan.CooperativeMatrix
		}
		c.group, c.unit, c.rivals = "paths", "FLOP", append([]vulkanRival{without}, rivals...)
		cases = append(cases, c)
	}
	large := sizes.product
	for _, of := range []struct{ word, short, path string }{{"float16", "f16", vulkan.CooperativeMatrix}, {"bfloat16", "bf16", vulkan.CooperativeBFloat16}} {
		with(&vulkanCase{name: fmt.Sprintf("%s %d NN by cooperative matrices", of.word, large), path: of.path, work: productWork(large), graphics: true,
			job: written(strings.ReplaceAll(productText(large, "NN"), "f32", of.short))}, asProduct(Bar{}).reaching(3))
	}
	for _, c := range []struct{ batch, channels, side int }{{2, 32, 14}, {sizes.images, 4 * sizes.wide, sizes.image / 4}} {
		work := 2 * float64(c.batch*c.side*c.side) * float64(c.channels*c.channels*9)
		x, w := fmt.Sprintf("%d, %d, %d, %d", c.batch, c.channels, c.side, c.side), fmt.Sprintf("%[1]d, %[1]d, 3, 3", c.channels)
		for _, side := range []struct{ name, text string }{{"forward", "z = Conv(x, w)"}, {"gradient of x", "z = memopt.ConvGradX(x, w, xs)"}, {"gradient of w", "z = memopt.ConvGradW(x, x, ws)"}} {
			text := fmt.Sprintf("x f16[%[1]s] = param\nw f16[%[2]s] = param\nxs i64[4] = const {%[1]s}\nws i64[4] = const {%[2]s}\n%[3]s pads=[1, 1, 1, 1]\noutput z", x, w, side.text)
			with(&vulkanCase{name: fmt.Sprintf("float16 convolution, %s, %d × %d channels of %d² by cooperative matrices", side.name, c.batch, c.channels, c.side), work: work, graphics: c.batch == sizes.images, job: written(text)})
		}
	}
	for _, c := range []struct{ heads, tokens int }{{2, 64}, {sizes.heads, sizes.tokens}} {
		operand := fmt.Sprintf(" f16[%d,%d,64] = param\n", c.heads, c.tokens)
		with(&vulkanCase{name: fmt.Sprintf("float16 attention, %d heads of %d tokens by 64, by cooperative matrices", c.heads, c.tokens), work: 4 * float64(c.heads*c.tokens*c.tokens) * 64, graphics: c.heads == sizes.heads,
			job: written("q" + operand + "k" + operand + "v" + operand + "y, lse = memopt.FlashAttention(q, k, v) scale=0.125\noutput y")})
	}
	for _, n := range []int{512, 333} {
		for _, trans := range []string{"NN", "NT", "TN"} {
			text := strings.ReplaceAll(productText(n, trans), "f32", "f16")
			cases = append(cases, &vulkanCase{group: "paths", name: fmt.Sprintf("float16 %d %s by cooperative matrices", n, trans), work: 2 * float64(n*n*n), unit: "FLOP",
				path: vulkan.CooperativeMatrix, job: written(text), rivals: []vulkanRival{without}})
		}
	}
	return cases
}

// vulkanSteps are whole training steps.
func vulkanSteps(sizes caseSizes) []*vulkanCase {
	net, gpt := sizes.resnet, sizes.gpt
	return []*vulkanCase{
		{group: "steps", name: "MLP 784-512-512-10, batch 64, SGD", work: 1, unit: "step", byClock: true, job: mlpStep,
			rivals: []vulkanRival{ofPeer(torch("mlp", map[string]any{"batch": 64, "inputs": 784, "width": 512, "layers": 2, "classes": 10}), stepBars.mlp), onProcessor}},
		{group: "steps", name: "block of width 128, 64 tokens, 2 heads, SGD", work: 1, unit: "step", byClock: true, job: blockStep,
			rivals: []vulkanRival{ofPeer(torch("block", map[string]any{"seq": 64, "width": 128, "heads": 2, "hidden": 512}), stepBars.block), onProcessor}},
		{group: "steps", name: fmt.Sprintf("ResNet-18, %d images of %d², SGD with momentum", net.images, net.side), work: 1, unit: "step", byClock: true, graphics: true, job: func() (job, error) {
			return zooStep(zoo.Spec{Family: "resnet", Layers: 2, Width: net.width, Channels: 3, Image: net.side, Classes: 1000}, "momentum", map[string]int64{"batch": int64(net.images)})
		}, rivals: []vulkanRival{ofPeer(torch("resnet", map[string]any{"batch": net.images, "channels": 3, "image": net.side, "width": net.width, "layers": 2, "classes": 1000}), Bar{}).reaching(stepGoal)}},
		{group: "steps", name: fmt.Sprintf("GPT of %d layers of width %d, %d × %d tokens, AdamW", gpt.layers, gpt.width, gpt.batch, gpt.tokens), work: 1, unit: "step", byClock: true, graphics: true, job: func() (job, error) {
			return zooStep(zoo.Spec{Family: "gpt", Layers: gpt.layers, Width: gpt.width, Heads: gpt.heads, Hidden: 4 * gpt.width, Vocab: gpt.vocab, Positions: gpt.tokens}, "adamw",
				map[string]int64{"batch": int64(gpt.batch), "seq": int64(gpt.tokens)})
		}, rivals: []vulkanRival{ofPeer(torch("gpt", map[string]any{"batch": gpt.batch, "seq": gpt.tokens, "layers": gpt.layers, "width": gpt.width, "heads": gpt.heads, "hidden": 4 * gpt.width, "vocab": gpt.vocab}), Bar{}).reaching(stepGoal)}},
	}
}

// stepGoal is the speed of large steps on a graphics processor, of PyTorch's in CUDA's eager mode.
const stepGoal = 0.5

func mlpStep() (job, error) {
	return zooStep(zoo.Spec{Family: "mlp"}, "sgd", map[string]int64{"batch": 64})
}

var blockStep = writtenStep(`x f32[64,128] = input
target f32[64,128] = input
mask f32[64,64] = input
g1 f32[128] = param
b1 f32[128] = param
wqkv f32[128,384] = param
bqkv f32[384] = param
wo f32[128,128] = param
bo f32[128] = param
g2 f32[128] = param
b2 f32[128] = param
wup f32[128,512] = param
bup f32[512] = param
wdown f32[512,128] = param
bdown f32[128] = param
split i64[3] = const {64, 2, 64}
join i64[2] = const {64, 128}
scale f32[] = const {0.125}
h1 = LayerNormalization(x, g1, b1)
qkv = Gemm(h1, wqkv, bqkv)
q1, k1, v1 = Split(qkv) axis=1 num_outputs=3
q2 = Reshape(q1, split)
k2 = Reshape(k1, split)
v2 = Reshape(v1, split)
q = Transpose(q2) perm=[1, 0, 2]
k = Transpose(k2) perm=[1, 2, 0]
v = Transpose(v2) perm=[1, 0, 2]
qk = MatMul(q, k)
scaled = Mul(qk, scale)
masked = Add(scaled, mask)
p = Softmax(masked)
y1 = MatMul(p, v)
y2 = Transpose(y1) perm=[1, 0, 2]
y3 = Reshape(y2, join)
y = Gemm(y3, wo, bo)
r = Add(x, y)
h2 = LayerNormalization(r, g2, b2)
up = Gemm(h2, wup, bup)
act = Gelu(up) approximate="tanh"
down = Gemm(act, wdown, bdown)
out = Add(r, down)
d = Sub(out, target)
d2 = Mul(d, d)
mean = ReduceMean(d2) keepdims=0
output mean`, "sgd")

// written is a job of a graph given as text, with random parameters.
func written(text string) func() (job, error) {
	return func() (job, error) {
		g, err := graph.Parse(kernels.Library, text)
		if err != nil {
			return job{}, err
		}
		inputs := map[string]*graph.Tensor{}
		for _, v := range g.Values {
			if v.Kind != graph.Param && v.Kind != graph.Input {
				continue
			}
			n, _ := v.Shape.Elems().Const()
			x := graph.NewTensor(v.Type, int(n))
			drawSmall(x)
			if v.Kind == graph.Param {
				v.Data = graph.Bytes(x.Bytes)
				continue
			}
			x.Shape = nil
			for _, d := range v.Shape {
				n, _ := d.Const()
				x.Shape = append(x.Shape, int(n))
			}
			if v.Name == "mask" {
				causal(x)
			}
			inputs[v.Name] = x
		}
		return job{graph: g, inputs: inputs}, nil
	}
}

// writtenStep is the training step of such a graph.
func writtenStep(text, optimizer string) func() (job, error) {
	return func() (job, error) {
		j, err := written(text)()
		if err != nil {
			return j, err
		}
		return stepOf(j.graph, optimizer, nil, j.inputs)
	}
}

// drawSmall fills a tensor with small numbers, or labels, for which no step overflows.
func drawSmall(x *graph.Tensor) {
	some := graph.NewTensor(x.Type, min(x.Len(), 1<<12))
	draw(some)
	for i := range some.Len() {
		if f := some.Float(i); x.Type == graph.Int64 {
			some.SetFloat(i, math.Trunc(math.Abs(2*f)))
		} else {
			some.SetFloat(i, f/16)
		}
	}
	for at := 0; at < len(x.Bytes); {
		at += copy(x.Bytes[at:], some.Bytes)
	}
}

// causal is a mask by which a token sees earlier ones only.
func causal(x *graph.Tensor) {
	n := x.Shape[1]
	for i := range x.Len() {
		x.SetFloat(i, 0)
		if i%n > i/n {
			x.SetFloat(i, math.Inf(-1))
		}
	}
}

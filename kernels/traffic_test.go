package kernels

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// graphicsLimits are those of a large graphics processor.
var graphicsLimits = graph.Limits{Subgroup: 32, Range: 1<<32 - 1, Groups: [3]int{1<<31 - 1, 65535, 65535}, Int64: true, Int8: true, Shared: true, Invocations: 1024, SharedBytes: 48 << 10}

// traffic is what the groups of a dispatch load from memory or store there, in bytes, and the multiplications and additions that they do.
func traffic(t *testing.T, d graph.Dispatch, l *graph.Lowering) (bytes, flops int64) {
	groups := int64(d.Groups[0]) * int64(d.Groups[1]) * int64(d.Groups[2])
	push := func(i int) int64 { return int64(d.Push[i]) }
	form, tile, tiled := strings.Cut(d.Kernel.Name, "-tiled-")
	if tiled {
		var rows, columns int64
		if _, err := fmt.Sscanf(tile, "%dx%d-", &rows, &columns); err != nil {
			t.Fatal(d.Kernel.Name, err)
		}
		terms := push(2) // behind m and n
		if form == "convolution" {
			terms = push(3) // m, n, k of all parts, and that of one
		}
		return groups * 4 * ((rows+columns)*terms + rows*columns), groups * 2 * rows * columns * terms
	}
	switch d.Kernel {
	case flashForward.staged, flashQueries.staged, flashKeys.staged:
		rows, products, owned := push(2), int64(2), int64(2) // queries, keys, width, outs behind the first
		each := int64(d.Spec[9])
		wide := push(3) + push(4)
		switch d.Kernel {
		case flashQueries.staged:
			products, owned = 3, 3
		case flashKeys.staged:
			rows, products, owned = push(1), 4, 4
		}
		return groups * 4 * wide * (rows + owned*each/2), groups * products * each * rows * wide
	case lower.ChannelsHeld[0], lower.ChannelsHeld[1]:
		return readAgain(d, l, push(0)*push(2), map[int]bool{1: true, 3: d.Spec[4] > 0}, nil), 0
	case lower.RowHeld[0], lower.RowHeld[1]:
		rule := d.Spec[4]
		both := rule == lower.RowSoftmaxGrad || rule == lower.RowLogSoftmaxGrad
		return readAgain(d, l, push(1), map[int]bool{1: true, 2: both}, map[int]bool{2: !both}), 0
	case normHeld[0], normHeld[1]:
		return readAgain(d, l, push(1), map[int]bool{1: true}, nil), 0
	case lower.CrossEntropyHeld[0], lower.CrossEntropyHeld[1]:
		return readAgain(d, l, push(1), map[int]bool{1: d.Spec[4] == lower.ScoresGrad}, nil), 0
	case normBackKernel[0], normBackKernel[1]:
		return readAgain(d, l, push(1), map[int]bool{1: d.Spec[4] == backRows, 3: d.Spec[4] == backRows}, nil), 0
	}
	if d.Kernel == normGradKernel || d.Kernel == normKernel && (d.Spec[1] == normColumns || d.Spec[1] == normSums) || d.Kernel == flashDots || d.Kernel == lower.CrossEntropyKernel || strings.HasPrefix(d.Kernel.Name, "reduce") {
		for _, b := range d.Buffers {
			if b.Place != graph.PlaceNone {
				bytes += l.Seen(b)
			}
		}
		return bytes, 0
	}
	t.Fatalf("kernel %s is in no row", d.Kernel.Name)
	return 0, 0
}

// readAgain is what a dispatch of teams loads and stores, of rows of n elements: some operands again as far as no team keeps them.
func readAgain(d graph.Dispatch, l *graph.Lowering, n int64, twice, never map[int]bool) (bytes int64) {
	const stored, rest = 11, 12
	for i, b := range d.Buffers {
		if b.Place == graph.PlaceNone || never[i] {
			continue
		}
		bytes += l.Seen(b)
		if d.Spec[rest] != 0 && twice[i] {
			bytes += l.Seen(b) * (n - int64(d.Spec[2]*d.Spec[1]+d.Spec[stored])) / n
		}
	}
	return bytes
}

// TestTraffic: the table of docs/vulkan.md is what the kernels' tiles and groups come to.
func TestTraffic(t *testing.T) {
	var table strings.Builder
	table.WriteString("| operator | sizes | kernels | GFLOP, of the least | MB that groups load and store, of the least |\n|---|---|---|---|---|\n")
	row := func(op, sizes, text string, flops int64) {
		g, err := graph.Parse(Library, text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := graph.Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		n := g.Nodes[len(g.Nodes)-1]
		l, err := graph.Lower(n, b, graphicsLimits)
		if err != nil || l.Refused != "" {
			t.Fatal(err, l.Refused)
		}
		var bytes, done, least int64
		var names []string
		for _, d := range l.Dispatches {
			x, y := traffic(t, d, l)
			bytes, done = bytes+x, done+y
			if name := strings.TrimPrefix(strings.TrimPrefix(d.Kernel.Name, "convolution-"), "product-"); len(names) == 0 || names[len(names)-1] != name {
				names = append(names, name)
			}
		}
		for _, o := range append(l.In, l.Out...) {
			if o != nil && o.Type == graph.Float32 {
				least += 4 * int64(o.Len())
			}
		}
		arithmetic := "–"
		if flops > 0 {
			arithmetic = fmt.Sprintf("%.2f, × %.2f", float64(done)/1e9, float64(done)/float64(flops))
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %.0f, × %.1f |\n", op, sizes, strings.Join(names, ", "), arithmetic, float64(bytes)/1e6, float64(bytes)/float64(least))
	}
	for _, n := range []int{512, 1024, 4096} {
		row("MatMul", fmt.Sprintf("%d³", n), fmt.Sprintf("a f32[%[1]d, %[1]d] = input\nb f32[%[1]d, %[1]d] = input\nc = MatMul(a, b)\noutput c\n", n), 2*int64(n*n*n))
	}
	for _, c := range []struct{ channels, size int }{{64, 56}, {256, 14}, {512, 7}} {
		const batch = 32
		image, filters := fmt.Sprintf("%d, %d, %d, %d", batch, c.channels, c.size, c.size), fmt.Sprintf("%[1]d, %[1]d, 3, 3", c.channels)
		sizes, flops := fmt.Sprintf("%d × %d × %d², 3 × 3", batch, c.channels, c.size), 2*int64(batch*c.size*c.size)*int64(c.channels*c.channels*9)
		shape := func(s string) string { return "{" + strings.ReplaceAll(s, " ", "") + "}" }
		row("Conv", sizes, fmt.Sprintf("x f32[%s] = input\nw f32[%s] = input\ny = Conv(x, w) pads=[1, 1, 1, 1]\noutput y\n", image, filters), flops)
		row("its gradient by x", sizes, fmt.Sprintf("y f32[%s] = input\nw f32[%s] = input\ns i64[4] = const %s\nx = memopt.ConvGradX(y, w, s) pads=[1, 1, 1, 1]\noutput x\n", image, filters, shape(image)), flops)
		row("and by w", sizes, fmt.Sprintf("y f32[%[1]s] = input\nx f32[%[1]s] = input\ns i64[4] = const %[2]s\nw = memopt.ConvGradW(y, x, s) pads=[1, 1, 1, 1]\noutput w\n", image, shape(filters)), flops)
	}
	for _, c := range []struct{ heads, length int }{{96, 256}, {96, 1024}, {16, 4096}} {
		const width = 64
		one, sizes := fmt.Sprintf("f32[%d, %d, %d] = input\n", c.heads, c.length, width), fmt.Sprintf("%d × %d × %d", c.heads, c.length, width)
		product := 2 * int64(c.heads) * int64(c.length*c.length) * width
		row("FlashAttention", sizes, "q "+one+"k "+one+"v "+one+"y, l = memopt.FlashAttention(q, k, v)\noutput y\noutput l\n", 2*product)
		row("its gradient", sizes, "d "+one+"q "+one+"k "+one+"v "+one+"y "+one+fmt.Sprintf("l f32[%d, %d, 1] = input\n", c.heads, c.length)+
			"a, b, c = memopt.FlashAttentionGrad(d, q, k, v, y, l)\noutput a\noutput b\noutput c\n", 5*product)
	}
	for _, c := range []struct{ channels, size int }{{64, 56}, {512, 7}} {
		x := fmt.Sprintf("x f32[32, %[1]d, %[2]d, %[2]d] = input\nd f32[32, %[1]d, %[2]d, %[2]d] = input\ns f32[%[1]d] = input\nb f32[%[1]d] = input\nm f32[%[1]d] = input\nv f32[%[1]d] = input\n", c.channels, c.size)
		sizes := fmt.Sprintf("32 × %d × %d²", c.channels, c.size)
		row("BatchNorm", sizes, x+"y, n, w = BatchNormalization(x, s, b, m, v) training_mode=1\noutput y\noutput n\noutput w\n", 0)
		row("its gradient", sizes, x+"a, e, f = memopt.BatchNormalizationGrad(d, x, s) training_mode=1\noutput a\noutput e\noutput f\n", 0)
		row("GroupNorm", sizes, fmt.Sprintf("x f32[32, 32, %d, %d] = input\ns f32[32, %[1]d, 1] = input\ny = LayerNormalization(x, s, s) axis=2\noutput y\n", c.channels/32, c.size*c.size), 0)
		row("its gradient", sizes, fmt.Sprintf("x f32[32, 32, %[1]d, %[2]d] = input\nd f32[32, 32, %[1]d, %[2]d] = input\ns f32[32, %[1]d, 1] = input\n"+
			"a, e, f = memopt.LayerNormalizationGrad(d, x, s, s) axis=2\noutput a\noutput e\noutput f\n", c.channels/32, c.size*c.size), 0)
	}
	for _, c := range []struct{ rows, width int }{{8192, 1024}, {32768, 64}} {
		for axis, of := range []string{"of columns", "of rows"} {
			row("sums "+of, fmt.Sprintf("%d × %d", c.rows, c.width), fmt.Sprintf("x f32[%d, %d] = input\na i64[1] = const {%d}\ny = ReduceSum(x, a) keepdims=0\noutput y\n", c.rows, c.width, axis), 0)
		}
	}
	for _, c := range []struct{ rows, width int }{{1024, 1024}, {8192, 1024}, {4096, 8192}, {2048, 16384}, {256, 50257}} {
		sizes := fmt.Sprintf("%d × %d", c.rows, c.width)
		x := fmt.Sprintf("x f32[%[1]d, %[2]d] = input\nd f32[%[1]d, %[2]d] = input\ns f32[%[2]d] = input\nb f32[%[2]d] = input\nlabels i64[%[1]d] = input\none f32[] = input\n", c.rows, c.width)
		for _, o := range []struct{ op, text string }{
			{"LayerNorm", "y = LayerNormalization(x, s, b)"},
			{"its gradient", "a, e, f = memopt.LayerNormalizationGrad(d, x, s, b)\noutput a\noutput e\noutput f"},
			{"RMSNorm", "y = RMSNormalization(x, s)"},
			{"Softmax", "y = Softmax(x)"},
			{"its gradient", "y = com.microsoft.SoftmaxGrad_13(d, x)"},
			{"cross entropy", "y = SoftmaxCrossEntropyLoss(x, labels)"},
			{"its gradient", "y = memopt.SoftmaxCrossEntropyLossGrad(one, x, labels)"},
		} {
			if loss := strings.Contains(o.text, "Loss"); loss != (c.width == 50257) {
				continue
			}
			text := x + o.text
			if !strings.Contains(text, "output") {
				text += "\noutput y"
			}
			row(o.op, sizes, text+"\n", 0)
		}
	}
	const path = "../docs/vulkan.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(doc), table.String()) {
		return
	}
	const begin, end = "<!-- traffic -->\n", "<!-- end -->\n"
	from, to := strings.Index(string(doc), begin), strings.Index(string(doc), end)
	if !updating() || from < 0 || to < from {
		t.Fatalf("%s has another table; -update writes it:\n%s", path, table.String())
	}
	if err := os.WriteFile(path, []byte(string(doc)[:from+len(begin)]+"\n"+table.String()+"\n"+string(doc)[to:]), 0o644); err != nil {
		t.Fatal(err)
	}
}

package vulkan_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/planner"
)

// TestFlashAttention: attention by tiles does what Eval does, whether a lane has two
// columns or one, over several groups and steps of rows, whole and not; gradients by
// the logarithms that the forward pass gives.
func TestFlashAttention(t *testing.T) {
	gpu, b := device(t), must(graph.Bind(nil))
	forward, back := *kernels.Library.Find("memopt", "FlashAttention", 0), *kernels.Library.Find("memopt", "FlashAttentionGrad", 0)
	forward.Samples, back.Samples = nil, nil
	for _, c := range []struct {
		batch, queries, keys, width, outs int
		attrs                             string
	}{
		{2, 37, 42, 20, 12, "scale=0.4"},
		{1, 48, 32, 16, 32, "right=0 fill=-1e30"},
		{1, 50, 34, 8, 8, "left=17 right=5 fill=-1e30"},
	} {
		q, k, v, y := fmt.Sprintf("f32[%d,%d,%d]", c.batch, c.queries, c.width), fmt.Sprintf("f32[%d,%d,%d]", c.batch, c.keys, c.width),
			fmt.Sprintf("f32[%d,%d,%d]", c.batch, c.keys, c.outs), fmt.Sprintf("f32[%d,%d,%d]", c.batch, c.queries, c.outs)
		forward.Samples = append(forward.Samples, fmt.Sprintf("%s, %s, %s; %s", q, k, v, c.attrs))
		back.Samples = append(back.Samples, fmt.Sprintf("%s, %s, %s, %s, %s, f32[%d,%d,1]; %s", y, q, k, v, y, c.batch, c.queries, c.attrs))
	}
	fs, bs := must(kernels.Cases(&forward)), must(kernels.Cases(&back))
	for i, f := range fs {
		copy(f.In, bs[i].In[1:4])
		copy(bs[i].In[4:], eval(t, b, f))
	}
	for _, groups := range []string{vulkan.GroupsAlone, vulkan.GroupsShared} {
		t.Run(groups, func(t *testing.T) {
			conform(t, gpu, &forward, fs, vulkan.Options{Groups: groups})
			conform(t, gpu, &back, bs, vulkan.Options{Groups: groups})
		})
	}
}

// TestRowsKeepBits: attention of some matrices at a time changes no bit of the loss or of
// any gradient, with each kind of mask, in one part and in several, whole and not, also
// where a plan computes it again and where the device shows less than all queries.
func TestRowsKeepBits(t *testing.T) {
	gpu := device(t)
	const straight, turned = "s = com.microsoft.FusedMatMul(q, k) transB=1 alpha=0.3", "turned = Transpose(k) perm=[0, 1, 3, 2]\ns = MatMul(q, turned)"
	for _, c := range []struct {
		batch, heads, queries, keys, width, out int
		strategy                                string
		limit                                   int64
	}{{2, 3, 7, 9, 5, 3, "recompute-all", 0}, {2, 5, 300, 260, 6, 8, "keep-all", 1 << 20}, {1, 2, 530, 510, 4, 3, "keep-all", 0}} {
		for i, form := range []string{
			"p = Softmax(s)",
			"seen = memopt.BandMask(s) right=0 fill=-1e30\np = Softmax(seen)",
			"seen = memopt.BandMask(s) left=90 right=70 fill=-3.0\np = Softmax(seen)",
			"biased = Add(s, all)\np = Softmax(biased)",
			"biased = Add(s, each)\np = memopt.SafeSoftmax(biased)",
			"masked = Where(mask, s, fill)\np = Softmax(masked)",
			"masked = Where(some, fill, s)\np = Softmax(masked)",
		} {
			text := fmt.Sprintf(`q f32[%[1]d,%[2]d,%[3]d,%[5]d] = param
k f32[%[1]d,%[2]d,%[4]d,%[5]d] = param
v f32[%[1]d,%[2]d,%[4]d,%[6]d] = param
all f32[%[3]d,%[4]d] = input
each f32[%[1]d,1,1,%[4]d] = input
mask bool[%[3]d,%[4]d] = input
some bool[%[1]d,%[2]d,1,%[4]d] = input
fill f32[1] = const{-1e30}
%[7]s
%[8]s
z = MatMul(p, v)
squares = Mul(z, z)
cost = ReduceMean(squares) keepdims=0
output cost`, c.batch, c.heads, c.queries, c.keys, c.width, c.out, []string{straight, turned}[i%2], form)
			pieces, _ := lossStep(t, text, kernels.Fusions)
			rows, _ := lossStep(t, text, func(op *graph.Op) bool { return op == kernels.AttentionInRows || kernels.Fusions(op) })
			if !slices.ContainsFunc(rows.Nodes, func(n *graph.Node) bool { return n.Op == kernels.AttentionInRows }) {
				t.Fatalf("no attention in rows in\n%s", rows)
			}
			want, _ := stepBytes(t, gpu, pieces, planner.Request{Strategy: "keep-all"}, vulkan.Options{})
			got, _ := stepBytes(t, gpu, rows, planner.Request{Strategy: c.strategy}, vulkan.Options{Range: c.limit})
			for name, x := range want {
				if !bytes.Equal(got[name], x) {
					t.Errorf("%v, %s: %s has other bits", c, form, name)
				}
			}
		}
	}
}

// TestRowsOfSharedKeys: matrices of queries that share their keys are done a few at a
// time, too, and so is a matrix that has more scores than the device shows.
func TestRowsOfSharedKeys(t *testing.T) {
	gpu := device(t)
	if !gpu.Addresses {
		t.Skipf("%s has no addresses of buffers", gpu.Name)
	}
	for name, samples := range map[string][]string{
		"AttentionInRows": {
			"f32[2,3,530,4], f32[2,1,510,4], f32[2,1,510,3], f32[3,530,1]; right=0 fill=-1e30",
			"f32[1,4,300,5], f32[1,1,5,260], f32[1,1,260,6], _, bool[4,1,260]; transK=1 fill=-3.0",
		},
		"AttentionInRowsGrad": {
			"f32[2,3,530,3], f32[2,3,530,4], f32[2,1,510,4], f32[2,1,510,3], f32[3,530,1]; scale=0.3 right=0 fill=-1e30",
			"f32[1,4,300,6], f32[1,4,300,5], f32[1,1,5,260], f32[1,1,260,6], _, bool[4,1,260]; scale=0.3 transK=1 fill=-3.0",
		},
	} {
		op := *kernels.Library.Find("memopt", name, 0)
		op.Samples = samples
		sameBits(t, &op, gpu, gpu, vulkan.Options{Range: 1 << 18})
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

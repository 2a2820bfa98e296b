package vulkan_test

import (
	"fmt"
	"testing"

	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/graph"
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

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

package memopt

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/planner"
)

// TestAdvisedSizes: a size that a refusal names fits, and one more does not, where the
// form that comes nearest keeps something in less.
func TestAdvisedSizes(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[b, 4, h, w] = input
y i64[b] = input
cw f32[6, 2, 3, 3] = param
fw f32[6, 3] = param
c = Conv(x, cw) dilations=[2, 1] group=2 pads=[1, 0, 2, 1] strides=[2, 3]
p = MaxPool(c) ceil_mode=1 kernel_shape=[3, 2] strides=[2, 2]
sp = Softplus(p)
axes i64[2] = const {2, 3}
ga = ReduceMean(sp, axes) keepdims=0
lg = MatMul(ga, fw)
s = SoftmaxCrossEntropyLoss(lg, y)
output s
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Values {
		if v.Kind == graph.Param {
			n, _ := v.Shape.Elems().Const()
			x := graph.NewTensor(v.Type, int(n))
			for i := range x.Len() {
				x.SetFloat(i, float64(i+1)/7)
			}
			v.Data = graph.Bytes(x.Bytes)
		}
	}
	path := filepath.Join(t.TempDir(), "conv.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	plan := func(b, h, w int64) error {
		c := configs.Merge()
		c.Dims, c.Budget.Bytes = map[string]int64{"b": b, "h": h, "w": w}, 27000
		m, err := Open(path, c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Plan()
		return err
	}
	var refused *planner.BudgetError
	if err := plan(3, 17, 23); !errors.As(err, &refused) {
		t.Fatalf("27000 bytes are no refusal: %v", err)
	}
	advised := 0
	for _, change := range refused.Changes {
		for i, name := range []string{"b", "h", "w"} {
			var size int64
			if _, err := fmt.Sscanf(strings.TrimPrefix(change.Text, "--dims "+name+"="), "%d", &size); err != nil {
				continue
			}
			advised++
			dims := []int64{3, 17, 23}
			dims[i] = size
			if err := plan(dims[0], dims[1], dims[2]); err != nil {
				t.Errorf("%s is advised: %v", change.Text, err)
			}
			dims[i]++
			if err := plan(dims[0], dims[1], dims[2]); err == nil {
				t.Errorf("%s is advised, and one more fits too", change.Text)
			}
		}
	}
	if advised != 3 {
		t.Errorf("%d sizes are advised: %+v", advised, refused.Changes)
	}
}

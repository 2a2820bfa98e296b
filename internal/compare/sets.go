package compare

import (
	"fmt"
	"math"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/tensorfile"
)

// Difference is how far what a step left is from what another did.
type Difference struct {
	HasLoss    bool // there is a loss to compare with
	LossRelErr float64
	Worst      Of
	Params     []Of // gradients, in the order of the other step
	After      []Of // running statistics
	WorstAfter Of
	Missing    []string // gradients of the other step that this one has not
	Unchecked  []string // gradients of this step that the other has not
}

// Of is a value's distance from another, by norm and relative to it.
type Of struct {
	Name   string
	RelErr float64
}

// Sets holds what a step left against what another did, which file names: loss, grad.NAME of
// parameters and after.NAME of running statistics. Samples are, by statistic, values that
// are as good as those of got.
func Sets(got, want *tensorfile.Set, samples map[string]*graph.Tensor, file string) (c Difference, err error) {
	whole := 0.0
	for _, name := range want.Names {
		if strings.HasPrefix(name, "grad.") {
			x, err := want.Tensor(name)
			if err != nil {
				return c, err
			}
			n := Norm(x)
			whole += n * n
		}
	}
	whole = math.Sqrt(whole)
	if want.Tensors["loss"] != nil {
		if y := want.Tensors["loss"]; y.Len() != 1 {
			return c, fmt.Errorf("%s: loss has shape %v, need a scalar", file, y.Shape)
		}
		e, err := apart(got, want, "loss", 0)
		if err != nil {
			return c, err
		}
		c.HasLoss, c.LossRelErr = true, e
	}
	for _, name := range got.Names {
		if param, ok := strings.CutPrefix(name, "grad."); ok && want.Tensors[name] == nil {
			c.Unchecked = append(c.Unchecked, param)
		}
	}
	for _, name := range want.Names {
		if err := c.after(got, want, samples, name, file); err != nil {
			return c, err
		}
		param, ok := strings.CutPrefix(name, "grad.")
		if !ok {
			continue
		}
		if got.Tensors[name] == nil {
			c.Missing = append(c.Missing, param)
			continue
		}
		if x, y := got.Tensors[name], want.Tensors[name]; x.Len() != y.Len() {
			return c, fmt.Errorf("%s: %s has shape %v, the model's gradient %v", file, name, y.Shape, x.Shape)
		}
		d, err := apart(got, want, name, whole)
		if err != nil {
			return c, err
		}
		e := Of{param, d}
		c.Params = append(c.Params, e)
		if !(e.RelErr <= c.Worst.RelErr) || c.Worst.Name == "" {
			c.Worst = e
		}
	}
	return c, nil
}

// after compares what a step leaves in a running statistic, after.NAME. Where the
// step has a variance by ONNX's rule, that of the sample, which PyTorch takes, is as good.
func (c *Difference) after(got, want *tensorfile.Set, samples map[string]*graph.Tensor, name, file string) error {
	state, is := strings.CutPrefix(name, "after.")
	x, y := got.Tensors[name], want.Tensors[name]
	switch {
	case !is || !y.Type.IsFloat(): // as num_batches_tracked is, which no file has
		return nil
	case x == nil:
		c.Missing = append(c.Missing, name)
		return nil
	case x.Len() != y.Len():
		return fmt.Errorf("%s: %s has shape %v, the model's %v", file, name, y.Shape, x.Shape)
	}
	d, err := apart(got, want, name, 0)
	if err != nil {
		return err
	}
	if s := samples[state]; s != nil {
		if y, err = want.Tensor(name); err != nil {
			return err
		}
		d = min(d, RelErr(s, y, 0))
	}
	e := Of{state, d}
	c.After = append(c.After, e)
	if !(e.RelErr <= c.WorstAfter.RelErr) || c.WorstAfter.Name == "" {
		c.WorstAfter = e
	}
	return nil
}

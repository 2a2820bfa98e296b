package zoo

import (
	"errors"
	"math"
	"strconv"

	"memopt/memopt/graph"
)

// resnet is a residual network of basic blocks: with layers 2, width 64 and
// images of 224 it is ResNet-18.
var resnet = Family{
	Name:     "resnet",
	Doc:      "ResNet of basic blocks in four stages: tells the class of an image; batch normalisation in training mode",
	Defaults: Spec{Layers: 1, Width: 32, Channels: 3, Image: 32, Classes: 10},
	Batch:    16, LR: 1e-3,
	check: func(s Spec) error {
		if s.Image < 8 {
			return errors.New("image should be at least 8: the stages halve it three times")
		}
		return nil
	},
	build: buildResNet,
	data:  gratings,
}

// largeImage is from where on the stem brings an image down to a quarter.
const largeImage = 96

func buildResNet(m *model) {
	x := m.define(graph.Input, "x", graph.Float32, m.batch, dim(m.Channels), dim(m.Image), dim(m.Image))
	labels := m.define(graph.Input, "labels", graph.Int64, m.batch)
	if m.Image < largeImage {
		x = m.relu("relu", m.batchNorm("bn1", m.conv("conv1", x, m.Width, 3, 1)))
	} else {
		x = m.relu("relu", m.batchNorm("bn1", m.conv("conv1", x, m.Width, 7, 2)))
		x = m.node("maxpool", "MaxPool", window(3, 2), x)
	}
	for stage := range 4 {
		for i := range m.Layers {
			stride := 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			x = m.basicBlock(module("layer"+strconv.Itoa(stage+1), i), x, m.Width<<stage, stride)
		}
	}
	x = m.node("flatten", "Flatten", []graph.Attr{attr("axis", 1)}, m.node("avgpool", "GlobalAveragePool", nil, x))
	m.classLoss(m.linear("fc", x, m.Classes, smallStd, true), labels)
}

func (m *model) basicBlock(p string, x *graph.Value, channels, stride int) *graph.Value {
	y := m.relu(p+".relu1", m.batchNorm(p+".bn1", m.conv(p+".conv1", x, channels, 3, stride)))
	y = m.batchNorm(p+".bn2", m.conv(p+".conv2", y, channels, 3, 1))
	if stride != 1 {
		x = m.batchNorm(p+".downsample.1", m.conv(p+".downsample.0", x, channels, 1, stride))
	}
	return m.relu(p+".relu2", m.node(p+".sum", "Add", nil, y, x))
}

func (m *model) relu(name string, x *graph.Value) *graph.Value { return m.node(name, "Relu", nil, x) }

// conv has no bias: a batch normalisation follows.
func (m *model) conv(name string, x *graph.Value, to, kernel, stride int) *graph.Value {
	from, _ := x.Shape[1].Const()
	std := math.Sqrt(2 / float64(to*kernel*kernel)) // He's, for the way back
	return m.node(name, "Conv", window(kernel, stride), x, m.param(name+".weight", std, to, int(from), kernel, kernel))
}

// window is the attributes of a square one with its middle on every stride'th
// element.
func window(kernel, stride int) []graph.Attr {
	k, s, p := int64(kernel), int64(stride), int64(kernel/2)
	return []graph.Attr{attrs("kernel_shape", k, k), attrs("pads", p, p, p, p), attrs("strides", s, s)}
}

// batchNorm keeps PyTorch's running statistics: the new ones replace the old at
// the end of a step. ONNX's momentum is the share that stays.
func (m *model) batchNorm(name string, x *graph.Value) *graph.Value {
	c, _ := x.Shape[1].Const()
	n := int(c)
	mean := m.filled(graph.State, name+".running_mean", 0, n)
	variance := m.filled(graph.State, name+".running_var", 1, n)
	outs := m.nodes([]string{name, mean.Name + ".new", variance.Name + ".new"}, "BatchNormalization",
		[]graph.Attr{{Name: "epsilon", Value: 1e-5}, {Name: "momentum", Value: 0.9}, attr("training_mode", 1)},
		x, m.filled(graph.Param, name+".weight", 1, n), m.filled(graph.Param, name+".bias", 0, n), mean, variance)
	g := m.b.Graph
	g.Updates = append(g.Updates, graph.Update{State: mean, New: outs[1]}, graph.Update{State: variance, New: outs[2]})
	return outs[0]
}

package zoo

import (
	"errors"
	"math"
	"strconv"

	"memopt/internal/graph"
	"memopt/kernels/nodes"
)

// resnet is a residual network of basic blocks. With layers 2, width 64 and images of 224, it is ResNet-18.
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

// largeImage is the size from which the stem downsamples images to a quarter.
const largeImage = 96

func buildResNet(m *model) {
	x := m.define(graph.Input, "x", graph.Float32, m.batch, dim(m.Channels), dim(m.Image), dim(m.Image))
	labels := m.define(graph.Input, "labels", graph.Int64, m.batch)
	if m.Image < largeImage {
		x = m.relu("relu", m.batchNorm("bn1", m.conv("conv1", x, m.Width, 3, 1)))
	} else {
		x = m.relu("relu", m.batchNorm("bn1", m.conv("conv1", x, m.Width, 7, 2)))
		x = m.b.MaxPool("maxpool", x, window(3, 2))
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
	x = m.b.Flatten("flatten", m.b.GlobalAveragePool("avgpool", x), 1)
	m.classLoss(m.linear("fc", x, m.Classes, smallStd, true), labels)
}

func (m *model) basicBlock(p string, x *graph.Value, channels, stride int) *graph.Value {
	y := m.relu(p+".relu1", m.batchNorm(p+".bn1", m.conv(p+".conv1", x, channels, 3, stride)))
	y = m.batchNorm(p+".bn2", m.conv(p+".conv2", y, channels, 3, 1))
	if stride != 1 {
		x = m.batchNorm(p+".downsample.1", m.conv(p+".downsample.0", x, channels, 1, stride))
	}
	return m.relu(p+".relu2", m.b.Add(p+".sum", y, x))
}

func (m *model) relu(name string, x *graph.Value) *graph.Value { return m.b.Relu(name, x) }

// conv has no bias, as batch normalisation follows.
func (m *model) conv(name string, x *graph.Value, to, kernel, stride int) *graph.Value {
	from, _ := x.Shape[1].Const()
	std := math.Sqrt(2 / float64(to*kernel*kernel)) // He initialization for the backward pass (fan-out)
	return m.b.Conv(name, x, m.param(name+".weight", std, to, int(from), kernel, kernel), window(kernel, stride))
}

// window is a square window, padded so that it is centred on every stride-th element.
func window(kernel, stride int) nodes.Window {
	return nodes.Window{Size: kernel, Stride: stride, Pad: kernel / 2}
}

// batchNorm updates running statistics as PyTorch does, at the end of a step. ONNX's momentum is the weight of the
// old statistics.
func (m *model) batchNorm(name string, x *graph.Value) *graph.Value {
	c, _ := x.Shape[1].Const()
	n := int(c)
	mean := m.filled(graph.State, name+".running_mean", 0, n)
	variance := m.filled(graph.State, name+".running_var", 1, n)
	outs := m.b.BatchNorm([3]string{name, mean.Name + ".new", variance.Name + ".new"},
		x, m.filled(graph.Param, name+".weight", 1, n), m.filled(graph.Param, name+".bias", 0, n), mean, variance, 1e-5, 0.9)
	g := m.b.Graph
	g.Updates = append(g.Updates, graph.Update{State: mean, New: outs[1]}, graph.Update{State: variance, New: outs[2]})
	return outs[0]
}

"""Writes onnxruntime.json beside models: what onnxruntime makes of them.

    python record.py models architectures        (numpy, onnx 1.23.2, onnxruntime 1.31.1)

For every MODEL.onnx the loss, with all optimizations off, of the inputs in MODEL.npz (or of input.* in ref.npz), and
for models with inputs of their own the slope of the loss along a direction in each parameter: central differences, the
direction being cos(0), cos(1), cos(2), ... in the order of the parameter's elements.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime


def loss_of(model, inputs, name):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return float(session.run([name], {i.name: inputs[i.name] for i in session.get_inputs()})[0].reshape(-1)[0])


def slopes(model, inputs, name):
    out = {}
    for initializer in model.graph.initializer:
        value = onnx.numpy_helper.to_array(initializer)
        if value.dtype != np.float32 or value.size < 2:
            continue
        way = np.cos(np.arange(value.size)).reshape(value.shape)
        step = 4e-3 / np.linalg.norm(way)
        ends = []
        for sign in (1, -1):
            moved = onnx.ModelProto()
            moved.CopyFrom(model)
            for other in moved.graph.initializer:
                if other.name == initializer.name:
                    other.CopyFrom(onnx.numpy_helper.from_array((value + sign * step * way).astype(np.float32), other.name))
            ends.append(loss_of(moved, inputs, name))
        out[initializer.name] = (ends[0] - ends[1]) / (2 * step)
    return out


def record(folder):
    entries = {}
    for path in sorted(folder.rglob("*.onnx")):
        model = onnx.load(path)
        own = path.with_suffix(".npz")
        arrays = np.load(own if own.exists() else path.with_name("ref.npz"))
        inputs = {k.removeprefix("input."): arrays[k] for k in arrays.files}
        scalars = [o.name for o in model.graph.output if o.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
                   and all(d.dim_value == 1 for d in o.type.tensor_type.shape.dim)]
        entry = {"output": scalars[0], "loss": loss_of(model, inputs, scalars[0])}
        if own.exists():
            entry["slopes"] = slopes(model, inputs, scalars[0])
        entries[path.relative_to(folder).as_posix()] = entry
    text = json.dumps({"onnxruntime": onnxruntime.__version__, "models": entries}, indent=1)
    (folder / "onnxruntime.json").write_text(text + "\n")


for name in sys.argv[1:]:
    record(pathlib.Path(name))

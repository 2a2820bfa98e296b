"""Writes onnxruntime.json beside models: what onnxruntime makes of them.

    python record.py models architectures        (numpy, onnx 1.23.2, onnxruntime 1.31.1)

For every MODEL.onnx the loss, with all optimizations off, of the inputs in MODEL.npz (or of input.* in ref.npz), and
for models with inputs of their own the slope of the loss along a direction in each parameter: central differences, the
direction being cos(0), cos(1), cos(2), ... in the order of the parameter's elements. They are of onnx's own evaluator in
float64, and exact, where it can; else of onnxruntime in float32, over so long a step that they may be off by percents
where a Relu turns.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator


def loss_of(model, inputs, name):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return float(session.run([name], {i.name: inputs[i.name] for i in session.get_inputs()})[0].reshape(-1)[0])


def widened(model):
    """The model in float64: constants, casts and declared types."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)

    def tensor(t):
        if t.data_type == onnx.TensorProto.FLOAT:
            t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t).astype(np.float64), t.name))

    def graph(g):
        for t in g.initializer:
            tensor(t)
        for v in [*g.input, *g.output, *g.value_info]:
            if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                v.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
        for n in g.node:
            for a in n.attribute:
                tensor(a.t)
                graph(a.g)
                if n.op_type == "Cast" and a.name == "to" and a.i == onnx.TensorProto.FLOAT:
                    a.i = onnx.TensorProto.DOUBLE
                if n.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                    values = a.f if a.name == "value_float" else list(a.floats)
                    a.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.array(values, np.float64))))

    graph(wide.graph)
    return wide


def moved_loss(model, initializer, value, loss):
    """loss(model) with another value for one of its initializers."""
    before = onnx.numpy_helper.to_array(initializer)
    initializer.CopyFrom(onnx.numpy_helper.from_array(value.astype(before.dtype), initializer.name))
    result = loss(model)
    initializer.CopyFrom(onnx.numpy_helper.from_array(before, initializer.name))
    return result


def slopes(model, loss, length):
    out = {}
    for initializer in model.graph.initializer:
        value = onnx.numpy_helper.to_array(initializer)
        if value.dtype not in (np.float32, np.float64) or value.size < 2:
            continue
        way = np.cos(np.arange(value.size)).reshape(value.shape)
        step = length / np.linalg.norm(way)
        up, down = (moved_loss(model, initializer, value + sign * step * way, loss) for sign in (1, -1))
        out[initializer.name] = (up - down) / (2 * step)
    return out


def exact_slopes(model, inputs, name):
    """None if onnx's evaluator cannot, has another loss, or rounds to float32 within: then the slope depends on the step."""
    wide = widened(model)
    given = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in inputs.items()}

    def loss(m):
        return float(np.reshape(ReferenceEvaluator(m).run([name], given)[0], -1)[0])

    try:
        ours, theirs = loss(wide), loss_of(model, inputs, name)
        if abs(ours - theirs) > 1e-5 * abs(theirs):
            print(f"differences in float32: the evaluator's loss is {ours}, onnxruntime's {theirs}")
            return None
        near, nearer = slopes(wide, loss, 2e-6), slopes(wide, loss, 1e-6)
    except (TypeError, RuntimeError) as e:
        print("differences in float32:", str(e)[:100])
        return None
    for k, v in near.items():
        if abs(v - nearer[k]) > 1e-5 * abs(v) + 1e-7:
            print(f"differences in float32: the slope of {k} is {v} or {nearer[k]}")
            return None
    return nearer


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
            exact = exact_slopes(model, inputs, scalars[0])
            entry["exact"] = exact is not None
            entry["slopes"] = exact or slopes(model, lambda m: loss_of(m, inputs, scalars[0]), 4e-3)
        entries[path.relative_to(folder).as_posix()] = entry
    text = json.dumps({"onnxruntime": onnxruntime.__version__, "models": entries}, indent=1)
    (folder / "onnxruntime.json").write_text(text + "\n")


for name in sys.argv[1:]:
    record(pathlib.Path(name))

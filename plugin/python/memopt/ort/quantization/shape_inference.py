"""ONNX Runtime's quant_pre_process: a model without what quantization would stumble over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..enums import GraphOptimizationLevel
from ..options import SessionOptions
from ..session import InferenceSession
from ._writing import file_of

__all__ = ["quant_pre_process"]


def quant_pre_process(
    input_model: Any = None,
    output_model_path: str | Path | None = None,
    skip_optimization: bool = False,
    skip_onnx_shape: bool = False,
    skip_symbolic_shape: bool = False,
    auto_merge: bool = False,
    int_max: int = 2**31 - 1,
    guess_output_rank: bool = False,
    verbose: int = 0,
    save_as_external_data: bool = False,
    all_tensors_to_one_file: bool = False,
    external_data_location: str | None = None,
    external_data_size_threshold: int = 1024,
    *,
    input_model_path: Any = None,
) -> None:
    """Writes the model with constants folded and what does nothing left out, to quantize it then.

    input_model is the path of a model, or an onnx.ModelProto. Shapes and types are found when a model is quantized, so that the arguments
    of shape inference have no effect; weights outside the model are in one file.
    """
    if input_model is None:
        input_model = input_model_path
    if input_model is None or output_model_path is None:
        raise ValueError("quant_pre_process takes an input_model and an output_model_path")
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL if skip_optimization else GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = output = os.path.abspath(os.fsdecode(output_model_path))
    if save_as_external_data:
        beside = external_data_location or os.path.basename(output) + ".data"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", beside)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", str(external_data_size_threshold))
    with file_of(input_model) as path:
        InferenceSession(path, options, providers=["CPUExecutionProvider"])

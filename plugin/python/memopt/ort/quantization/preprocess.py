"""quant_pre_process as a command: python -m memopt.ort.quantization.preprocess --input m.onnx --output p.onnx."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .shape_inference import quant_pre_process


def _switch(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{word!r} is neither True nor False")
    return word.lower() == "true"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("memopt.ort.quantization.preprocess", description="Prepares a model for quantization.")
    parser.add_argument("--input", required=True, help="the model")
    parser.add_argument("--output", required=True, help="the file to write")
    for name in ("skip_optimization", "skip_onnx_shape", "skip_symbolic_shape", "auto_merge", "save_as_external_data", "all_tensors_to_one_file"):
        parser.add_argument(f"--{name}", type=_switch, default=False)
    parser.add_argument("--external_data_location", default=None)
    parser.add_argument("--external_data_size_threshold", type=int, default=1024)
    given = vars(parser.parse_args(arguments))
    quant_pre_process(given.pop("input"), given.pop("output"), **given)


if __name__ == "__main__":
    main()

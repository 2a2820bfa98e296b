"""ONNX Runtime's training package, as far as it is here: ortmodule."""

"""The modules in which ONNX Runtime's programs look for exceptions and for the classes behind the package."""

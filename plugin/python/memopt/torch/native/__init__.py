"""A planned step without Python at every operator: what replay does, in C++, built on the user's machine for the user's PyTorch."""

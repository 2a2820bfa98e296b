"""Writes onnx-node-VERSION.zip: the ONNX project's backend tests for one operator
or a few (the suites node, pytorch-converted, pytorch-operator and simple).

    pip install onnx==1.23.2
    python onnx-node.py [OUT.zip]

The same release gives the same bytes. Files that hold the same bytes are stored
once; the others are symbolic links, as Info-ZIP writes them.
"""

import argparse
import hashlib
import os
import pathlib
import stat
import sys
import tempfile
import zipfile

import onnx
import onnx.backend.test
from onnx.backend.test import cmd_tools
from onnx.backend.test.loader import load_node_model_tests

# Too large for what they add: 750 kB and more of random numbers for one operator
# that has smaller cases, or that the library does not have.
LEFT_OUT = {
    "node/test_lppool_3d_default",
    "pytorch-converted/test_MaxPool1d_stride_padding_dilation",
    "pytorch-converted/test_MaxPool2d_stride_padding_dilation",
    "pytorch-operator/test_operator_conv",
}


def collect(node):
    """All files as {name: bytes}."""
    cmd_tools.model_test.collect_testcases = load_node_model_tests
    cmd_tools.generate_data(argparse.Namespace(output=node))
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    files = {}
    for root, suite in [(node, "node"), (data, "pytorch-converted"), (data, "pytorch-operator"), (data, "simple")]:
        for path in pathlib.Path(root, suite).rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.is_file() and "/".join(name.split("/")[:2]) not in LEFT_OUT:
                files[name] = path.read_bytes()
    return files


def write(files, out):
    first = {}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            mode, content = stat.S_IFREG | 0o644, files[name]
            digest = hashlib.sha256(content).digest()
            if digest in first and len(content) > 64:
                link = os.path.relpath(first[digest], os.path.dirname(name))
                mode, content = stat.S_IFLNK | 0o777, link.encode()
            else:
                first.setdefault(digest, name)
            info.external_attr = mode << 16
            z.writestr(info, content, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else f"onnx-node-{onnx.__version__}.zip"
    with tempfile.TemporaryDirectory() as node:
        write(collect(node), out)

# SPDX-License-Identifier: MIT
"""safetensors files for the other scripts: read one by one, written piece by piece.

A file is an 8-byte little-endian length n, n bytes of JSON { name: dtype, shape, data_offsets }
and the data, which the offsets count from. Needs: python3, numpy.
"""
import json
import math
import struct

import numpy as np

TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "I32": "<i4", "I64": "<i8"}


def read_file(path):
    """{name: array}. bfloat16, which NumPy does not have, becomes float32."""
    tensors = {}
    with open(path, "rb") as file:
        (n,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(n))
        for name, info in header.items():
            if name == "__metadata__":
                continue
            file.seek(8 + n + info["data_offsets"][0])
            values = np.fromfile(file, TYPES[info["dtype"]], math.prod(info["shape"]))
            if info["dtype"] == "BF16":
                values = (values.astype(np.uint32) << 16).view(np.float32)
            tensors[name] = values.reshape(info["shape"])
    return tensors


def read_model(directory):
    """The tensors of a model directory, of one file or of several and an index."""
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return read_file(directory / "model.safetensors")
    tensors = {}
    for part in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        tensors.update(read_file(directory / part))
    return tensors


def write_file(path, layout, values):
    """layout: [(name, dtype, shape)] in the order of the file; values(name, dtype, shape) gives
    the arrays that follow each other in a tensor, so that a large one need not be in memory."""
    header = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dtype, shape in layout:
        begin, end = end, end + math.prod(shape) * np.dtype(TYPES[dtype]).itemsize
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, dtype, shape in layout:
            n = 0
            for piece in values(name, dtype, shape):
                n += file.write(np.ascontiguousarray(piece, TYPES[dtype]).data.cast("B"))
            if n != header[name]["data_offsets"][1] - header[name]["data_offsets"][0]:
                raise ValueError(f"{name}: {n} bytes do not make {shape} of {dtype}")

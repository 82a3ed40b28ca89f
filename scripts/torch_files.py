#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""State dicts as PyTorch saves them, for the tests of the readers of such files.

  torch_files.py              writes tests/golden/torch anew
  torch_files.py -o DIR       the same into DIR
  torch_files.py --many DIR   more and larger ones, for trying by hand

Beside x.bin, which torch.save made, stands x.safetensors, which this program made of the values
that the tensors showed before they were saved: every test is one file against the other. The values
are drawn with a fixed seed. The bytes of a legacy file differ from run to run: its storages are
called by their address.

  zip, legacy     the same state dict in either layout: every type; transposed, strided, sliced and
                  expanded tensors; one storage under several names; numbers, empty tensors, odd names
  parameters      those of a module as they are, and the module's own state dict
  nested          {"epoch", "loss", "state_dict"}
  shards/         a state dict in two files and their index

Needs: python3, PyTorch (python3-torch).
"""
import argparse
import collections
import json
import pathlib
import struct

import torch

TYPES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_safetensors(path, tensors):
    """Widest elements first, as the format's own writer has it."""
    header, data = {}, b""
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
        if flat.dtype == torch.bfloat16:
            flat = flat.view(torch.int16)
        values = flat.numpy().tobytes()
        header[name] = {
            "dtype": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(values)],
        }
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write(path, saved, tensors, legacy=False):
    torch.save(saved, path.with_suffix(".bin"), _use_new_zipfile_serialization=not legacy)
    write_safetensors(path.with_suffix(".safetensors"), tensors)


def draw(*shape, dtype=torch.float32):
    if dtype.is_floating_point:
        return torch.randn(*shape).to(dtype)
    low, high = (0, 2) if dtype == torch.bool else (0 if dtype == torch.uint8 else -100, 100)
    return torch.randint(low, high, shape).to(dtype)


def all_kinds():
    tensors = collections.OrderedDict()
    for dtype, name in TYPES.items():
        tensors["types." + name] = draw(2, 3, dtype=dtype)
    whole = draw(6, 4)
    tensors["whole"] = whole
    tensors["whole.transposed"] = whole.t()
    tensors["whole.rows"] = whole[2:5]
    tensors["whole.columns"] = whole[:, 1:3]
    tensors["whole.every_other"] = whole[::2, ::3]
    tensors["whole.again"] = whole
    tensors["whole.one"] = whole[5, 3]
    tensors["half.transposed"] = draw(3, 5, dtype=torch.float16).t()
    tensors["deep"] = draw(2, 3, 2, 2).permute(3, 1, 0, 2)
    tensors["expanded"] = draw(1, 3).expand(4, 3)
    tensors["one_row"] = draw(5, 1).t()
    tensors["number"] = torch.tensor(2.5)
    tensors["count"] = torch.tensor(3)
    tensors["empty"] = torch.zeros(0)
    tensors["empty.sides"] = torch.zeros(3, 0, 2)
    tensors["empty.end"] = whole.view(-1)[24:]
    tensors["odd \u00e9 \u4e2d \U0001f9ec \"\\/\n"] = draw(2)
    tensors[""] = draw(1)
    return tensors


def parameters():
    torch.manual_seed(2)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    tensors = module.state_dict()
    for name, parameter in module.named_parameters():
        tensors["own." + name] = parameter
    tensors["fixed"] = torch.nn.Parameter(draw(3, 2).t(), requires_grad=False)
    return tensors


def shards(folder):
    folder.mkdir(exist_ok=True)
    parts = [{"a.weight": draw(3, 2), "a.bias": draw(3)}, {"b.weight": draw(2, 3).t()}]
    index = {"metadata": {"total_size": 60}, "weight_map": {}}
    for i, part in enumerate(parts):
        name = "pytorch_model-%05d-of-%05d.bin" % (i + 1, len(parts))
        torch.save(collections.OrderedDict(part), folder / name)
        index["weight_map"].update({tensor: name for tensor in part})
    text = json.dumps(index, indent=2, sort_keys=True)
    (folder / "pytorch_model.bin.index.json").write_text(text + "\n")
    write_safetensors(folder / "whole.safetensors", {**parts[0], **parts[1]})


def golden(folder):
    torch.manual_seed(1)
    tensors = all_kinds()
    write(folder / "zip", tensors, tensors)
    write(folder / "legacy", tensors, tensors, legacy=True)
    tensors = parameters()
    write(folder / "parameters", tensors, tensors)
    tensors = {"weight": draw(2, 2), "bias": draw(2)}
    write(folder / "nested", {"epoch": 3, "loss": 0.5, "best": None, "state_dict": tensors}, tensors)
    shards(folder / "shards")


def many(folder):
    torch.manual_seed(3)
    for legacy in False, True:
        layout = "legacy" if legacy else "zip"
        thousand = {"layer.%d.weight" % i: draw(7, i % 5) for i in range(1000)}
        write(folder / ("thousand_" + layout), thousand, thousand, legacy)
        large = {"large": draw(3000, 700), "large.transposed": draw(700, 3000).t()}
        write(folder / ("large_" + layout), large, large, legacy)
        tied = draw(50, 20)
        same = {"tied.%d" % i: tied for i in range(300)}
        same["tied.transposed"] = tied.t()
        write(folder / ("tied_" + layout), same, same, legacy)
        for dtype in torch.half, torch.bfloat16, torch.double:
            module = torch.nn.TransformerEncoderLayer(8, 2, 16).to(dtype).state_dict()
            name = "module_%s_%s" % (TYPES[dtype], layout)
            write(folder / name, module, module, legacy)
        write(folder / ("none_" + layout), {}, {}, legacy)
        inner = {"a": draw(2), "b": torch.nn.Parameter(draw(2, 2))}
        outer = {"model_state_dict": inner, "optimizer": [{"lr": 0.1, "step": draw(1)}], "big": 2**70}
        write(folder / ("inner_" + layout), outer, inner, legacy)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", type=pathlib.Path, default="tests/golden/torch", metavar="DIR")
    parser.add_argument("--many", type=pathlib.Path, metavar="DIR")
    args = parser.parse_args()
    folder = args.many or args.o
    folder.mkdir(parents=True, exist_ok=True)
    if args.many:
        many(folder)
    else:
        golden(folder)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model directory of a published family and size with random weights, to measure speed with.

  random_model.py --family dnabert DIR                         12 layers, 768 wide, k = 6
  random_model.py --family nt-v2 --preset 50m DIR
  random_model.py --family dnabert2 --tokenizer FILE DIR       FILE: its tokenizer.json

Families and presets: --help. Writes config.json, vocab.txt or tokenizer.json, and
model.safetensors, in pieces: no tensor has to fit into memory. Needs: python3, numpy.
"""
import argparse
import json
import pathlib
import shutil
import sys

import numpy as np

import families
import tensorfile

Size = families.Size
PIECE = 1 << 22  # values drawn at once

# family -> preset -> size; the first preset is that of --preset published.
PRESETS = {
    "dnabert": {
        "k6": Size(4101, 768, 12, 12, 3072, 512),
        "k3": Size(69, 768, 12, 12, 3072, 512),
    },
    "nt-v1": {"500m": Size(4105, 1280, 20, 24, 5120, 1002)},
    "nt-v2": {
        "500m": Size(4107, 1024, 16, 29, 4096, 2050),
        "250m": Size(4107, 768, 16, 24, 3072, 2050),
        "100m": Size(4107, 512, 16, 22, 2048, 2050),
        "50m": Size(4107, 512, 16, 12, 2048, 2050),
    },
    "dnabert2": {"117m": Size(4096, 768, 12, 12, 3072, 512)},
    "dnaberts": {"117m": Size(4096, 768, 12, 12, 3072, 512)},
    "gena": {
        "base": Size(32000, 768, 12, 12, 3072, 512),
        "large": Size(32000, 1024, 16, 24, 4096, 512),
    },
}
MAKE = {
    "dnabert": families.dnabert,
    "nt-v1": lambda size: families.nucleotide(size, 1),
    "nt-v2": lambda size: families.nucleotide(size, 2),
    "dnabert2": families.dnabert2,
    "dnaberts": lambda size: families.dnabert2(size, pooler=True),
    "gena": families.gena,
}


def draw(rng, config):
    """What tensorfile.write_file() asks for: values as before training, biases not zero."""

    def values(name, dtype, shape):
        if dtype == "I64":
            yield np.arange(shape[1])
        elif name.endswith("inv_freq"):
            yield 10000.0 ** (-2.0 * np.arange(shape[0]) / (2 * shape[0]))
        else:
            of_norm = len(shape) == 1 and name.endswith(".weight")
            n = int(np.prod(shape))
            for begin in range(0, n, PIECE):
                piece = rng.standard_normal(min(PIECE, n - begin), np.float32)
                piece *= np.float32(config["initializer_range"])
                yield piece + np.float32(1.0) if of_norm else piece

    return values


def write_vocabulary(directory, family, size, tokenizer):
    if tokenizer:
        shutil.copyfile(tokenizer, directory / "tokenizer.json")
        return
    k = {69: 3}.get(size.vocab, 6)
    if family == "dnabert":
        words = families.dnabert_vocabulary(k)
        config = {"do_lower_case": False, "max_len": 512}
    else:
        words = families.nucleotide_vocabulary(k, ends=family == "nt-v2")
        limit = 2048 if family == "nt-v2" else 1000
        config = {"tokenizer_class": "EsmTokenizer", "eos_token": None}
        config["model_max_length"] = limit
    (directory / "vocab.txt").write_text("\n".join(words))
    (directory / "tokenizer_config.json").write_text(json.dumps(config) + "\n")


def main():
    presets = "; ".join(f"{family}: {' '.join(PRESETS[family])}" for family in PRESETS)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", required=True, choices=PRESETS)
    parser.add_argument("--preset", default="published", help=f"{presets}; default: the first")
    parser.add_argument("--tokenizer", type=pathlib.Path, help="a tokenizer.json to go with it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("directory", metavar="DIR", type=pathlib.Path)
    args = parser.parse_args()
    sizes = PRESETS[args.family]
    name = next(iter(sizes)) if args.preset == "published" else args.preset
    if name not in sizes:
        parser.error(f"{args.family} has no preset {name}")
    size = sizes[name]
    if args.family in ("dnabert2", "dnaberts", "gena"):
        if not args.tokenizer:
            parser.error(f"{args.family} needs --tokenizer")
        n = len(json.loads(args.tokenizer.read_text())["model"]["vocab"])
        if n != size.vocab:
            parser.error(f"{args.tokenizer} has {n} tokens instead of {size.vocab}")
    elif args.tokenizer:
        parser.error(f"{args.family} has a vocabulary of its own")

    config, layout = MAKE[args.family](size)
    args.directory.mkdir(parents=True, exist_ok=True)
    (args.directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_vocabulary(args.directory, args.family, size, args.tokenizer)
    rng = np.random.default_rng(args.seed)
    path = args.directory / "model.safetensors"
    tensorfile.write_file(path, sorted(layout), draw(rng, config))
    print(f"{args.directory}: {sum(np.prod(shape) for _, _, shape in layout):,} values")
    return 0


if __name__ == "__main__":
    sys.exit(main())

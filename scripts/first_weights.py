#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The weights that a model of kmerformer begins with, a second time in NumPy, bit by bit.

    scripts/first_weights.py DIR [--seed N] [--words W] [--init MODEL] [--embeddings FILE]

DIR is a model, in float32, as `init` leaves it; or, with --words letters|random|tetramers, as
`pretrain --steps 1 --lr 1e-37` does, after a step that is too small for a float to notice. --init:
those it has are MODEL's, and drawn is what this lacks. --embeddings: text of word2vec, with its
FILE.vocab. Exit status 1, and a line for each, if a tensor differs, is missing or one too many. A
zero may have become 1e-36, no more; vectors from a file may be off by the last digit.

The shape is that of config.json. It follows src/base/rng.h, src/model/weights.h and
src/model/families/bert.h (streams), src/learn/word_init.h (words). Needs: python3, NumPy.
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np

import bits_naive
import reference
import tensorfile

STD = np.float32(0.02)
SINES = "encoder.embed_positions.weight"  # not drawn
WORDS = 18  # drawn for: src/learn/word_init.h
TETRAMERS = 64
MOVED = 1e-36
ULP = 2.0**-23

# Number of the row, name without layer and ending, shape of the weight; the bias has the next one.
ENCODER = [
    (0, "embeddings.word_embeddings", "VE"),
    (1, "embeddings.token_type_embeddings", "TE"),
    (2, "embeddings.LayerNorm", "E"),
    (4, "embeddings_project", "DE"),
]
LAYER = [
    (6, "attention.self.query", "DD"),
    (8, "attention.self.key", "DD"),
    (10, "attention.self.value", "DD"),
    (12, "attention.output.dense", "DD"),
    (14, "attention.output.LayerNorm", "D"),
    (16, "intermediate.dense", "FD"),
    (18, "output.dense", "DF"),
    (20, "output.LayerNorm", "D"),
]
HEAD = [
    (22, "cls.predictions.transform.dense", "ED"),
    (24, "cls.predictions.transform.LayerNorm", "E"),
]
COMPOSITION = [
    (36, "composition.word_embeddings", "VC"),
    (37, "composition.LayerNorm", "C"),
    (39, "composition.intermediate.dense", "4C"),
    (41, "composition.output.dense", "C4"),
]
HEAD_BIAS = "cls.predictions.bias"
WORD = "embeddings.word_embeddings.weight"
COMPOSED = "composition.word_embeddings.weight"


def mix(z):
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def normals(rng, n):
    """n of the stream that rng, fresh, is at the beginning of; of three numbers each."""
    steps = np.arange(1, 3 * n + 1, dtype=np.uint64)
    x = mix(np.uint64(rng.state) + steps * np.uint64(bits_naive.GAMMA)).reshape(n, 3)
    parts = [x >> np.uint64(shift) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
    total = sum(parts).sum(axis=1).astype(np.int64)
    return ((total - 6 * 65535) / 65536).astype(np.float32)


def draw_row(tensors, prefix, row, layer, sizes, seed):
    number, name, sides = row
    shape = [sizes[side] for side in sides]
    stream = number if layer is None else number + 2**16 * (layer + 1)
    if len(shape) == 1:
        tensors[f"{prefix}{name}.weight"] = np.ones(shape, np.float32)
    else:
        rng = bits_naive.Random(seed, stream)
        tensors[f"{prefix}{name}.weight"] = (normals(rng, math.prod(shape)) * STD).reshape(shape)
    if not name.endswith("_embeddings"):
        tensors[f"{prefix}{name}.bias"] = np.zeros(shape[0], np.float32)


def draw_model(config, seed):
    """{name: array} of all tensors that a model of this shape has, with a head."""
    width = config["hidden_size"]
    composition = config["kmerformer"].get("composition", 0)
    sizes = {
        "V": config["vocab_size"],
        "T": config["type_vocab_size"],
        "E": config.get("embedding_size", width),
        "D": width,
        "F": config["intermediate_size"],
        "C": composition,
        "4": 4 * composition,
    }
    tensors = {HEAD_BIAS: np.zeros(sizes["V"], np.float32)}
    for row in ENCODER + HEAD + (COMPOSITION if composition else []):
        if row[1] != "embeddings_project" or sizes["E"] != width:
            draw_row(tensors, "", row, None, sizes, seed)
    for layer in range(config["num_hidden_layers"]):
        for row in LAYER:
            draw_row(tensors, f"encoder.layer.{layer}.", row, layer, sizes, seed)
    return tensors


# ---------------------------------------------------------------- words ----------------------


class Words:
    """Sums of vectors that are drawn for parts of a word."""

    def __init__(self, tokens, width, seed):
        self.tokens, self.width, self.seed = tokens, width, seed
        self.k = max(len(token) for token in tokens if token[0] != "[")
        self.drawn = {}

    def vector(self, kind, number):
        if (kind, number) not in self.drawn:
            rng = bits_naive.draw(self.seed, WORDS, kind, number)
            self.drawn[kind, number] = normals(rng, self.width)
        return self.drawn[kind, number]

    def letters(self, token):
        return [self.vector(i, ord(letter)) for i, letter in enumerate(token)]

    def tetramers(self, token):
        vectors = []
        for i in range(self.k - 3):
            one = token[i : i + 4]
            both = one, bits_naive.reverse_complement(one)
            number = min(int("".join(str("ACGT".index(x)) for x in word), 4) for word in both)
            vectors.append(self.vector(TETRAMERS, number))
        return vectors


def start_words(table, tokens, seed, words):
    parts = Words(tokens, table.shape[1], seed)
    share = np.sqrt(np.float32(0.5)) if words == "tetramers" else np.float32(1)
    of_letter = share * np.float32(0.02 / math.sqrt(parts.k))
    for row, token in zip(table, tokens):
        if token[0] == "[":
            continue
        row *= np.float32(0.1)
        for vector in parts.letters(token):
            row += vector * of_letter
        for vector in parts.tetramers(token) if words == "tetramers" else []:
            row += vector * (share * np.float32(0.02 / math.sqrt(parts.k - 3)))


def start_composition(table, tokens, seed):
    parts = Words(tokens, table.shape[1], seed)
    if parts.k < 4:
        return
    for row, token in zip(table, tokens):
        row *= np.float32(0.1)
        for vector in parts.tetramers(token) if token[0] != "[" else []:
            row += vector * np.float32(0.02 / math.sqrt(parts.k - 3))


def start_vectors(table, tokens, path):
    """Of words that were met."""
    counts = pathlib.Path(f"{path}.vocab").read_text().splitlines()
    met = {word for word, n in map(str.split, counts) if int(n) > 0}
    lines = [line.split() for line in path.read_text().splitlines()[1:]]
    vectors = {line[0]: np.array(line[1:], float) for line in lines if line[0] in met}
    found = [(i, vectors[token]) for i, token in enumerate(tokens) if token in vectors]
    size = math.sqrt(np.mean([vector**2 for _, vector in found]))
    for i, vector in found:
        table[i] = vector * 0.02 / size


def begin(config, tokens, seed, words=None, before=None, embeddings=None):
    """{name: array} that a model begins with; words None: as init makes it."""
    drawn = draw_model(config, seed)
    before = before or {}
    tensors = {name: before.get(name, value) for name, value in drawn.items()}
    if COMPOSED in tensors and COMPOSED not in before and words:
        start_composition(tensors[COMPOSED], tokens, seed)
    if words in ("letters", "tetramers") and not before:
        start_words(tensors[WORD], tokens, seed, words)
    if embeddings:
        tensors[WORD] = tensors[WORD].copy()
        start_vectors(tensors[WORD], tokens, embeddings)
    return tensors


# ---------------------------------------------------------------- comparing ------------------


def read(directory):
    tensors = tensorfile.read_model(directory)
    return {reference.plain_name(name): value for name, value in tensors.items()}


def differs(name, ours, theirs, limit):
    """In words; None: it does not."""
    if theirs is None:
        return f"{name}: missing"
    if ours.shape != theirs.shape or theirs.dtype != np.float32:
        return f"{name}: {ours.shape}, not {theirs.shape} of {theirs.dtype}"
    far = np.abs(ours.astype(float) - theirs) > limit * np.abs(ours) + MOVED
    return f"{name}: {far.sum()} of {far.size} differ" if far.any() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--words", choices=("letters", "random", "tetramers"))
    parser.add_argument("--init", type=pathlib.Path)
    parser.add_argument("--embeddings", type=pathlib.Path)
    args = parser.parse_args()
    config = json.loads((args.model / "config.json").read_text())
    tokens = (args.model / "vocab.txt").read_text().splitlines()
    before = read(args.init) if args.init else None
    ours = begin(config, tokens, args.seed, args.words, before, args.embeddings)
    theirs = read(args.model)
    theirs.pop(SINES, None)
    if not any(name.startswith("cls.") for name in theirs):  # of a training without masked bases
        ours = {name: value for name, value in ours.items() if not name.startswith("cls.")}
    said = [f"{name}: one too many" for name in theirs if name not in ours]
    for name, value in ours.items():
        limit = ULP if name == WORD and args.embeddings else 0
        said.append(differs(name, value, theirs.get(name), limit))
    said = [line for line in said if line]
    size = sum(value.size for value in ours.values())
    print(f"{len(ours)} tensors of {size} numbers", *said, sep="\n")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())

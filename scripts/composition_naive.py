#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The compositions that kmerformer embed makes, a second time, by hand and in doubles.

    scripts/composition_naive.py MODEL SEQUENCES.fa VECTORS.tsv [--strand fwd|rc|both]

MODEL is a directory whose tensors are F32, VECTORS.tsv what `embed --parts composition --norm none`
made of the same records in the same order. For each record, over its k-mers of A, C, G, T and U in
either case, at the model's stride from the first base of the strand:

    z = mean of composition.word_embeddings.weight[id], id the line of the k-mer in vocab.txt;
        of two strands the mean of their means
    u = (z - mean(z)) / sqrt(var(z) + eps) * LayerNorm.weight + LayerNorm.bias
    c = u + W2 gelu(W1 u + b1) + b2,   gelu(x) = x (1 + erf(x / sqrt 2)) / 2

A record without a k-mer has nan. Prints the largest difference; exit status 1 if it is above 1e-5 or
records, names or columns are not the same. Needs: python3.
"""
import argparse
import array
import json
import math
import pathlib
import struct
import sys

CLOSE = 1e-5


def read_tensors(path):
    """{name: rows, or numbers of a tensor of rank 1} of a safetensors file, the composition's."""
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, info in json.loads(data[8:8 + n]).items():
        if not name.startswith("composition."):
            continue
        if info["dtype"] != "F32":
            sys.exit(f"{path}: {name} is {info['dtype']}, not F32")
        begin, end = info["data_offsets"]
        values = struct.unpack(f"<{(end - begin) // 4}f", data[8 + n + begin:8 + n + end])
        if len(info["shape"]) == 2:
            width = info["shape"][1]
            values = [values[i:i + width] for i in range(0, len(values), width)]
        tensors[name[len("composition."):]] = values
    return tensors


def read_fasta(path):
    records = []
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            records.append((line[1:].split()[0], []))
        else:
            records[-1][1].append(line.strip())
    return [(name, "".join(parts).upper().replace("U", "T")) for name, parts in records]


def reverse_complement(sequence):
    return "".join({"A": "T", "C": "G", "G": "C", "T": "A"}.get(b, "N") for b in reversed(sequence))


def mean_of_words(sequence, k, stride, table, ids):
    """None if there is no k-mer."""
    words = [sequence[i:i + k] for i in range(0, len(sequence) - k + 1, stride)]
    rows = [table[ids[word]] for word in words if word in ids and set(word) <= set("ACGT")]
    return [math.fsum(column) / len(rows) for column in zip(*rows)] if rows else None


def matrix_times(matrix, x, bias):
    return [math.fsum(w * v for w, v in zip(row, x)) + b for row, b in zip(matrix, bias)]


def compose(z, t, eps):
    mean = math.fsum(z) / len(z)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in z) / len(z) + eps)
    u = [(v - mean) / deviation * w + b
         for v, w, b in zip(z, t["LayerNorm.weight"], t["LayerNorm.bias"])]
    h = matrix_times(t["intermediate.dense.weight"], u, t["intermediate.dense.bias"])
    h = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in h]
    return [a + b for a, b in zip(u, matrix_times(t["output.dense.weight"], h,
                                                  t["output.dense.bias"]))]


def vector_of(sequence, strand, config, tensors, ids):
    k, stride = config["kmerformer"]["k"], config["kmerformer"]["stride"]
    strands = {"fwd": [sequence], "rc": [reverse_complement(sequence)],
               "both": [sequence, reverse_complement(sequence)]}[strand]
    means = [mean_of_words(s, k, stride, tensors["word_embeddings.weight"], ids) for s in strands]
    means = [m for m in means if m]
    if not means:
        return [math.nan] * config["kmerformer"]["composition"]
    z = [math.fsum(column) / len(means) for column in zip(*means)]
    return compose(z, tensors, config["layer_norm_eps"])


def read_vectors(path):
    lines = [line.split("\t") for line in path.read_text().splitlines()
             if not line.startswith("#")]
    return [(line[0], array.array("d", map(float, line[1:]))) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("sequences", type=pathlib.Path)
    parser.add_argument("vectors", type=pathlib.Path)
    parser.add_argument("--strand", choices=("fwd", "rc", "both"), default="fwd")
    args = parser.parse_args()
    config = json.loads((args.model / "config.json").read_text())
    tensors = read_tensors(args.model / "model.safetensors")
    words = (args.model / "vocab.txt").read_text().splitlines()
    ids = {word: i for i, word in enumerate(words)}
    records, vectors = read_fasta(args.sequences), read_vectors(args.vectors)
    if [name for name, _ in records] != [name for name, _ in vectors]:
        sys.exit("the records are others")
    worst = 0.0
    for (name, sequence), (_, got) in zip(records, vectors):
        want = vector_of(sequence, args.strand, config, tensors, ids)
        if len(want) != len(got):
            sys.exit(f"{name}: {len(got)} numbers, not {len(want)}")
        for a, b in zip(want, got):
            if math.isnan(a) != math.isnan(b):
                sys.exit(f"{name}: {b}, not {a}")
            worst = max(worst, 0.0 if math.isnan(a) else abs(a - b))
    print(f"{len(records)} records, largest difference {worst:.2g}")
    sys.exit(worst > CLOSE)


if __name__ == "__main__":
    main()

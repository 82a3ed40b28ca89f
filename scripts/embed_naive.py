#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The vectors of kmerformer embed a second time, in NumPy: encoders of k-mers, tnf, kmer:K.

    scripts/embed_naive.py -m MODEL [options] SEQUENCES.fa

Prints a line for each record: its name and its numbers, tabs between. The options are those of embed:
--pool mean|cls|max|mean-all, --layer, --strand, --norm, --stride, --ambiguous skip|unk|break,
--window, --overlap; and --parts, of a model that has a composition. Without an option it is what the
model's config.json says. With -m tnf or kmer:K there are --strand and --norm.

It follows the manual and the essays of src/words/cut.c (chunks) and src/embed/encode.c (pooling). The
encoder is that of reference.py, compositions are those of composition_naive.py: all tokens of a
sequence are written down, then the chunks, and each goes through the model alone.
Needs: python3, NumPy.
"""
import argparse
import itertools
import math
import pathlib

import numpy as np

import composition_naive
import reference

BASES = set("ACGT")


def runs_of_tokens(sequence, k, stride, ambiguous, ids):
    """Lists of (id, first base), of which a chunk never holds two."""
    runs = [[]]
    for i in range(0, len(sequence) - k + 1, stride):
        kmer = sequence[i : i + k]
        if set(kmer) <= BASES:
            runs[-1].append((ids.get(kmer, ids["[UNK]"]), i))
        elif ambiguous == "unk":
            runs[-1].append((ids["[UNK]"], i))
        elif ambiguous == "break":
            runs.append([])
    return [run for run in runs if run]


def chunks_of(run, size, overlap):
    """[(part of the run, whether each of it belongs to this chunk)]."""
    step = size - overlap
    begins = [0]
    while begins[-1] + size < len(run):
        begins.append(begins[-1] + step)

    def depth(c, i):
        """How far token i is from a cut of chunk c; -1: it is not in it."""
        if not begins[c] <= i < begins[c] + size:
            return -1
        left = i - begins[c] if c > 0 else math.inf
        right = begins[c] + size - 1 - i if c + 1 < len(begins) else math.inf
        return min(left, right)

    owners = [max(range(len(begins)), key=lambda c: depth(c, i)) for i in range(len(run))]
    return [
        (run[b : b + size], [owner == c for owner in owners[b : b + size]])
        for c, b in enumerate(begins)
    ]


class Embedder:
    def __init__(self, args):
        self.model = reference.Model(args.model)
        ours = self.model.config["kmerformer"]
        tokens = (args.model / "vocab.txt").read_text().splitlines()
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.framed = ours["specials"]
        self.k = ours["k"]
        self.config = self.model.config
        self.set = {key: getattr(args, key) for key in vars(args)}
        for key, name in (("pool", "pooling"), ("layer", "layer"), ("strand", "strand"),
                          ("norm", "norm"), ("stride", "stride"), ("ambiguous", "ambiguous"),
                          ("window", "window"), ("overlap", "overlap"), ("parts", "parts")):
            if self.set[key] is None:
                self.set[key] = ours.get(name, "states")
        self.tensors = composition_naive.read_tensors(args.model / "model.safetensors")

    def pooled(self, sequence):
        """The vector of one strand, or None, and the k-mers in it."""
        s, frame = self.set, int(self.framed)
        weighed, rows, n_kmers = [], [], 0
        for run in runs_of_tokens(sequence, self.k, s["stride"], s["ambiguous"], self.ids):
            for part, own in chunks_of(run, s["window"] - 2 * frame, s["overlap"]):
                chunk = [id for id, _ in part]
                whole = [self.ids["[CLS]"]] * frame + chunk + [self.ids["[SEP]"]] * frame
                states = self.model.layers(np.array(whole))[s["layer"]]
                real = [o and id != self.ids["[UNK]"] for id, o in zip(chunk, own)]
                counted = [True] * frame + own + [True] * frame
                n_kmers += sum(real)
                if not any(real):
                    continue
                if s["pool"] == "cls":
                    weighed += [states[0]] * sum(real)
                elif s["pool"] == "mean-all":
                    rows += list(states[counted])
                else:
                    rows += list(states[frame : frame + len(chunk)][real])
        rows = weighed or rows
        if n_kmers == 0:
            return None, 0
        return (np.max if s["pool"] == "max" else np.mean)(rows, axis=0), n_kmers

    def states(self, strands):
        made = [v for v, n in map(self.pooled, strands) if n > 0]
        return np.mean(made, axis=0) if made else np.full(self.config["hidden_size"], np.nan)

    def composition(self, strands):
        table = self.tensors["word_embeddings.weight"]
        means = [
            composition_naive.mean_of_words(x, self.k, self.set["stride"], table, self.ids)
            for x in strands
        ]
        means = [mean for mean in means if mean]
        if not means:
            return np.full(self.config["kmerformer"]["composition"], np.nan)
        z = list(np.mean(means, axis=0))
        eps = self.config["layer_norm_eps"]
        return np.array(composition_naive.compose(z, self.tensors, eps))

    def vector(self, sequence):
        back = composition_naive.reverse_complement(sequence)
        strands = {"fwd": [sequence], "rc": [back], "both": [sequence, back]}[self.set["strand"]]
        named = {"states": self.states, "composition": self.composition}
        parts = [named[name](strands) for name in self.set["parts"].split("+")]
        if self.set["norm"] == "l2":
            lengths = [1] if len(parts) == 1 else [math.sqrt(1 / 5), math.sqrt(4 / 5)]
            parts = [v / np.linalg.norm(v) * length for v, length in zip(parts, lengths)]
        return np.concatenate(parts)


class Counter:
    """Frequencies of k-mers; canonical: of those that come first of both strands', or are equal."""

    def __init__(self, args):
        self.canonical = args.model.name == "tnf"
        self.k = 4 if self.canonical else int(args.model.name.removeprefix("kmer:"))
        kmers = ["".join(letters) for letters in itertools.product("ACGT", repeat=self.k)]
        self.columns = [kmer for kmer in kmers if self.name_of(kmer) == kmer]
        self.strand, self.norm = args.strand or "fwd", args.norm

    def name_of(self, kmer):
        if not self.canonical:
            return kmer
        return min(kmer, composition_naive.reverse_complement(kmer))

    def frequencies(self, sequence):
        counts = dict.fromkeys(self.columns, 0)
        for i in range(len(sequence) - self.k + 1):
            kmer = sequence[i : i + self.k]
            if set(kmer) <= BASES:
                counts[self.name_of(kmer)] += 1
        counts = np.array(list(counts.values()), float)
        return counts / counts.sum() if counts.any() else np.full(len(counts), np.nan)

    def vector(self, sequence):
        back = composition_naive.reverse_complement(sequence)
        strands = {"fwd": [sequence], "rc": [back], "both": [sequence, back]}[self.strand]
        v = np.mean([self.frequencies(strand) for strand in strands], axis=0)
        return v / np.linalg.norm(v) if self.norm == "l2" else v


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=pathlib.Path, required=True)
    for name in ("--pool", "--strand", "--norm", "--ambiguous", "--parts"):
        parser.add_argument(name)
    for name in ("--layer", "--stride", "--window", "--overlap"):
        parser.add_argument(name, type=int)
    parser.add_argument("sequences", type=pathlib.Path)
    args = parser.parse_args()
    counts = args.model.name == "tnf" or args.model.name.startswith("kmer:")
    embedder = Counter(args) if counts else Embedder(args)
    for name, sequence in composition_naive.read_fasta(args.sequences):
        print(name, *(f"{x:.7g}" for x in embedder.vector(sequence)), sep="\t")


if __name__ == "__main__":
    main()

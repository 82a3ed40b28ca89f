#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What kmerformer logits gives, a second time in NumPy and float64, of encoders of k-mers.

    scripts/logits_naive.py -m MODEL [options] SEQUENCES.fa

Prints the table of `logits -o -`, or of `logits --bases`, of which the options are: --positions LIST,
--mask none|together|each, --probabilities, --bases. It follows the manual; chunks are those of
embed_naive.py, the encoder is that of reference.py, and each masked copy of a chunk goes through it
alone. Needs: python3, NumPy.
"""
import argparse
import json
import pathlib

import numpy as np

import composition_naive
import embed_naive
import reference


def read_positions(text):
    """The bases, from 0."""
    bases = set()
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        bases |= set(range(int(first) - 1, int(last or first)))
    return bases


class Asker:
    def __init__(self, args):
        self.model = reference.Model(args.model)
        self.ours = json.loads((args.model / "config.json").read_text())["kmerformer"]
        self.tokens = (args.model / "vocab.txt").read_text().splitlines()
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.k = self.ours["k"]
        self.positions = read_positions(args.positions) if args.positions else None
        self.mask = args.mask or ("together" if args.bases else "none")

    def is_asked(self, at):
        return self.positions is None or any(at + j in self.positions for j in range(self.k))

    def logits(self, chunk, masked):
        frame = int(self.ours["specials"])
        ids = [self.ids["[MASK]"] if j in masked else id for j, (id, _) in enumerate(chunk)]
        whole = [self.ids["[CLS]"]] * frame + ids + [self.ids["[SEP]"]] * frame
        states = self.model.layers(np.array(whole))[-1]
        return self.model.logits(states[frame : frame + len(ids)])

    def rows(self, sequence):
        """(id, first base, logits) of the tokens that are asked for."""
        o = self.ours
        size = o["window"] - 2 * int(o["specials"])
        for run in embed_naive.runs_of_tokens(
            sequence, self.k, o["stride"], o["ambiguous"], self.ids
        ):
            for chunk, own in embed_naive.chunks_of(run, size, o["overlap"]):
                asked = [j for j, (_, at) in enumerate(chunk) if self.is_asked(at)]
                together = self.logits(chunk, asked if self.mask == "together" else [])
                for j in (j for j in asked if own[j]):
                    each = self.mask == "each"
                    yield *chunk[j], (self.logits(chunk, [j]) if each else together)[j]

    def bases(self, sequence):
        """(base, from 0, probabilities of A, C, G and T)."""
        says = {}
        for id, at, row in self.rows(sequence):
            if id == self.ids["[UNK]"]:
                continue
            p = reference.softmax(row[None])[0]
            for kmer, share in zip(self.tokens, p):
                for j, letter in enumerate("" if kmer.startswith("[") else kmer):
                    says.setdefault(at + j, np.zeros(4))["ACGT".index(letter)] += share
        for base in sorted(says):
            if self.positions is None or base in self.positions:
                yield base, says[base] / says[base].sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=pathlib.Path, required=True)
    parser.add_argument("--positions")
    parser.add_argument("--mask", choices=("none", "together", "each"))
    parser.add_argument("--probabilities", action="store_true")
    parser.add_argument("--bases", action="store_true")
    parser.add_argument("sequences", type=pathlib.Path)
    args = parser.parse_args()
    asker = Asker(args)
    for name, sequence in composition_naive.read_fasta(args.sequences):
        if args.bases:
            for base, p in asker.bases(sequence):
                print(name, base + 1, sequence[base], *(f"{x:.6f}" for x in p), sep="\t")
            continue
        for _, at, row in asker.rows(sequence):
            row = reference.softmax(row[None])[0] if args.probabilities else row
            print(name, at, *(f"{x:.7g}" for x in row), sep="\t")


if __name__ == "__main__":
    main()

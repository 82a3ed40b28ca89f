#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts k-mers the plain way, to check `kmerformer vocab` against: a dictionary of strings.

    scripts/count_naively.py [-k K] [--canonical] [--stride S] [--alphabet dna|protein] FILE...

FILE is FASTA, or FASTQ of four lines a record, plain or gzip. Prints k-mer, tab and count for each
k-mer that occurs, in alphabetical order. Nothing here is fast, and nothing is shared with the
program: no codes, no tables, no rolling windows. Needs python3 and no further module.
"""

import argparse
import gzip

LETTERS = {"dna": "ACGT", "protein": "ACDEFGHIKLMNPQRSTVWY"}
OTHER_STRAND = str.maketrans("ACGT", "TGCA")


def sequences(path):
    """The sequences of a file, as they stand there."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(path, "rt") as file:
        lines = file.read().splitlines()
    if lines and lines[0].startswith("@"):
        yield from lines[1::4]
        return
    parts = []
    for line in lines:
        if line.startswith(">"):
            yield "".join(parts)
            parts = []
        else:
            parts.append(line)
    yield "".join(parts)


def count(paths, k, canonical, stride, alphabet):
    """A dictionary of k-mers and how often they occur."""
    letters = set(LETTERS[alphabet])
    counts = {}
    for path in paths:
        for sequence in sequences(path):
            sequence = sequence.upper()
            if alphabet == "dna":
                sequence = sequence.replace("U", "T")
            for start in range(0, len(sequence) - k + 1, stride):
                kmer = sequence[start : start + k]
                if not set(kmer) <= letters:
                    continue
                if canonical:
                    kmer = min(kmer, kmer[::-1].translate(OTHER_STRAND))
                counts[kmer] = counts.get(kmer, 0) + 1
    return counts


def main():
    parser = argparse.ArgumentParser(description="Counts k-mers the plain way.")
    parser.add_argument("-k", type=int, default=6, help="letters of a k-mer (6)")
    parser.add_argument("--canonical", action="store_true", help="both strands as one")
    parser.add_argument("--stride", type=int, default=1, help="from one k-mer to the next (1)")
    parser.add_argument("--alphabet", choices=sorted(LETTERS), default="dna")
    parser.add_argument("file", nargs="+")
    args = parser.parse_args()
    if args.k < 1 or args.stride < 1:
        parser.error("k and stride are 1 or more")
    if args.canonical and args.alphabet != "dna":
        parser.error("only DNA has another strand")
    counts = count(args.file, args.k, args.canonical, args.stride, args.alphabet)
    for kmer in sorted(counts):
        print(kmer, counts[kmer], sep="\t")


if __name__ == "__main__":
    main()

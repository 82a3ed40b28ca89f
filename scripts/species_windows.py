#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Windows of genomes at any length, labelled by their genome, for `kmerformer eval`.

  species_windows.py LENGTH PREFIX GENOME.fa.gz...   PREFIX_train.csv.gz and PREFIX_test.csv.gz

Of each genome 200 windows to train, out of the first 70 % of each record, and 100 to test, out of
the last 20 %, each on a random strand, of A, C, G and T alone; a record is drawn by what it has to
offer. Windows may overlap where there is little room. Seeded: the same files every time.
Needs: python3.
"""
import gzip
import os
import random
import re
import sys

PARTS = {"train": (0.0, 0.7, 200), "test": (0.8, 1.0, 100)}
TURN = str.maketrans("ACGT", "TGCA")


def records(path):
    with gzip.open(path, "rt") as file:
        for record in file.read().split(">")[1:]:
            yield "".join(record.split("\n")[1:]).upper()


def draw(rng, pieces, length):
    """A window of one of the pieces, or None if it has other letters."""
    room = [len(piece) - length + 1 for piece in pieces]
    if max(room, default=0) <= 0:
        return None
    piece = rng.choices(pieces, [max(r, 0) for r in room])[0]
    at = rng.randrange(len(piece) - length + 1)
    window = piece[at : at + length]
    if re.search("[^ACGT]", window):
        return None
    return window.translate(TURN)[::-1] if rng.random() < 0.5 else window


def main():
    length, prefix, paths = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    for part, (begin, end, wanted) in PARTS.items():
        rng = random.Random(f"{part} {length}")
        with gzip.open(f"{prefix}_{part}.csv.gz", "wt") as out:
            print("sequence,label", file=out)
            for path in paths:
                name = os.path.basename(path).split(".")[0]
                pieces = [s[int(begin * len(s)) : int(end * len(s))] for s in records(path)]
                windows = (draw(rng, pieces, length) for _ in range(20 * wanted))
                for window in [w for w in windows if w][:wanted]:
                    print(window, name, sep=",", file=out)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kmerformer eval bits, and the validation of pretrain, a second time in NumPy and float64.

    scripts/bits_naive.py [-m MODEL]... [--background FILE]... [options] GENOME...

Prints the table of `eval bits` with one column more, loss: nats per labelled token, which the
validation of `pretrain` calls val_loss. Genomes are FASTA, plain or gzip. The options are those of
the two commands:

  --windows N  --seed N  --mask-rate R          as of eval bits; pretrain has --val-windows
  --window T  --stride N                        the model's if not given
  --mask-span A-B  --softmask W                 as of pretrain
  --background FILE                             learnt from; pretrain: the genomes, and those asked
                                                about are its --val-genome
  --val-fraction F                              without a background: what is held out (0.5)

It follows include/kmerformer/pretrain.h (bits, copying, Markov models), src/learn/windows.h (the
fixed set), src/learn/spans.h (spans, tokens and the order in which they are drawn), src/learn/markov.h
and src/base/rng.h. The encoder is that of reference.py. Nothing is clever here: words are counted in
dictionaries, bases are strings, every window goes through the model alone.
Needs: python3, NumPy.
"""
import argparse
import collections
import gzip
import math
import pathlib

import numpy as np

import reference

MOST = 2**64
GAMMA = 0x9E3779B97F4A7C15
LETTERS = "ACGT"
COMPLEMENT = str.maketrans("ACGT", "TGCA")
# What is drawn for: src/learn/windows.h.
OFFSET, FIXED_STRAND, FIXED_SPANS = 1, 4, 5
ORDERS = range(1, 13)
VISIBLE, MASKED, RANDOM, KEPT = range(4)  # the fates of a base; those after the first are hidden
SHORTEST = 16  # bases of a run; and a k-mer at least
SMALLEST = 2.0**-126  # of what a model gives the true base


# ---------------------------------------------------------------- random numbers -------------


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % MOST
    z = (z ^ z >> 27) * 0x94D049BB133111EB % MOST
    return z ^ z >> 31


class Random:
    def __init__(self, seed, stream):
        self.state = mix((mix((seed + GAMMA) % MOST) + stream * GAMMA) % MOST)

    def next(self):
        self.state = (self.state + GAMMA) % MOST
        return mix(self.state)

    def below(self, n):
        while True:
            x = self.next()
            if x >= MOST % n:
                return x % n

    def unit(self):
        return (self.next() >> 11) * 2.0**-53


def draw(seed, purpose, epoch, number):
    rng = Random(Random(seed, purpose).next(), epoch)
    return Random(rng.next(), number)


# ---------------------------------------------------------------- genomes --------------------


def read_fasta(path):
    """(name, sequence) of each record."""
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path)
    records = []
    with opened as file:
        for line in file:
            if line.startswith(">"):
                records.append((line[1:].split(maxsplit=1)[0], []))
            else:
                records[-1][1].append(line.strip())
    joined = [(name, "".join(lines)) for name, lines in records]
    return [(name, text.replace("U", "T").replace("u", "t")) for name, text in joined]


def runs_of(sequence, shortest):
    """Runs of bases, in the case that they have."""
    for letter in set(sequence) - set("ACGTacgt"):
        sequence = sequence.replace(letter, " ")
    return [run for run in sequence.split() if len(run) >= shortest]


def split_records(args, shortest):
    """(run, number of the input, of the record) of those learnt from, and of those held out."""
    learnt, held = [], []
    for path in args.background:
        for record, (_, sequence) in enumerate(read_fasta(path)):
            learnt += [(run, -1, record) for run in runs_of(sequence, shortest)]
    for number, path in enumerate(args.genomes):
        for record, (name, sequence) in enumerate(read_fasta(path)):
            whole = args.background or name in args.val
            n_held = len(sequence) if whole else int(args.val_fraction * len(sequence))
            border = len(sequence) - n_held
            learnt += [(run, number, record) for run in runs_of(sequence[:border], shortest)]
            held += [(run, number, record) for run in runs_of(sequence[border:], shortest)]
    return learnt, held


def reverse_complement(letters):
    return letters.upper().translate(COMPLEMENT)[::-1]


class Markov:
    """Words of both strands. Of upper-case runs."""

    def __init__(self, runs):
        self.counts = collections.Counter()
        for run in runs:
            for strand in (run.upper(), reverse_complement(run)):
                for n in range(1, ORDERS[-1] + 2):
                    self.counts.update(strand[i : i + n] for i in range(len(strand) - n + 1))

    def bits(self, order, letters, at):
        context = letters[max(0, at - order) : at]
        total = sum(self.counts[context + letter] for letter in LETTERS)
        return -math.log2((self.counts[context + letters[at]] + 0.5) / (total + 2))


# ---------------------------------------------------------------- windows --------------------


def all_windows(runs, size, seed, epoch=0):
    """(number of the run, first base) of those of an epoch, in the order of the runs."""
    windows = []
    for number, run in enumerate(runs):
        if len(run) <= size:
            windows.append((number, 0))
            continue
        n = len(run) // size
        if n > 1 and len(run) % size < size / 2:
            n -= 1
        offset = draw(seed, OFFSET, epoch, number).below(len(run) - n * size + 1)
        windows += [(number, offset + i * size) for i in range(n)]
    return windows


def fixed_numbers(n_windows, wanted):
    n = min(wanted, n_windows)
    return [i * n_windows // n for i in range(n)]


def read_piece(run, at, n, reverse):
    """(letters, whether each is soft), as they are read."""
    piece = run[at : at + n]
    soft = [letter.islower() for letter in piece]
    return (reverse_complement(piece), soft[::-1]) if reverse else (piece.upper(), soft)


def fixed_windows(runs, size, wanted, seed):
    """(letters, whether each is soft) as they are read, on their strands."""
    windows = all_windows(runs, size, seed)
    chosen = []
    for number in fixed_numbers(len(windows), wanted):
        run, at = windows[number]
        reverse = draw(seed, FIXED_STRAND, 0, number).below(2) == 1
        chosen.append(read_piece(runs[run], at, size, reverse))
    return chosen


def draw_spans(rng, letters, args):
    """What becomes of each base, and the letters that are seen."""
    n, rate, span = len(letters), args.mask_rate, args.mask_span
    fates, seen = [VISIBLE] * n, list(letters)
    lengths = range(span[0], span[1] + 1)
    mean = sum(span) / 2
    begins = rate / (mean * (1 - rate) + rate)

    def hide(at, length):
        x = rng.unit()
        fate = MASKED if x < args.mask_share else KEPT
        if args.mask_share <= x < args.mask_share + args.random_share:
            fate = RANDOM
        for i in range(at, min(at + length, n)):
            fates[i] = fate
            if fate == RANDOM:
                seen[i] = LETTERS[rng.below(4)]

    at = 1
    if rng.unit() < rate:
        places = [rest for length in lengths for rest in range(1, length + 1)]
        at = places[rng.below(len(places))]
        hide(0, at)
    while at < n:
        length = 1
        if rng.unit() < begins:
            length = lengths[rng.below(len(lengths))]
            hide(at, length)
        at += length
    if not any(fates):
        at = rng.below(n)
        hide(at, lengths[rng.below(len(lengths))])
    return fates, "".join(seen)


# ---------------------------------------------------------------- the model ------------------


class Speller:
    """How windows become tokens."""

    def __init__(self, model, directory, args):
        ours = model.config.get("kmerformer", {})
        self.tokens = (directory / "vocab.txt").read_text().splitlines()
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.k = ours.get("k", max(len(t) for t in self.tokens if set(t) <= set(LETTERS)))
        self.stride = args.stride or ours.get("stride", 1)
        self.window = args.window or ours.get("window", model.config["max_position_embeddings"])
        framed = "[CLS]" in self.ids and "[SEP]" in self.ids
        self.framed = ours.get("specials", framed)
        kmers = [(i, t) for i, t in enumerate(self.tokens) if not t.startswith("[")]
        # letter_at[i][x]: ids of the k-mers whose letter i is x
        self.letter_at = [
            {x: [id for id, kmer in kmers if kmer[i] == x] for x in LETTERS}
            for i in range(self.k)
        ]

    def window_bases(self):
        n_kmers = self.window - 2 * self.framed
        return (n_kmers - 1) * self.stride + self.k

    def starts(self, n):
        return range(0, n - self.k + 1, self.stride)

    def ask(self, letters, fates, seen):
        """Ids, and labels (None: not asked), of the k-mers of a window."""
        ids, labels = [], []
        for s in self.starts(len(letters)):
            kmer, touched = letters[s : s + self.k], fates[s : s + self.k]
            shown = "[MASK]" if MASKED in touched else seen[s : s + self.k]
            ids.append(self.ids.get(shown, self.ids.get("[UNK]")))
            labels.append(self.ids.get(kmer) if any(touched) else None)
        return ids, labels

    def frame_ids(self, ids):
        """Those of a window, with what the model wants around them."""
        return [self.ids["[CLS]"], *ids, self.ids["[SEP]"]] if self.framed else ids

    def weight(self, s, fates, soft, softmask):
        """Of the k-mer at s: the mean of what its hidden bases count."""
        counts = [softmask if soft[i] else 1 for i in range(s, s + self.k) if fates[i]]
        return sum(counts) / len(counts)

    def bits(self, p, letters, i):
        """Of base i, by p: {number of a k-mer that was asked: probabilities}; None: of none."""
        starts = self.starts(len(letters))
        asked = [j for j, s in enumerate(starts) if s <= i < s + self.k and j in p]
        if not asked:
            return None
        says = {
            x: sum(p[j][self.letter_at[i - starts[j]][x]].sum() for j in asked) for x in LETTERS
        }
        return -math.log2(max(says[letters[i]] / sum(says.values()), SMALLEST))


def probabilities(model, speller, ids, labels):
    """{number of the k-mer: softmax} of those asked for."""
    frame = int(speller.framed)
    asked = [j for j, label in enumerate(labels) if label is not None]
    if not asked:
        return {}
    states = model.layers(np.array(speller.frame_ids(ids)))[-1]
    p = reference.softmax(model.logits(states[[frame + j for j in asked]]))
    return dict(zip(asked, p))


# ---------------------------------------------------------------- scores ---------------------


class Sums:
    def __init__(self):
        self.n = self.bits = self.copy = self.loss = self.weight = 0
        self.markov = {order: 0 for order in ORDERS}


def add_loss(sums, speller, window, fates, labels, p, softmask):
    for j, s in enumerate(speller.starts(len(window[0]))):
        if j in p:
            weight = speller.weight(s, fates, window[1], softmask)
            sums.loss -= weight * math.log(p[j][labels[j]])
            sums.weight += weight


def add_window(sums, model, speller, markov, window, rng, args):
    letters = window[0]
    fates, seen = draw_spans(rng, letters, args)
    starts = speller.starts(len(letters))
    ids, labels = speller.ask(letters, fates, seen)
    p = probabilities(model, speller, ids, labels)
    add_loss(sums, speller, window, fates, labels, p, args.softmask)
    shows = [speller.tokens[id] not in ("[MASK]", "[UNK]") for id in ids]
    for i in (i for i in range(len(letters)) if fates[i]):
        bits = speller.bits(p, letters, i)
        if bits is None:
            continue
        sums.n += 1
        sums.bits += bits
        covering = [j for j, s in enumerate(starts) if s <= i < s + speller.k]
        sums.copy += 0 if any(shows[j] for j in covering) else 2
        for order in ORDERS:
            sums.markov[order] += markov.bits(order, letters, i)


def judge(directory, args, markov_of):
    model = reference.Model(directory)
    speller = Speller(model, directory, args)
    learnt, held = split_records(args, max(SHORTEST, speller.k))
    markov = markov_of([run for run, _, _ in learnt])
    runs = [run for run, _, _ in held]
    windows = fixed_windows(runs, speller.window_bases(), args.windows, args.seed)
    sums = Sums()
    for i, window in enumerate(windows):
        rng = draw(args.seed, FIXED_SPANS, 0, i)
        add_window(sums, model, speller, markov, window, rng, args)
    best = min(ORDERS, key=lambda order: sums.markov[order])
    values = [sums.bits / sums.n, sums.markov[best] / sums.n, sums.copy / sums.n]
    loss = sums.loss / sums.weight if sums.weight > 0 else math.nan
    print(directory, f"{values[0]:.6f}", f"{values[1]:.6f}", best, f"{values[2]:.6f}", sums.n,
          len(windows), f"{loss:.6f}", sep="\t")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", action="append", type=pathlib.Path, required=True)
    parser.add_argument("--background", action="append", default=[])
    parser.add_argument("--windows", type=int, default=512)
    parser.add_argument("--window", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mask-rate", type=float, default=0.15)
    parser.add_argument("--mask-span", default="1-3")
    parser.add_argument("--softmask", type=float, default=1)
    parser.add_argument("--val-fraction", type=float, default=0.5)
    parser.add_argument("genomes", nargs="+")
    args = parser.parse_args()
    span = [int(n) for n in args.mask_span.split("-")]
    args.mask_span = (span[0], span[-1])
    args.mask_share, args.random_share, args.val = 1, 0, []
    made = {}

    def markov_of(runs):
        """One for all models that learn from the same."""
        key = "\n".join(runs)
        if key not in made:
            made[key] = Markov(runs)
        return made[key]

    print("#model\tbits\tmarkov_bits\tmarkov_order\tcopy_bits\thidden_bases\twindows\tloss")
    for directory in args.model:
        judge(directory, args, markov_of)


if __name__ == "__main__":
    main()

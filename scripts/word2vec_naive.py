#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learns k-mer vectors the plain way, to check `kmerformer word2vec` against.

    scripts/word2vec_naive.py [-k K|KMIN-KMAX] [options of kmerformer word2vec] FASTA

Prints the vectors as word2vec text, which are those of the program but for rounding: here all sums
are double. --counts FILE writes the k-mers and how often they occur.

Nothing is shared with the program and nothing is fast: words are strings, the corpus is a list of
strings, the table an array of rows, one example is learnt after another. Needs NumPy.

The order of things, which is that of the program:

    training   epochs of batches, taken in steps of 16
    step       each batch works on its own copy of the table as it was when the step began; the
               copies are then put together
    batch     128 starts of k-mers: tokens, windows, noise, examples
    batch      four examples. Their products come first, then those of the next batch, and only
               then their steps
"""

import argparse
import math
import sys

import numpy as np

LETTERS = {"dna": "ACGT", "protein": "ACDEFGHIKLMNPQRSTVWY"}
OTHER_STRAND = str.maketrans("ACGT", "TGCA")
GOLDEN = 0.6180339887498949
ALL_BITS = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15
BATCH_TOKENS = 128
STEP = 16
PART = 16
BATCH = 4
FEW = 4


class Rng:
    """A stream of SplitMix64."""

    def __init__(self, seed, stream):
        self.state = self.mix((self.mix((seed + GAMMA) & ALL_BITS) + stream * GAMMA) & ALL_BITS)

    @staticmethod
    def mix(z):
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & ALL_BITS
        z = (z ^ z >> 27) * 0x94D049BB133111EB & ALL_BITS
        return z ^ z >> 31

    def next(self):
        self.state = (self.state + GAMMA) & ALL_BITS
        return self.mix(self.state)

    def below(self, n):
        while True:
            x = self.next()
            if x >= 2**64 % n:
                return x % n

    def unit(self):
        return (self.next() >> 11) / 2**53


def stream_of_stream(seed, stream, number):
    """Stream `number` of the seed that is the first number of a stream."""
    return Rng(Rng(seed, stream).next(), number)


def reverse_complement(word):
    return word[::-1].translate(OTHER_STRAND)


# ---------------------------------------------------------------- corpus ------------------


def read_segments(path, opts):
    """Runs of letters without an ambiguous one, of k_min letters or more, record by record."""
    records = []
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith(">"):
                records.append([])
            else:
                records[-1].append(line.strip().upper())
    segments = []
    for record in records:
        text = "".join(record)
        if opts.alphabet == "dna":
            text = text.replace("U", "T")
        text = "".join(c if c in LETTERS[opts.alphabet] else " " for c in text)
        segments += [run for run in text.split() if len(run) >= opts.k_min]
    return segments


def all_words(opts):
    """By length, then in alphabetical order."""
    words, longest = [], [""]
    for k in range(1, opts.k_max + 1):
        longest = [w + c for w in longest for c in LETTERS[opts.alphabet]]
        if k < opts.k_min:
            continue
        for w in longest:
            if opts.strand != "canonical" or w <= reverse_complement(w):
                words.append(w)
    return words


def row_of(words, word):
    """The row of a word; of canonical words either strand's."""
    return words[word] if word in words else words[reverse_complement(word)]


def count_words(segments, words, opts):
    """Every window of every length; frames together have all starts, like stride 1."""
    counts = [0] * len(words)
    for k in range(opts.k_min, opts.k_max + 1):
        for segment in segments:
            for at in range(0, len(segment) - k + 1, opts.stride):
                word = segment[at : at + k]
                counts[row_of(words, word)] += 1
                if opts.strand == "both":
                    counts[row_of(words, reverse_complement(word))] += 1
    return counts


# ---------------------------------------------------------------- drawing -----------------


class Noise:
    """
    Walker's alias table. Bins lie on two stacks, poor ones (of less than an equal share) and rich
    ones, both in their order, the last on top. The poor bin on top takes what it lacks from the
    rich one on top; once that is poor itself it moves to the other stack.
    """

    def __init__(self, counts):
        weights = [math.pow(c, 0.75) for c in counts]
        n, total = len(weights), 0.0
        for w in weights:
            total += w
        share = [w / total * n for w in weights]
        poor = [i for i in range(n) if share[i] < 1]
        rich = [i for i in range(n) if share[i] >= 1]
        self.below, self.other = [0] * n, list(range(n))
        while poor and rich:
            taker, giver = poor.pop(), rich[-1]
            self.below[taker], self.other[taker] = int(share[taker] * 2**32), giver
            share[giver] -= 1 - share[taker]
            if share[giver] < 1:
                poor.append(rich.pop())
        for i in poor:  # by rounding alone
            if weights[i] == 0:
                self.other[i] = weights.index(max(weights))

    def draw(self, random):
        """High bits choose the bin, low ones the element."""
        i = (random >> 32) * len(self.below) >> 32
        return i if random & 0xFFFFFFFF < self.below[i] else self.other[i]


def keep_table(counts, opts):
    """Of 2^32, how often --sample keeps a word; None: always."""
    if opts.sample == 0:
        return None
    keep = []
    for c in counts:
        ratio = opts.sample * sum(counts) / c if c > 0 else 1
        p = math.sqrt(ratio) + ratio
        keep.append(int(p * 2**32) if p < 1 else 2**32 - 1)
    return keep


# ---------------------------------------------------------------- batches -----------------


class Training:
    def __init__(self, segments, opts):
        self.opts = opts
        self.segments = segments
        self.starts = [0]  # of the segments, letters numbered through
        for segment in segments:
            self.starts.append(self.starts[-1] + len(segment))
        self.words = {w: i for i, w in enumerate(all_words(opts))}
        self.counts = count_words(segments, self.words, opts)
        self.noise = Noise(self.counts)
        self.keep = keep_table(self.counts, opts)
        self.frames = opts.k_max if opts.frames else 1
        self.strands = 2 if opts.strand == "both" else 1
        self.stride = opts.k_max if opts.frames else opts.stride
        self.stretch = BATCH_TOKENS * self.stride  # letters whose k-mers are a batch's centres
        self.n_batches = -(-self.starts[-1] // self.stretch) * self.frames * self.strands
        n = len(self.words)
        rng = Rng(opts.seed, ALL_BITS)
        self.table = np.zeros((2 * n, opts.dim))  # vectors; then the words as targets
        for w in range(n):
            for d in range(opts.dim):
                self.table[w, d] = (rng.unit() - 0.5) / opts.dim

    def token(self, epoch, segment, at, reverse):
        """The row of the k-mer at a letter of a segment, or None."""
        opts = self.opts
        rng = stream_of_stream(opts.seed, 2 * epoch + 1, self.starts[segment] + at)
        k = opts.k_min
        if opts.k_max > k:
            k += rng.below(opts.k_max - k + 1)
        word = self.segments[segment][at : at + k]
        if len(word) < k:
            return None
        row = row_of(self.words, reverse_complement(word) if reverse else word)
        if self.keep and rng.next() >> 32 >= self.keep[row]:
            return None
        return row

    def sentences(self, epoch, number):
        """
        Around the stretch of a batch: for each segment a list of (row, is it a centre). Batches of
        a stretch follow each other: strands of its first frame, strands of its second, ...
        """
        frame = number // self.strands % self.frames
        reverse = number % self.strands == 1
        core = number // self.strands // self.frames * self.stretch
        core_end = min(core + self.stretch, self.starts[-1])
        reach = self.opts.window * self.stride * (4 if self.keep else 1)
        for segment, letters in enumerate(self.segments):
            sentence = []
            for at in range(frame, len(letters), self.stride):
                place = self.starts[segment] + at
                if not core - reach <= place < core_end + reach:
                    continue
                row = self.token(epoch, segment, at, reverse)
                if row is not None:
                    sentence.append((row, core <= place < core_end))
            yield sentence

    def batch(self, epoch, number):
        """
        (rows, examples): the rows of the table that it holds, be they moved or not, and pairs of
        input rows and target rows.
        """
        opts, n = self.opts, len(self.words)
        rng = stream_of_stream(opts.seed, 2 * epoch, number)
        rows = set()
        centres = []  # (row, those to the left and to the right, the nearest one first)
        for sentence in self.sentences(epoch, number):
            for i, (row, is_centre) in enumerate(sentence):
                rows.add(row)
                if is_centre:
                    rows.add(n + row)
                    reach = 1 + rng.below(opts.window)
                    left = [w for w, _ in sentence[max(0, i - reach) : i]][::-1]
                    right = [w for w, _ in sentence[i + 1 : i + 1 + reach]]
                    centres.append((row, left, right))
        examples = []
        for part in self.parts(centres):
            pool = [n + self.noise.draw(rng.next()) for _ in range(PART)]
            rows.update(pool)
            turn = 0
            for row, inputs in part:
                noise = [pool[(turn + i) % PART] for i in range(opts.negative)]
                examples.append((inputs, [n + row] + [y for y in noise if y != n + row]))
                turn += opts.negative
        return rows, examples

    def parts(self, centres):
        """Lists of (centre, inputs) that share a pool of noise; a centre without inputs is none."""
        if self.opts.cbow:
            for first in range(PART):
                part = [(row, left[::-1] + right) for row, left, right in centres[first::PART]]
                yield [x for x in part if x[1]]
            return
        for first in range(0, len(centres), PART):
            part = []
            for d in range(self.opts.window):
                for row, left, right in centres[first : first + PART]:
                    part.append((row, right[d : d + 1] + left[d : d + 1]))
            yield [x for x in part if x[1]]

    # ------------------------------------------------------------ learning ----------------

    def factors(self, table, example, alpha):
        """(means, g): g[c, j] of sgns.h for each vector h_c; skip-gram has one for each input."""
        inputs, targets = example
        h = table[inputs]
        if self.opts.cbow:
            h = h.mean(axis=0, keepdims=True)
        g = -alpha / (1 + np.exp(-(h @ table[targets].T)))
        g[:, 0] += alpha
        return h, g

    def take_steps(self, table, example, means, g):
        """
        A mean of several rows is that of the time of the products; a row on its own is what it is
        by now. Noise may hold a word twice: its second step follows its first.
        """
        inputs, targets = example
        h = means if self.opts.cbow and len(inputs) > 1 else table[inputs]
        moved = np.zeros_like(h)
        for j, y in enumerate(targets):
            moved += g[:, j, None] * table[y]
            table[y] += g[:, j] @ h
        for c, x in enumerate(inputs):
            table[x] += moved[0 if self.opts.cbow else c]

    def learn(self, examples, alpha):
        """A copy of the table that has learnt a batch."""
        table = self.table.copy()
        batches = [examples[i : i + BATCH] for i in range(0, len(examples), BATCH)]
        coming = [self.factors(table, x, alpha) for x in batches[0]] if batches else []
        for i, batch in enumerate(batches):
            ready, coming = coming, []
            if i + 1 < len(batches):
                coming = [self.factors(table, x, alpha) for x in batches[i + 1]]
            for example, (means, g) in zip(batch, ready):
                self.take_steps(table, example, means, g)
        return table

    def step(self, epoch, numbers, alpha):
        """The sum of what m batches change; of more than FEW, FEW^2 / m times their mean."""
        change = np.zeros_like(self.table)
        visits = np.zeros(len(self.table))
        for number in numbers:
            rows, examples = self.batch(epoch, number)
            visits[list(rows)] += 1
            change += self.learn(examples, alpha) - self.table
        visits = np.maximum(visits, 1)
        share = np.where(visits > FEW, (FEW / visits) ** 2, 1.0)
        self.table += change * share[:, None]

    def order(self, epoch):
        """The numbers of an epoch's batches."""
        n = self.n_batches
        rng = stream_of_stream(self.opts.seed, ALL_BITS - 1, epoch)
        a = int(GOLDEN * n) + rng.below(n // 16 + 1)
        b = rng.below(n)
        while math.gcd(a, n) != 1:
            a += 1
        return [(a * j + b) % n for j in range(n)]

    def train(self):
        opts = self.opts
        per_epoch = -(-self.n_batches // STEP)
        for epoch in range(opts.epochs):
            order = self.order(epoch)
            for i in range(per_epoch):
                done = (epoch * per_epoch + i) / (per_epoch * opts.epochs)
                alpha = opts.alpha * max(1 - done, 1e-4)
                self.step(epoch, order[i * STEP : (i + 1) * STEP], alpha)


def main():
    parser = argparse.ArgumentParser(description="Learns k-mer vectors the plain way.")
    parser.add_argument("-k", default="6", help="letters of a k-mer, or KMIN-KMAX (6)")
    parser.add_argument("--alphabet", choices=sorted(LETTERS), default="dna")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--frames", action="store_true")
    parser.add_argument("--strand", choices=["fwd", "both", "canonical"], default="fwd")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--negative", type=int, default=5)
    parser.add_argument("--cbow", action="store_true")
    parser.add_argument("--sample", type=float, default=0)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--alpha", type=float, default=0.025)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", metavar="FILE", help="where the counts go")
    parser.add_argument("file")
    opts = parser.parse_args()
    lengths = [int(k) for k in opts.k.split("-")]
    opts.k_min, opts.k_max = lengths[0], lengths[-1]

    training = Training(read_segments(opts.file, opts), opts)
    training.train()
    print(len(training.words), opts.dim)
    for word, row in training.words.items():
        print(word, *("%.9g" % x for x in training.table[row]))
    if opts.counts:
        with open(opts.counts, "w", encoding="ascii") as file:
            for word, count in zip(training.words, training.counts):
                print(word, count, file=file)


if __name__ == "__main__":
    sys.exit(main())

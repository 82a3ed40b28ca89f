#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How good are the vectors of k-mers? Ours beside those of gensim and fastText, in one table.

    w2v_quality.py corpus -k 6|3-8 [--seed S] [-o TEXT] FASTA...
    w2v_quality.py train --with gensim|fasttext [--seed S] [--threads N] TEXT VECTORS
    w2v_quality.py table --probe DIR [--keep JSON] --k6 NAME=FILE... --k38 NAME=FILE...

`corpus` writes what gensim and fastText read: the k-mer of each position, stride 1, of the given
strand, 1000 to a line. A letter other than ACGT ends a stretch, and no k-mer lies across it. With
3-8 the length at each position is drawn evenly from 3 to 8 (dna2vec); one that does not fit in
front of the end of its stretch is left out.

`train` is the baseline, skip-gram of one epoch: dim 100, window 5 (shrunk at random), 5 negatives,
no subsampling, rate 0.025 falling linearly to (almost) 0, all words kept. One difference is the
program's own: fastText draws its negatives from frequency^0.5, gensim and word2vec from ^0.75.
Seeds are exact with one thread; with more, the threads race.

`table` takes word2vec text or binary, or safetensors; files of the same NAME are seeds. It prints
mean and sample standard deviation over the seeds of:

 (a) Spearman's correlation, over 8000 random pairs of words of k letters, of their cosine with
     their global alignment score (Needleman-Wunsch; match 1, all else 0: the length of the
     longest common subsequence).
 (b) Of 1000 random 8-mers: how often vector(first 5 letters) + vector(last 3) has its 8-mer as
     nearest by cosine, among the 5 nearest, the 10 nearest, of all 8-mers. Vectors are
     added as they are, or scaled to length 1 first.
 (c) Reverse complements and the 3k words that differ in one letter: mean cosine beside that of
     random pairs, and AUC, the probability that such a word has a greater cosine than another
     word that is neither it nor one of its kind. 1000 random words; its own reverse complement is
     none. 0.5 is chance: training on one strand sees both by the genes on the other.
 (d) A linear probe: DIR/species_train.csv.gz to species_test.csv.gz, 26 species, windows of 500
     bases as the mean of the vectors of their k-mers. Features standardised, multinomial
     logistic regression, penalty 1e-4 / 2 |W|^2 beside the mean loss, L-BFGS.

Pairs, words and penalty are the same for all files. A word that is not in a file, whose vector is
0 or whose count is known to be 0 has no vector: pairs and questions with it are passed over, and
the part of them that is left is the "answered" row if that is not 1. --keep remembers what was
measured, by path and time of change. Needs numpy, scipy; gensim or fasttext for `train`.
"""
import argparse
import contextlib
import csv
import gzip
import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.stats

LETTERS = "ACGT"
CODES = np.full(256, 255, np.uint8)
CODES[list(b"ACGT")] = range(4)
SEED = 20240229
N_PAIRS, N_WORDS = 8000, 1000
PENALTY = 1e-4


# ---------------------------------------------------------------- corpus


def fasta(path):
    """The sequences of a FASTA file, plain or gzip, in upper case."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(path, "rt") as file:
        for record in file.read().split(">")[1:]:
            yield "".join(record.split("\n")[1:]).upper().replace("U", "T")


def write_corpus(args):
    k_min, k_max = args.k
    rng = np.random.default_rng(args.seed)
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open(args.o, "w")) if args.o else sys.stdout
        for path in args.fasta:
            for sequence in fasta(path):
                for stretch in re.findall("[ACGT]+", sequence):
                    lengths = rng.integers(k_min, k_max + 1, len(stretch))
                    ends = (np.arange(len(stretch)) + lengths).tolist()
                    words = [stretch[i:end] for i, end in enumerate(ends) if end <= len(stretch)]
                    for i in range(0, len(words), 1000):
                        print(*words[i : i + 1000], file=out)


# ---------------------------------------------------------------- baselines


def train(args):
    start = time.time()
    if args.trainer == "gensim":
        from gensim.models import Word2Vec  # here: the other commands do without it

        model = Word2Vec(corpus_file=args.text, vector_size=100, window=args.window, min_count=1,
                         sg=1, hs=0, negative=5, ns_exponent=0.75, sample=0, alpha=0.025,
                         min_alpha=0.0000025,
                         epochs=1, seed=args.seed, workers=args.threads)
        model.wv.save_word2vec_format(args.vectors)
    else:
        subprocess.run(["fasttext", "skipgram", "-input", args.text, "-output", args.vectors,
                        "-minn", "0", "-maxn", "0", "-bucket", "1", "-minCount", "1", "-t", "1",
                        "-lr", "0.025", "-dim", "100", "-ws", str(args.window), "-neg", "5",
                        "-loss", "ns", "-epoch", "1", "-thread", str(args.threads),
                        "-seed", str(args.seed),
                        "-verbose", "0"], check=True)
        os.remove(args.vectors + ".bin")
        os.rename(args.vectors + ".vec", args.vectors)
    print(f"{args.vectors}: {time.time() - start:.0f} s", file=sys.stderr)


# ---------------------------------------------------------------- vectors


def read_safetensors(data):
    """(words, vectors, counts or None) of the native format."""
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])

    def tensor(name, dtype):
        begin, end = (8 + size + offset for offset in head[name]["data_offsets"])
        return np.frombuffer(data[begin:end], dtype).reshape(head[name]["shape"])

    words = [row.tobytes().rstrip(b"\0").decode() for row in tensor("words", np.uint8)]
    counts = tensor("counts", "<u8") if "counts" in head else None
    return words, tensor("vectors", "<f4"), counts


def read_word2vec(data):
    """(words, vectors) of word2vec's text or binary format."""
    head, rest = data.split(b"\n", 1)
    n, dim = map(int, head.split())
    words, vectors = [], np.empty((n, dim), np.float32)
    if len(rest.split(b"\n", 1)[0].split()) == dim + 1 and rest.isascii():
        for row, line in zip(vectors, rest.splitlines()):
            word, values = line.split(None, 1)
            words.append(word.decode())
            row[:] = np.fromstring(values, np.float32, sep=" ")
        assert len(words) == n, "fewer lines than the first one says"
        return words, vectors
    at = 0
    for row in vectors:
        space = rest.index(b" ", at)
        words.append(rest[at:space].strip().decode())
        row[:] = np.frombuffer(rest, "<f4", dim, space + 1)
        at = space + 1 + 4 * dim
    return words, vectors


def load(path):
    """{k: float32 [4^k, dim]}, rows by k-mer code, NaN where a word has no vector."""
    with open(path, "rb") as file:
        data = file.read()
    if data[8:9] == b"{":
        words, vectors, counts = read_safetensors(data)
    else:
        (words, vectors), counts = read_word2vec(data), None
        if os.path.exists(path + ".vocab"):
            with open(path + ".vocab") as file:
                known = dict(line.split() for line in file)
            counts = [int(known.get(word, 0)) for word in words]
    spaces = {}
    for i, word in enumerate(words):
        codes = CODES[list(word.encode())]
        if codes.max() > 3 or not vectors[i].any() or counts is not None and counts[i] == 0:
            continue  # fastText's </s>, for one
        k = len(word)
        if k not in spaces:
            spaces[k] = np.full((4**k, vectors.shape[1]), np.nan, np.float32)
        spaces[k][encode(codes)] = vectors[i]
    return spaces


def encode(letters):
    """Codes of k-mers: letters [..., k], the first one the most significant."""
    code = np.zeros(letters.shape[:-1], np.int64)
    for letter in np.moveaxis(letters, -1, 0):
        code = code * 4 + letter
    return code


def decode(codes, k):
    """The letters [..., k] of codes."""
    return np.asarray(codes)[..., None] >> 2 * np.arange(k - 1, -1, -1) & 3


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


# ---------------------------------------------------------------- what is measured


def common_subsequence(a, b):
    """Lengths of the longest common subsequences of the rows of a and b [n, k]."""
    k = a.shape[1]
    table = np.zeros((k + 1, k + 1, len(a)), np.int64)
    for i in range(k):
        for j in range(k):
            longer = np.maximum(table[i, j + 1], table[i + 1, j])
            table[i + 1, j + 1] = np.maximum(longer, table[i, j] + (a[:, i] == b[:, j]))
    return table[k, k]


def alignment(space, k):
    """(a), and the mean cosine of random pairs, which (c) is to be seen beside."""
    rng = np.random.default_rng(SEED)
    a = rng.integers(0, 4**k, N_PAIRS)
    b = (a + rng.integers(1, 4**k, N_PAIRS)) % 4**k  # another word
    scores = common_subsequence(decode(a, k), decode(b, k))
    cosines = (unit(space[a]) * unit(space[b])).sum(1)
    known = ~np.isnan(cosines)
    rho = scipy.stats.spearmanr(cosines[known], scores[known])[0]
    return {f"(a) Spearman with alignment, k={k}": rho, f"(a) answered, k={k}": known.mean(),
            f"(c) cosine, random pairs, k={k}": cosines[known].mean()}


def analogy(spaces):
    """(b)"""
    wanted = np.random.default_rng(SEED).integers(0, 4**8, N_WORDS)
    heads, tails = spaces[5][wanted // 4**3], spaces[3][wanted % 4**3]
    everything = unit(spaces[8])
    values = {}
    for name, sums in ("raw", heads + tails), ("unit", unit(heads) + unit(tails)):
        cosines = unit(sums) @ everything.T
        own = cosines[np.arange(N_WORDS), wanted]
        known = ~np.isnan(own)
        ranks = 1 + (cosines[known] > own[known, None]).sum(1)
        for rank in 1, 5, 10:
            values[f"(b) 5+3 -> 8, {name} sum, rank <= {rank}"] = (ranks <= rank).mean()
    return {**values, "(b) answered": known.mean()}


def auc(ordered, of_kind):
    """Of the cosines to all other words in order, and to those of the kind among them."""
    below = (np.searchsorted(ordered, of_kind) + np.searchsorted(ordered, of_kind, "right")) / 2
    n = len(of_kind)  # each is as if 1/2 below itself
    return (below.sum() - n * n / 2) / (n * (len(ordered) - n))


def relatives(space, k):
    """(c)"""
    letters = decode(np.arange(4**k), k)
    turned = encode(3 - letters[:, ::-1])
    places, others = np.divmod(np.arange(3 * k), 3)
    units = unit(space)
    known = ~np.isnan(units[:, 0])
    kinds = {"reverse complement": ([], []), "one mismatch": ([], [])}
    for word in np.random.default_rng(SEED).permutation(4**k)[:N_WORDS]:
        if not known[word]:
            continue
        cosines = units @ units[word]
        ordered = np.sort(np.delete(cosines, word))[: known.sum() - 1]  # NaN are sorted last
        changed = np.repeat(letters[word][None], 3 * k, axis=0)
        changed[np.arange(3 * k), places] = (letters[word][places] + others + 1) % 4
        for name, codes in zip(kinds, (turned[[word]], encode(changed))):
            codes = codes[known[codes] & (codes != word)]
            if len(codes):
                kinds[name][0].append(cosines[codes].mean())
                kinds[name][1].append(auc(ordered, cosines[codes]))
    values = {}
    for name, (means, areas) in kinds.items():
        values[f"(c) cosine, {name}, k={k}"] = np.mean(means)
        values[f"(c) AUC, {name}, k={k}"] = np.mean(areas)
    return values


class Probe:
    """(d). The k-mers of the windows are counted once for all files."""

    def __init__(self, directory):
        self.parts = []
        self.counted = {}
        for part in "train", "test":
            with gzip.open(os.path.join(directory, f"species_{part}.csv.gz"), "rt") as file:
                rows = list(csv.DictReader(file))
            letters = [CODES[list(row["sequence"].encode())] for row in rows]
            self.parts.append((letters, np.array([int(row["label"]) for row in rows])))

    def counts(self, k):
        if k not in self.counted:
            self.counted[k] = []
            for windows, _ in self.parts:
                codes = [encode(np.lib.stride_tricks.sliding_window_view(w, k)) for w in windows]
                starts = np.cumsum([0] + [len(row) for row in codes])
                ones = np.ones(starts[-1], np.float32)
                matrix = scipy.sparse.csr_matrix((ones, np.concatenate(codes), starts),
                                                 (len(codes), 4**k))
                matrix.sum_duplicates()
                self.counted[k].append(matrix)
        return self.counted[k]

    def __call__(self, space, k):
        known = ~np.isnan(space[:, :1])
        vectors = np.where(known, space, 0).astype(np.float64)
        train, test = (m @ vectors / (m @ known.astype(np.float64)) for m in self.counts(k))
        mean, deviation = train.mean(0), train.std(0)
        truth = self.parts[1][1]
        guess = classify((train - mean) / deviation, self.parts[0][1], (test - mean) / deviation)
        hits = np.bincount(truth[guess == truth], minlength=truth.max() + 1)
        f1 = 2 * hits / (np.bincount(truth) + np.bincount(guess, minlength=truth.max() + 1))
        return {f"(d) species, accuracy, k={k}": (guess == truth).mean(),
                f"(d) species, macro F1, k={k}": f1.mean()}


def classify(train, labels, test):
    """Labels of test by a multinomial logistic regression on train."""
    n, dim = train.shape
    target = np.eye(labels.max() + 1)[labels]

    def loss(flat):
        weights = flat.reshape(dim + 1, -1)
        scores = train @ weights[:dim] + weights[dim]
        scores -= scores.max(1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        error = (np.exp(logs) - target) / n
        slope = np.vstack([train.T @ error + PENALTY * weights[:dim], error.sum(0)])
        return (PENALTY / 2 * (weights[:dim] ** 2).sum() - (logs * target).sum() / n, slope.ravel())

    start = np.zeros((dim + 1) * target.shape[1])
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B",
                                    options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-8,
                                             "gtol": 1e-7})
    weights = found.x.reshape(dim + 1, -1)
    return (test @ weights[:dim] + weights[dim]).argmax(1)


def measure(path, training, probe):
    """{what: value} of a file of vectors."""
    spaces = load(path)
    if training == "k6":
        values = {**alignment(spaces[6], 6), **relatives(spaces[6], 6)}
        values.update(probe(spaces[6], 6) if probe else {})
    else:
        values = {**alignment(spaces[8], 8), **alignment(spaces[6], 6), **analogy(spaces),
                  **relatives(spaces[8], 8)}
        values.update(probe(spaces[8], 8) if probe else {})
    return {what: float(values[what]) for what in sorted(values, key=lambda what: what[:3])}


# ---------------------------------------------------------------- table


def table(args):
    kept = {}
    if args.keep and os.path.exists(args.keep):
        with open(args.keep) as file:
            kept = json.load(file)
    probe = Probe(args.probe) if args.probe else None
    for title, training, files in ("k = 6", "k6", args.k6), ("k = 3-8", "k38", args.k38):
        names = {}
        for name, path in files:
            key = f"{training} {bool(probe)} {os.path.abspath(path)} {os.stat(path).st_mtime_ns}"
            if key not in kept:
                kept[key] = measure(path, training, probe)
                if args.keep:
                    with open(args.keep, "w") as file:
                        json.dump(kept, file, indent=1)
            names.setdefault(name, []).append(kept[key])
        if names:
            print_table(title, names)


def print_table(title, names):
    print(f"| {title} |", " | ".join(f"{name} ({len(names[name])})" for name in names), "|")
    print("|---|" + "---|" * len(names))
    for what in next(iter(names.values()))[0]:
        columns = [[seed[what] for seed in seeds] for seeds in names.values()]
        if "answered" in what and np.min(np.concatenate(columns)) == 1:
            continue
        cells = [f"{np.mean(c):.4f}" + (f" ± {np.std(c, ddof=1):.4f}" if len(c) > 1 else "")
                 for c in columns]
        print(f"| {what} |", " | ".join(cells), "|")
    print()


# ---------------------------------------------------------------- command line


def lengths(text):
    """(shortest, longest) of "6" or "3-8"."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not match or not 1 <= int(match[1]) <= int(match[2] or match[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is neither a length nor a range like 3-8")
    return int(match[1]), int(match[2] or match[1])


def named(text):
    name, equals, path = text.partition("=")
    if not (name and equals and os.path.exists(path)):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=FILE, or there is no such file")
    return name, path


def main():
    parser = argparse.ArgumentParser(description="Measures the quality of vectors of k-mers.")
    commands = parser.add_subparsers(required=True, metavar="corpus|train|table")

    part = commands.add_parser("corpus", help="FASTA to the text that gensim and fastText read")
    part.add_argument("-k", type=lengths, default=(6, 6), help="length, or range such as 3-8 (6)")
    part.add_argument("--seed", type=int, default=1, help="of the lengths that are drawn (1)")
    part.add_argument("-o", metavar="TEXT", help="file to write (standard output)")
    part.add_argument("fasta", nargs="+")
    part.set_defaults(run=write_corpus)

    part = commands.add_parser("train", help="vectors by gensim or fastText")
    part.add_argument("--with", dest="trainer", choices=["gensim", "fasttext"], required=True)
    part.add_argument("--seed", type=int, default=1)
    part.add_argument("--threads", type=int, default=1)
    part.add_argument("--window", type=int, default=5, help="k-mers on either side (5)")
    part.add_argument("text")
    part.add_argument("vectors")
    part.set_defaults(run=train)

    part = commands.add_parser("table", help="mean and spread over seeds of all measures")
    part.add_argument("--k6", nargs="+", type=named, default=[], action="extend",
                      metavar="NAME=FILE", help="trained on 6-mers")
    part.add_argument("--k38", nargs="+", type=named, default=[], action="extend",
                      metavar="NAME=FILE", help="trained on 3- to 8-mers")
    part.add_argument("--probe", metavar="DIR", help="directory of species_{train,test}.csv.gz")
    part.add_argument("--keep", metavar="JSON", help="file of what has been measured before")
    part.set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

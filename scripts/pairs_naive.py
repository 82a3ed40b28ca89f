#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The validation of kmerformer pretrain --objective contrastive, a second time in NumPy and float64.

    scripts/pairs_naive.py -m MODEL --val-fraction F [options] GENOME...

Prints val_contrast and val_hits of the pairs of held-out windows, for a model whose vectors are
means of the last layer over its k-mers, or compositions. The options are those of pretrain: --windows (there
--val-windows), --window, --stride, --seed, --sources, --length, --near, --distance, --temperature,
--hardness, --all-positives.

It follows src/learn/views.h (pairs and the order in which they are drawn), src/learn/contrast.h (the
loss) and what bits_naive.py follows; compositions are those of composition_naive.py. Needs:
python3, NumPy.
"""
import argparse
import math
import pathlib

import numpy as np

import bits_naive
import composition_naive
import reference

FIXED_PAIR = 7
TRIES = 8


class Part:
    """Runs that are learnt from or held out, and their sources."""

    def __init__(self, part, by_record):
        self.runs = [run for run, _, _ in part]
        self.sources = [(number, record if by_record else 0) for _, number, record in part]

    def run_at(self, source, base):
        """The run that a base lies in, counted through the source."""
        for number, run in enumerate(self.runs):
            if self.sources[number] == source:
                if base < len(run):
                    return number
                base -= len(run)

    def size_of(self, source):
        return sum(len(r) for r, s in zip(self.runs, self.sources) if s == source)


def draw_anywhere(rng, part, source, n):
    view = (None, 0, 0)
    for _ in range(TRIES):
        run = part.run_at(source, rng.below(part.size_of(source)))
        length = min(n, len(part.runs[run]))
        view = (run, rng.below(len(part.runs[run]) - length + 1), length)
        if length == n:
            break
    return view


def draw_near(rng, part, first, n, distance):
    """None if neither side has room."""
    run, at, length = first
    gap = min(int(math.exp(rng.unit() * math.log(distance + 2)) - 1), distance)
    places = [at + length + gap, at - gap - n]
    if rng.below(2) == 1:
        places.reverse()
    for place in places:
        if 0 <= place <= len(part.runs[run]) - n:
            return (run, place, n)
    return None


def draw_length(rng, args):
    return args.length[0] + rng.below(args.length[1] - args.length[0] + 1)


def draw_pair(rng, part, window, size, args, length=None):
    """Two views as they are read: (letters, whether each is soft, the stream of the view)."""
    lengths = [length or draw_length(rng, args) for _ in range(2)]
    run, at = window
    room = min(size, len(part.runs[run]))
    n = min(lengths[0], room)
    first = (run, at + rng.below(room - n + 1), n)
    second = None
    if rng.unit() < args.near:
        second = draw_near(rng, part, first, lengths[1], args.distance)
    if second is None:
        second = draw_anywhere(rng, part, part.sources[run], lengths[1])
    views = []
    for number, at, n in (first, second):
        piece = bits_naive.read_piece(part.runs[number], at, n, rng.below(2) == 1)
        views.append((*piece, bits_naive.Random(rng.next(), 0)))
    return views


def composition_of(model, speller, tensors, letters):
    table = tensors["word_embeddings.weight"]
    z = composition_naive.mean_of_words(letters, speller.k, speller.stride, table, speller.ids)
    return np.array(composition_naive.compose(z, tensors, model.config["layer_norm_eps"]))


def counted(speller, ids):
    """Places of the k-mers in a sequence that its vector is made of."""
    frame = int(speller.framed)
    return [t for t in range(frame, len(ids) - frame) if ids[t] != speller.ids.get("[UNK]")]


def states_of(model, speller, letters):
    ids, _ = speller.ask(letters, [bits_naive.VISIBLE] * len(letters), letters)
    ids = np.array(speller.frame_ids(ids))
    return model.layers(ids)[-1][counted(speller, ids)].mean(axis=0)


def relations(sources, i, all_positives, mixture=None):
    """Positives of an anchor, their shares, and the views that are its negatives. mixture:
    (partners, shares) of the even views, which alone are anchors then."""
    if mixture is None:
        own, keys = {sources[i]}, range(len(sources))
        same = [j for j in keys if sources[j] == sources[i] and j != i]
        positives = same if all_positives else [i ^ 1]
        shares = [1 / len(positives)] * len(positives)
    else:
        partner, share = mixture[0][i], mixture[1][i]
        own, keys = {sources[i], sources[partner]}, range(1, len(sources), 2)
        positives, shares = [i + 1, partner + 1], [share, 1 - share]
        if partner == i:
            positives, shares = [i + 1], [1]
    return positives, shares, [j for j in keys if sources[j] not in own]


def compare(vectors, sources, args, mixture=None):
    """The loss, and the share of hits. vectors [views, D], of any length."""
    unit = vectors / np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    u = unit @ unit.T / args.temperature
    anchors = range(0, len(sources), 1 if mixture is None else 2)
    loss, hits = 0, 0
    for i in anchors:
        positives, shares, others = relations(sources, i, args.all_positives, mixture)
        crowd = np.exp(u[i, positives]).sum()
        if others:
            hard = np.exp((1 + args.hardness) * u[i, others]).sum()
            crowd = crowd + len(others) * hard / np.exp(args.hardness * u[i, others]).sum()
            hits += u[i, positives].max() > u[i, others].max()
        loss = loss + np.log(crowd) - (u[i, positives] * np.array(shares)).sum()
    return loss / len(anchors), hits / len(anchors)


def add_pair_options(parser):
    parser.add_argument("--sources", choices=("input", "record"), default="input")
    parser.add_argument("--length")
    parser.add_argument("--near", type=float, default=0.25)
    parser.add_argument("--distance", type=int, default=5000)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--hardness", type=float, default=0)
    parser.add_argument("--all-positives", action="store_true")


def lengths_of(text, size):
    lengths = [int(n) for n in text.split("-")] if text else [size]
    return lengths[0], lengths[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=pathlib.Path, required=True)
    parser.add_argument("--val-fraction", type=float, required=True)
    parser.add_argument("--windows", type=int, default=512)
    parser.add_argument("--window", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--seed", type=int, default=1)
    add_pair_options(parser)
    parser.add_argument("genomes", nargs="+")
    args = parser.parse_args()
    args.background, args.val = [], []
    model = reference.Model(args.model)
    speller = bits_naive.Speller(model, args.model, args)
    size = speller.window_bases()
    args.length = lengths_of(args.length, size)
    shortest = max(bits_naive.SHORTEST, speller.k)
    held = Part(bits_naive.split_records(args, shortest)[1], args.sources == "record")
    windows = bits_naive.all_windows(held.runs, size, args.seed)
    views, sources = [], []
    for i, number in enumerate(bits_naive.fixed_numbers(len(windows), args.windows)):
        rng = bits_naive.draw(args.seed, FIXED_PAIR, 0, i)
        views += [letters for letters, _, _ in draw_pair(rng, held, windows[number], size, args)]
        sources += [held.sources[windows[number][0]]] * 2
    if "composition" in model.config["kmerformer"].get("parts", "states"):
        tensors = composition_naive.read_tensors(args.model / "model.safetensors")
        vectors = np.array([composition_of(model, speller, tensors, v) for v in views])
    else:
        vectors = np.array([states_of(model, speller, v) for v in views])
    loss, hits = compare(vectors, sources, args)
    print(f"{loss:.6f}\t{hits:.6f}")


if __name__ == "__main__":
    main()

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


class Held:
    """Runs that are held out, and their sources."""

    def __init__(self, held, by_record):
        self.runs = [run.upper() for run, _, _ in held]
        self.sources = [(number, record if by_record else 0) for _, number, record in held]

    def run_at(self, source, base):
        """The run that a base lies in, counted through the source."""
        for number, run in enumerate(self.runs):
            if self.sources[number] == source:
                if base < len(run):
                    return number
                base -= len(run)

    def size_of(self, source):
        return sum(len(r) for r, s in zip(self.runs, self.sources) if s == source)


def draw_anywhere(rng, held, source, n):
    view = (None, 0, 0)
    for _ in range(TRIES):
        run = held.run_at(source, rng.below(held.size_of(source)))
        length = min(n, len(held.runs[run]))
        view = (run, rng.below(len(held.runs[run]) - length + 1), length)
        if length == n:
            break
    return view


def draw_near(rng, held, first, n, distance):
    """None if neither side has room."""
    run, at, length = first
    gap = min(int(math.exp(rng.unit() * math.log(distance + 2)) - 1), distance)
    places = [at + length + gap, at - gap - n]
    if rng.below(2) == 1:
        places.reverse()
    for place in places:
        if 0 <= place <= len(held.runs[run]) - n:
            return (run, place, n)
    return None


def draw_pair(rng, held, window, size, args):
    """Two views as they are read."""
    lengths = [args.length[0] + rng.below(args.length[1] - args.length[0] + 1) for _ in range(2)]
    run, at = window
    room = min(size, len(held.runs[run]))
    n = min(lengths[0], room)
    first = (run, at + rng.below(room - n + 1), n)
    second = None
    if rng.unit() < args.near:
        second = draw_near(rng, held, first, lengths[1], args.distance)
    if second is None:
        second = draw_anywhere(rng, held, held.sources[run], lengths[1])
    views = []
    for number, at, n in (first, second):
        letters = held.runs[number][at : at + n]
        views.append(bits_naive.reverse_complement(letters) if rng.below(2) == 1 else letters)
        rng.next()  # what seeds the view's mutations, of which validation has none
    return views


def composition_of(model, speller, tensors, letters):
    table = tensors["word_embeddings.weight"]
    z = composition_naive.mean_of_words(letters, speller.k, speller.stride, table, speller.ids)
    return np.array(composition_naive.compose(z, tensors, model.config["layer_norm_eps"]))


def states_of(model, speller, letters):
    ids, _ = speller.ask(letters, [False] * len(letters))
    frame = int(speller.framed)
    whole = [speller.ids["[CLS]"]] * frame + ids + [speller.ids["[SEP]"]] * frame
    states = model.layers(np.array(whole))[-1][frame : frame + len(ids)]
    return states[[id != speller.ids.get("[UNK]") for id in ids]].mean(axis=0)


def compare(vectors, sources, args):
    """The loss, and the share of hits."""
    u = vectors @ vectors.T / args.temperature
    losses, hits = [], 0
    for i in range(len(u)):
        others = [j for j in range(len(u)) if sources[j] != sources[i]]
        same = [j for j in range(len(u)) if sources[j] == sources[i] and j != i]
        positives = same if args.all_positives else [i ^ 1]
        weighted = sum(math.exp((1 + args.hardness) * u[i, j]) for j in others)
        negative = len(others) * weighted / sum(math.exp(args.hardness * u[i, j]) for j in others)
        loss = math.log(sum(math.exp(u[i, p]) for p in positives) + negative)
        losses.append(loss - sum(u[i, p] for p in positives) / len(positives))
        hits += max(u[i, p] for p in positives) > max(u[i, j] for j in others)
    return math.fsum(losses) / len(u), hits / len(u)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=pathlib.Path, required=True)
    parser.add_argument("--val-fraction", type=float, required=True)
    parser.add_argument("--windows", type=int, default=512)
    parser.add_argument("--window", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", choices=("input", "record"), default="input")
    parser.add_argument("--length")
    parser.add_argument("--near", type=float, default=0.25)
    parser.add_argument("--distance", type=int, default=5000)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--hardness", type=float, default=0)
    parser.add_argument("--all-positives", action="store_true")
    parser.add_argument("genomes", nargs="+")
    args = parser.parse_args()
    args.background = []
    model = reference.Model(args.model)
    speller = bits_naive.Speller(model, args.model, args)
    size = speller.window_bases()
    lengths = [int(n) for n in args.length.split("-")] if args.length else [size]
    args.length = (lengths[0], lengths[-1])
    shortest = max(bits_naive.SHORTEST, speller.k)
    held = Held(bits_naive.split_records(args, shortest)[1], args.sources == "record")
    windows = bits_naive.all_windows(held.runs, size, args.seed)
    views, sources = [], []
    for i, number in enumerate(bits_naive.fixed_numbers(len(windows), args.windows)):
        rng = bits_naive.draw(args.seed, FIXED_PAIR, 0, i)
        views += draw_pair(rng, held, windows[number], size, args)
        sources += [held.sources[windows[number][0]]] * 2
    if "composition" in model.config["kmerformer"].get("parts", "states"):
        tensors = composition_naive.read_tensors(args.model / "model.safetensors")
        vectors = np.array([composition_of(model, speller, tensors, v) for v in views])
    else:
        vectors = np.array([states_of(model, speller, v) for v in views])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    loss, hits = compare(vectors, sources, args)
    print(f"{loss:.6f}\t{hits:.6f}")


if __name__ == "__main__":
    main()

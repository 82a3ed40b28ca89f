#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training of kmerformer pretrain, a second time in NumPy and float64: whole steps.

    scripts/pretrain_naive.py --against DIR [--init MODEL] [options] GENOME...

DIR is what `kmerformer pretrain [--init MODEL] --metrics-every 1 [options] -o DIR GENOME...` left.
The same steps are made here and compared with it: each line of metrics.tsv, but for times, and
the weights at the end. Prints the largest differences, and with -v the steps; exit status 1 if one
is above its limit, below. Options are those of pretrain; those that change no result are read and
not used. Genomes are FASTA, plain or gzip. Without --init the shape is that of DIR, and the first
weights are drawn by first_weights.py. --unvalidated: validations are not compared.

With --seeds N, DIR/1 .. DIR/N are of these seeds, and the one whose weights moved most alike is
compared; of validations, the one in the middle. For --precision bf16: where a float and a double
lie on two sides of the middle between two bfloat16, which is seldom, a factor differs as much as if
it were rounded by another rule.

It follows the man page, include/kmerformer/pretrain.h and in src/learn pretrain.h (steps, learning
rate, mixtures, validation), order.h and windows.h (which windows), views.h (pairs), drift.h,
masker.h (mutations), spans.h (masks), mlm.h (dropout, what bf16 rounds; in attention
nn/attention_train.h), contrast.h (the loss) and update.h (AdamW). Windows, spans, pairs and Markov
models are those of bits_naive.py and pairs_naive.py, the encoder is that of reference.py, gradients
are tape.py's. A sequence goes through the model alone. Needs: python3, NumPy.
"""
import argparse
import copy
import dataclasses
import math
import pathlib
import sys

import numpy as np

import bits_naive
import first_weights
import pairs_naive
import reference
import tape
import tensorfile

# What is drawn for: src/learn/windows.h.
ORDER, STRAND, SPANS, FIXED_STRAND, FIXED_SPANS, PAIR, FIXED_PAIR, LENGTH = 0, 2, 3, 4, 5, 6, 7, 8
DROPOUT, MIX = 17, 19  # src/learn/pretrain.h
VALIDATIONS = 20
GOLDEN = 0.6180339887498949
CLIP_EPSILON = 1e-6
SITES = {"attention": 0, "heads": 1, "feed-forward": 2, "embeddings": 2}
TABLE = "encoder.embed_positions.weight"  # sines, not learnt
NO_SLOPE = "attention.self.key.bias"  # softmax takes no notice of it
WORD = "embeddings.word_embeddings.weight"
DIGITS = 6e-6  # the rounding of six
# Of what is compared; of weights relative to the sum of the learning rates.
LIMITS = dict.fromkeys(("epoch", "loss", "bits", "contrast", "hits", "lr"), DIGITS)
VALIDATED = ("val_loss", "val_bits", "markov_bits", "copy_bits", "val_contrast", "val_hits")
LIMITS |= dict.fromkeys(VALIDATED, DIGITS)
LIMITS |= {"grad_norm": 3e-5, "weights": 1e-3, "lines": 0, "step": 0, "tokens": 0}
# Of a product one factor of which is not rounded as it should be, a thousandth and more is off.
LIMITS["moves"] = 4e-4


# ---------------------------------------------------------------- what is shown --------------


def order_of(seed, epoch, n):
    rng = bits_naive.Random(bits_naive.Random(seed, ORDER).next(), epoch)
    a = int(GOLDEN * n) + rng.below(n // 16 + 1)
    b = rng.below(n)
    while math.gcd(a, n) != 1:
        a += 1
    return a, b


class Relative:
    """A made-up one: cumulated chances of what becomes of the middle of three bases."""

    def __init__(self, rate, rng):
        rate *= rng.unit()
        letters = bits_naive.LETTERS
        contexts = [a + b + c for a in letters for b in letters for c in letters]
        weights = {}
        for context in contexts:
            other = bits_naive.reverse_complement(context)
            for x in letters if context <= other else "":
                w = math.exp(normal(rng)) if x != context[1] else normal(rng) * 0
                weights[context, x] = weights[other, bits_naive.reverse_complement(x)] = w
        mean = sum(weights.values()) / len(contexts)
        self.chances = {}
        for context in contexts:
            chance = {x: rate * weights[context, x] / mean for x in letters}
            total = sum(chance.values())
            if total > 0.9:
                chance = {x: p * 0.9 / total for x, p in chance.items()}
            chance[context[1]] = 1 - sum(chance.values())
            self.chances[context] = np.cumsum([chance[x] for x in letters])

    def apply(self, letters, rng):
        after = list(letters)
        for i in range(1, len(letters) - 1):
            u = rng.unit()
            upto = self.chances[letters[i - 1 : i + 2]]
            after[i] = bits_naive.LETTERS[sum(u >= p for p in upto[:3])]
        return "".join(after)


def normal(rng):
    """Twelve numbers of 16 bits."""
    draws = [rng.next() for _ in range(3)]
    total = sum(x >> shift & 0xFFFF for x in draws for shift in (0, 16, 32, 48))
    return (total - 6 * 65535) / 65536


def mutate(letters, p, rng):
    after = list(letters)
    for i, letter in enumerate(letters if p > 0 else ""):
        if rng.unit() < p:
            after[i] = bits_naive.LETTERS[(bits_naive.LETTERS.index(letter) + 1 + rng.below(3)) % 4]
    return "".join(after)


@dataclasses.dataclass
class Shown:
    """A view as the model gets it."""

    source: object
    letters: str
    soft: list
    fates: list
    ids: np.ndarray
    labels: list  # of its k-mers, None: not asked


class Show:
    """Windows and pairs of each step."""

    def __init__(self, args, speller):
        self.args, self.speller = args, speller
        self.size = speller.window_bases()
        shortest = max(bits_naive.SHORTEST, speller.k)
        learnt = bits_naive.split_records(args, shortest)[0]
        self.part = pairs_naive.Part(learnt, args.sources == "record")
        self.epochs = {}
        self.n_windows = len(bits_naive.all_windows(self.part.runs, self.size, args.seed))

    def window(self, i):
        """(epoch, place in it, number of the window, run, first base) of window i of all."""
        epoch, place = divmod(i, self.n_windows)
        if epoch not in self.epochs:
            order = order_of(self.args.seed, epoch, self.n_windows)
            windows = bits_naive.all_windows(self.part.runs, self.size, self.args.seed, epoch)
            self.epochs[epoch] = (*order, windows)
        a, b, windows = self.epochs[epoch]
        number = (a * place + b) % self.n_windows
        return epoch, place, number, *windows[number]

    def view(self, source, letters, soft, rng, relative=None, masks=True, mutates=True):
        if relative is not None:
            letters = Relative(self.args.drift_rate, relative).apply(letters, rng)
        if self.args.compares and mutates:
            letters = mutate(letters, self.args.mutations, rng)
        fates, seen = [bits_naive.VISIBLE] * len(letters), letters
        if masks:
            fates, seen = bits_naive.draw_spans(rng, letters, self.args)
        ids, labels = self.speller.ask(letters, fates, seen)
        ids = np.array(self.speller.frame_ids(ids))
        return Shown(source, letters, soft, fates, ids, labels)

    def singles(self, first, n):
        views = []
        for i in range(first, first + n):
            epoch, place, number, run, at = self.window(i)
            reverse = bits_naive.draw(self.args.seed, STRAND, epoch, number).below(2) == 1
            piece = bits_naive.read_piece(self.part.runs[run], at, self.size, reverse)
            rng = bits_naive.draw(self.args.seed, SPANS, epoch, place)
            views.append(self.view(self.part.sources[run], *piece, rng))
        return views

    def pairs(self, first, n, mixes):
        """Those of windows first .. first + n - 1."""
        views, args = [], self.args
        length = None
        if mixes:
            length = pairs_naive.draw_length(bits_naive.draw(args.seed, LENGTH, 0, first), args)
        for i in range(first, first + n):
            epoch, place, _, run, at = self.window(i)
            rng = bits_naive.draw(args.seed, PAIR, epoch, place)
            pair = pairs_naive.draw_pair(rng, self.part, (run, at), self.size, args, length)
            source, seed = self.part.sources[run], None
            if args.drift > 0 and rng.unit() < args.drift:
                source, seed = ("relative", i), rng.next()
            for view in pair:
                relative = None if seed is None else bits_naive.Random(seed, 0)
                views.append(self.view(source, *view, relative, args.asks and not mixes))
        return views


class Held:
    """What validation shows, the same each time."""

    def __init__(self, args, speller, show):
        self.args, self.speller = args, speller
        size = speller.window_bases()
        shortest = max(bits_naive.SHORTEST, speller.k)
        runs = bits_naive.split_records(args, shortest)[1]
        for number, path in enumerate(args.val_genomes):
            for record, (_, sequence) in enumerate(bits_naive.read_fasta(path)):
                whole = bits_naive.runs_of(sequence, shortest)
                runs += [(run, ("held", number), record) for run in whole]
        self.part = pairs_naive.Part(runs, args.sources == "record")
        windows = bits_naive.all_windows(self.part.runs, size, args.seed)
        numbers = bits_naive.fixed_numbers(len(windows), args.val_windows) if windows else []
        self.views, self.sources, self.pairs = [], [], []
        all_masked = copy.copy(args)
        all_masked.mask_share, all_masked.random_share = 1, 0
        for i, number in enumerate(numbers):
            run, at = windows[number]
            source = self.part.sources[run]
            if args.asks:
                reverse = bits_naive.draw(args.seed, FIXED_STRAND, 0, number).below(2) == 1
                letters, soft = bits_naive.read_piece(self.part.runs[run], at, size, reverse)
                rng = bits_naive.draw(args.seed, FIXED_SPANS, 0, i)
                fates, seen = bits_naive.draw_spans(rng, letters, all_masked)
                ids, labels = speller.ask(letters, fates, seen)
                ids = np.array(speller.frame_ids(ids))
                self.views.append(Shown(source, letters, soft, fates, ids, labels))
            if args.compares:
                rng = bits_naive.draw(args.seed, FIXED_PAIR, 0, i)
                pair = pairs_naive.draw_pair(rng, self.part, windows[number], size, args)
                self.pairs += [
                    show.view(source, letters, soft, rng, mutates=False, masks=False)
                    for letters, soft, rng in pair
                ]
        self.baselines = self.ask_others(show.part.runs) if self.views else {}

    def ask_others(self, learnt):
        """Bits of the best Markov model, and of copying."""
        markov = bits_naive.Markov(learnt)
        bits, copied, n = dict.fromkeys(bits_naive.ORDERS, 0), 0, 0
        for view in self.views:
            starts = self.speller.starts(len(view.letters))
            shown = [self.speller.tokens[id] not in ("[MASK]", "[UNK]") for id in view.ids]
            shown = shown[int(self.speller.framed) :]
            for i in (i for i, fate in enumerate(view.fates) if fate):
                covering = [j for j, s in enumerate(starts) if s <= i < s + self.speller.k]
                if all(view.labels[j] is None for j in covering):
                    continue
                n += 1
                copied += 0 if any(shown[j] for j in covering) else 2
                for order in bits:
                    bits[order] += markov.bits(order, view.letters, i)
        return {"markov_bits": min(bits.values()) / n, "copy_bits": copied / n}


# ---------------------------------------------------------------- the model ------------------


class Learner(reference.Model):
    """Weights that have gradients."""

    def __init__(self, directory, args):
        super().__init__(directory)
        if not args.init:
            tokens = (directory / "vocab.txt").read_text().splitlines()
            drawn = first_weights.begin(self.config, tokens, args.seed, args.words)
            self.tensors |= {name: value.astype(float) for name, value in drawn.items()}
        self.family = dataclasses.replace(
            self.family, activation=tape.gelu, head_activation=tape.gelu
        )
        self.p = args.dropout
        self.rounds = args.precision == "bf16"
        # of dropout: the key of the piece, the sequence's number in it and its first row
        self.key, self.sequence, self.row = 0, 0, 0
        self.tensors = {
            name: value if name == TABLE else tape.Value(value)
            for name, value in self.tensors.items()
        }
        args.parts = args.parts or self.config["kmerformer"].get("parts", "states")
        composes = "composition" in args.parts and args.compares
        encoder = args.asks or not composes
        self.learnt = [
            name
            for name in self.tensors
            if name != TABLE and (composes if name.startswith("composition.") else encoder)
        ]

    def turn(self, x, cos, sin):
        """The second of a pair and the first, with its sign turned, are had by a product."""
        n = x.shape[1]
        swap = np.zeros((n, n))
        for i in range(0, n, 2):
            swap[i + 1, i], swap[i, i + 1] = -1, 1
        return x * np.repeat(cos, 2, axis=1) + x @ swap * np.repeat(sin, 2, axis=1)

    def multiply(self, a, b):
        """With bf16 all factors are rounded, those of the gradients' products too."""
        if not self.rounds:
            return a @ b
        x, y = bfloat16(tape.array_of(a)), bfloat16(tape.array_of(b))
        ways = [(a, lambda g: bfloat16(g) @ y.T), (b, lambda g: x.T @ bfloat16(g))]
        return tape.Value(x @ y, ways)

    def weigh(self, scores, v, layer, head):
        """The weights that meet v are rounded before they are divided by their sum, and those of
        v's gradient behind it."""
        if not self.rounds:
            return super().weigh(scores, v, layer, head)
        kept = self.kept(scores.shape, "attention", layer, head)
        weights = np.exp(scores.array - scores.max(axis=1, keepdims=True))
        total = weights.sum(axis=1, keepdims=True)
        p, values = weights / total, bfloat16(v.array)
        y = bfloat16(kept * weights) @ values / total

        def by_scores(g):
            by_weights = kept * (bfloat16(g) @ values.T)
            return p * (by_weights - (g * y).sum(axis=1, keepdims=True))

        by_values = lambda g: bfloat16(kept * p).T @ bfloat16(g)
        return tape.Value(y, [(scores, by_scores), (v, by_values)])

    def drop(self, x, what, layer=None, head=0):
        return x if self.p == 0 else x * self.kept(x.shape, what, layer, head)

    def kept(self, shape, what, layer, head):
        """What dropout multiplies by."""
        if self.p == 0:
            return 1
        rows, width = shape
        n = self.config["num_hidden_layers"] if layer is None else int(layer.split(".")[-1])
        rng = bits_naive.Random(self.key, n * 3 + SITES[what])
        first = self.row * width
        if what == "attention":
            rng.state += self.sequence * bits_naive.GAMMA
            first = head * rows * rows
        return dropout_factors(rng.next(), first, self.p, rows * width).reshape(rows, width)

    def composition(self, ids):
        """Of sequences, by the numbers of their k-mers."""
        table = self.tensors["composition.word_embeddings.weight"]
        z = np.stack([table[one].mean(axis=0) for one in ids])
        u = self.norm(z, "composition.LayerNorm")
        rounds, self.rounds = self.rounds, False  # it is no part of the encoder
        h = tape.gelu(self.linear(u, "composition.intermediate.dense"))
        c = u + self.linear(h, "composition.output.dense")
        self.rounds = rounds
        return c


def bfloat16(x):
    """The nearest ones, of two the even one, of numbers that are floats before."""
    bits = x.astype(np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def dropout_factors(key, first, p, n):
    assert first + n <= 2**31
    words = bits_naive.Random(key, 0).next()
    a, b = np.uint32(words & 0xFFFFFFFF), np.uint32(words >> 32)
    z = np.arange(first, first + n, dtype=np.uint32) + a
    z = (z ^ z >> np.uint32(16)) * np.uint32(0x7FEB352D) + b
    z = (z ^ z >> np.uint32(15)) * np.uint32(0x846CA68B)
    return np.where(z < int(p * 2**32), 0, 1 / (1 - p))


# ---------------------------------------------------------------- steps ----------------------


def rate_of(args, step):
    """Of step 1 .. steps."""
    rise = math.floor(args.warmup * args.steps)
    if step <= rise:
        return args.lr * step / rise
    done = (step - rise) / (args.steps - rise + 1)
    falls = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1}
    return args.lr * falls[args.schedule]


def greatest(x, counted):
    """Column by column; the first of several has the gradient."""
    rows = np.array(counted)[x.array[counted].argmax(axis=0)]
    return x[rows, np.arange(x.shape[1])]


# Vectors of the states of a sequence: x [tokens, D], and which of them are counted.
POOLS = {
    "mean": lambda x, counted: x[counted].mean(axis=0),
    "max": greatest,
    "cls": lambda x, counted: x[0],
    "mean-all": lambda x, counted: x.mean(axis=0),
}


class Trainer:
    def __init__(self, args):
        self.args = args
        directory = args.init or args.against
        self.model = Learner(directory, args)
        self.speller = bits_naive.Speller(self.model, directory, args)
        args.length = pairs_naive.lengths_of(args.length, self.speller.window_bases())
        self.show = Show(args, self.speller)
        self.held = Held(args, self.speller, self.show)
        self.piece = args.batch // (args.shards * args.accumulate)
        per_step = args.batch // (2 if args.compares else 1)
        if args.epochs:
            args.steps = math.ceil(args.epochs * self.show.n_windows / per_step)
        args.val_every = args.val_every or math.ceil(args.steps / VALIDATIONS)
        self.per_epoch = self.show.n_windows / per_step  # steps
        self.m = {name: 0 for name in self.model.learnt}
        self.v = {name: 0 for name in self.model.learnt}
        self.tokens = 0
        self.before = {name: tape.array_of(w) for name, w in self.model.tensors.items()}

    def mixture(self, step, first, views):
        """Layer, partners and shares of a piece."""
        rng = bits_naive.draw(self.args.seed, MIX, step, 1 + first)
        layer = rng.below(self.model.config["num_hidden_layers"])
        longest = max(len(view.letters) for view in views)
        mixed = [i for i in range(0, len(views), 2) if len(views[i].letters) == longest]
        partners, shares, left = list(range(len(views))), [1] * len(views), list(mixed)
        for i in mixed:
            at = rng.below(len(left))
            partners[i] = left[at]
            left[at] = left[-1]
            left.pop()
            shares[i] = rng.unit()
        return layer, partners, shares

    def states(self, views, mixture=None):
        """The last layer's, of each view of a piece."""
        model = self.model

        def through(function, xs):
            out, model.row = [], 0
            for model.sequence, x in enumerate(xs):
                out.append(function(x))
                model.row += len(x)
            return out

        xs = through(lambda ids: model.embed(ids, len(ids)), [view.ids for view in views])
        for n in range(model.config["num_hidden_layers"]):
            if mixture and mixture[0] == n:
                _, partners, shares = mixture
                xs = [
                    x if partners[i] == i else shares[i] * x + (1 - shares[i]) * xs[partners[i]]
                    for i, x in enumerate(xs)
                ]
            xs = through(lambda x: model.block(x, n, np.zeros(len(x))), xs)
        return xs

    def ask(self, states, view):
        """Sums over the labelled k-mers of a view: loss and weight; bits and their bases."""
        asked = [j for j, label in enumerate(view.labels) if label is not None]
        if not asked:
            return 0, 0, 0, 0
        args, speller = self.args, self.speller
        rows = [int(speller.framed) + j for j in asked]
        logits = self.model.logits(states[rows])
        p = reference.softmax(logits)
        right = p[np.arange(len(asked)), [view.labels[j] for j in asked]]
        starts = speller.starts(len(view.letters))
        weights = np.array(
            [speller.weight(starts[j], view.fates, view.soft, args.softmask) for j in asked]
        )
        of_kmer = dict(zip(asked, p.array))
        hidden = [i for i, fate in enumerate(view.fates) if fate]
        bits = [speller.bits(of_kmer, view.letters, i) for i in hidden]
        bits = [x for x in bits if x is not None]
        return -(np.log(right) * weights).sum(), weights.sum(), sum(bits), len(bits)

    def vectors(self, states, views):
        counted = [pairs_naive.counted(self.speller, view.ids) for view in views]
        if states is None:
            return self.model.composition([view.ids[at] for view, at in zip(views, counted)])
        pool = POOLS[self.model.config["kmerformer"]["pooling"]]
        return np.stack([pool(x, at) for x, at in zip(states, counted)])

    def step(self, step):
        """Step 0 and on; the line of the metrics."""
        args = self.args
        sums, sources, vectors, partners, shares = [0] * 4, [], [], [], []
        draw = bits_naive.draw(args.seed, MIX, step, 0).unit()
        mixes = args.compares and draw < args.mix
        composes = args.compares and "composition" in args.parts
        for at in range(0, args.batch, self.piece):
            first = step * args.batch + at
            mixture, states = None, None
            if args.compares:
                views = self.show.pairs(first // 2, self.piece // 2, mixes)
            else:
                views = self.show.singles(first, self.piece)
            if mixes:
                mixture = self.mixture(step, first, views)
                partners += [at + i for i in mixture[1]]
                shares += mixture[2]
            if args.asks or not composes:
                self.model.key = bits_naive.draw(args.seed, DROPOUT, step, first).next()
                states = self.states(views, mixture)
            for i, view in enumerate(views if args.asks else []):
                sums = [a + b for a, b in zip(sums, self.ask(states[i], view))]
            if args.compares:
                vectors.append(self.vectors(None if composes else states, views))
                sources += [view.source for view in views]
            self.tokens += sum(len(view.ids) for view in views)
        line = {"step": step + 1, "epoch": (step + 1) / self.per_epoch, "tokens": self.tokens}
        loss, weight, bits, hidden = sums
        total = loss / weight if weight > 0 else 0
        line["loss"] = total.array if weight > 0 else None
        line["bits"] = bits / hidden if hidden else None
        line["contrast"] = line["hits"] = None
        if args.compares:
            vectors = np.concatenate(vectors)
            mixture = (partners, shares) if mixes else None
            contrast, line["hits"] = pairs_naive.compare(vectors, sources, args, mixture)
            line["contrast"] = contrast.array
            total = total + args.contrast * contrast
        self.update(line, total, weight if weight > 0 else 1, step + 1)
        line |= dict.fromkeys(VALIDATED)
        if (step + 1) % args.val_every == 0 or step + 1 == args.steps:
            line |= self.validate()
        return line

    def validate(self):
        """By the weights after a step, with nothing dropped."""
        args, model, line = self.args, self.model, {}
        model.p = 0
        if self.held.views:
            sums = [self.ask(self.states([view])[0], view) for view in self.held.views]
            loss, weight, bits, hidden = (sum(of_all) for of_all in zip(*sums))
            loss = float(tape.array_of(loss))
            line |= {"val_loss": loss / weight if weight > 0 else None, "val_bits": bits / hidden}
            line |= self.held.baselines
        if self.held.pairs:
            views, states = self.held.pairs, None
            if "composition" not in args.parts:
                states = [self.states([view])[0] for view in views]
            vectors = tape.array_of(self.vectors(states, views))
            sources = [view.source for view in views]
            line["val_contrast"], line["val_hits"] = pairs_naive.compare(vectors, sources, args)
        model.p = args.dropout
        return line

    def update(self, line, total, weight, t):
        """The way back begins with sums: that what is rounded is the same."""
        args = self.args
        learnt = {name: self.model.tensors[name] for name in self.model.learnt}
        for w in learnt.values():
            w.gradient = np.zeros(w.shape)
        if isinstance(total, tape.Value):
            tape.backward(total * weight)
        for w in learnt.values():
            w.gradient = w.gradient / weight
        norm = math.sqrt(sum((w.gradient**2).sum() for w in learnt.values()))
        clip = min(1, args.clip / (norm + CLIP_EPSILON)) if args.clip > 0 else 1
        rate = rate_of(args, t)
        line["lr"], line["grad_norm"] = rate, norm
        for name, w in learnt.items():
            g = clip * w.gradient
            m = self.m[name] = args.beta1 * self.m[name] + (1 - args.beta1) * g
            v = self.v[name] = args.beta2 * self.v[name] + (1 - args.beta2) * g**2
            decay = args.decay if len(w.shape) == 2 else 0
            root = np.sqrt(v / (1 - args.beta2**t)) + args.epsilon
            after = w.array - rate * decay * w.array - rate * m / (1 - args.beta1**t) / root
            self.model.tensors[name] = tape.Value(after)


# ---------------------------------------------------------------- comparing ------------------


def read_metrics(path):
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def far(ours, theirs):
    """ours: a number or None; theirs: as the program writes it."""
    if ours is None or theirs == "NA":
        return 0 if ours is None and theirs == "NA" else math.inf
    ours = float(ours)
    return abs(ours - float(theirs)) / max(abs(ours), 1e-3)


def compare(trainer, lines, directory):
    """{what: largest difference}; of weights, relative to the rate of all steps, and where factors
    are rounded, also to how far each tensor moved."""
    theirs = read_metrics(directory / "metrics.tsv")
    worst = {"lines": 0 if len(theirs) == len(lines) else math.inf, "weights": 0, "moves": 0}
    for a, b in zip(lines, theirs):
        for name in (name for name in a if trainer.args.validated or name not in VALIDATED):
            worst[name] = max(worst.get(name, 0), far(a[name], b[name]))
    total = sum(line["lr"] for line in lines)
    for name, value in tensorfile.read_model(directory).items():
        name = reference.plain_name(name)
        if name != TABLE:
            difference = tape.array_of(trainer.model.tensors[name]) - value
            size = math.sqrt((difference**2).mean())
            worst["weights"] = max(worst["weights"], size / total)
            move = math.sqrt(((value - trainer.before[name]) ** 2).mean())
            if trainer.model.rounds and move > 0 and not name.endswith(NO_SLOPE):
                worst["moves"] = max(worst["moves"], size / move)
    return worst


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--against", type=pathlib.Path, required=True)
    parser.add_argument("--init", type=pathlib.Path)
    parser.add_argument("--preset")
    parser.add_argument("-k", "--kmer")
    parser.add_argument("--words", default="letters")
    parser.add_argument("--composition")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--objective", choices=("masked", "contrastive", "both"), default="masked")
    parser.add_argument("--parts")
    for name in ("steps", "window", "stride", "threads", "val-every"):
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--val-windows", type=int, default=512)
    parser.add_argument("--unvalidated", dest="validated", action="store_false")
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--val", default="")
    parser.add_argument("--val-genome")
    parser.add_argument("--val-fraction", type=float, default=0)
    parser.add_argument("--mask-rate", type=float, default=0.15)
    parser.add_argument("--mask-span", default="1-3")
    parser.add_argument("--mask-share", type=float, default=0.8)
    parser.add_argument("--random-share", type=float, default=0.1)
    parser.add_argument("--softmask", type=float, default=1)
    pairs_naive.add_pair_options(parser)
    for name in ("mutations", "drift", "mix", "dropout"):
        parser.add_argument("--" + name, type=float, default=0)
    parser.add_argument("--drift-rate", type=float, default=0.3)
    parser.add_argument("--contrast", type=float, default=1)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--warmup", type=float, default=0.05)
    parser.add_argument("--schedule", choices=("cosine", "linear", "constant"), default="cosine")
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--beta1", type=float, default=0.9)
    parser.add_argument("--beta2", type=float, default=0.98)
    parser.add_argument("--epsilon", type=float, default=1e-6)
    parser.add_argument("--clip", type=float, default=1)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("genomes", nargs="+")
    args = parser.parse_args()
    span = [int(n) for n in args.mask_span.split("-")]
    args.mask_span = (span[0], span[-1])
    args.background, args.val = [], args.val.split(",")
    args.val_genomes = args.val_genome.split(",") if args.val_genome and args.validated else []
    args.asks = args.objective != "contrastive"
    args.compares = args.objective != "masked"
    return args


def train(args):
    """What compare says of a training."""
    trainer = Trainer(args)
    lines = []
    for step in range(args.steps):
        lines.append(trainer.step(step))
        if args.verbose:
            print(lines[-1])
    return compare(trainer, lines, args.against)


def main():
    args = parse()
    if args.seeds:
        trainings = [copy.copy(args) for _ in range(args.seeds)]
        for i, one in enumerate(trainings):
            one.seed, one.against = i + 1, args.against / str(i + 1)
        all_worst = [train(one) for one in trainings]
        worst = min(all_worst, key=lambda one: (one["moves"], one["grad_norm"]))
        worst |= {name: np.median([one.get(name, 0) for one in all_worst]) for name in VALIDATED}
    else:
        worst = train(args)
    print("\t".join(f"{name} {value:.1e}" for name, value in worst.items() if value > 0))
    bad = [name for name, value in worst.items() if not value <= LIMITS[name]]
    if bad:
        print("above the limit:", *bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The contrastive loss of pairs a second time, in PyTorch, for its golden numbers.

  contrast_reference.py            writes tests/golden/contrast anew
  contrast_reference.py -o DIR     the same into DIR
  contrast_reference.py --check    is this program right, are the files in DIR what it makes?

roformer.json, on the random model tests/golden/roformer (pretrain_reference.py has its encoder).
Everything is in float64; a sequence goes through alone, so there is no padding and no mask, but
for those that are mixed, which go side by side to the layer before which they are. Views 2i and
2i + 1 are a pair. A vector v is pooled from the last layer's states, or it is the composition of
the sequence, which the encoder has no part in:

  z = the mean of the table's rows of its tokens    u = LN(z)    v = u + W2 gelu(W1 u + b1) + b2

  z_i = v_i / |v_i|        u_ij = z_i . z_j / temperature
  L_i = ln( exp(u_ip) + N_i ) - u_ip                          p: the other view of the pair
  N_i = n sum_j exp((1 + h) u_ij) / sum_j exp(h u_ij)         over the n views of other sources

and the loss is the mean over all views i. Mixed, the even views alone are anchors and the odd ones
keys; view i is a_i x_i + (1 - a_i) x_r before a layer, r its partner; with q = r + 1

  L_i = ln( exp(u_ip) + exp(u_iq) + N_i ) - a_i u_ip - (1 - a_i) u_iq

where views of the partner's source are not among the n either. A view that is its own partner is
as above. A hit is an anchor whose pair (mixed, with a share below 1/2: its partner's) is more alike
than all the n.

The model has no composition. The seven tensors of one of C numbers, in the order of their names n =
1 .. 7, are filled by a rule that is exact in any precision, element i in row-major order being

  ((i + n)^3 mod 1013 - 506) / 1024        and 1 more in LayerNorm.weight

roformer.json:

  "model"     directory of the model
  "unknown"   id of the token that is no k-mer
  "cases"     each with
    "name"
    "batch"         "offsets" [views + 1], "ids" and "labels" [offsets[views]]; -1: no label
    "sources"       [views]
    "temperature", "hardness"
    "pooling"       mean: over the tokens between the first and the last that are not unknown,
                    max: the greatest of those, mean-all: the mean over all, cls: the first
    "composition"   C, if the vectors are compositions: pooling mean; 0: they are pooled states
    "all_positives" whether all views of a source are positives, or the pair alone
    "mix"           null, or "layer", "partner" and "share" [views]
    "weight"        what the contrastive loss counts in the total
    "contrast"      the loss
    "hits"          views of which a positive is more alike than all of other sources
    "nll"           sum of -log softmax(logits)[label] over the labelled tokens
    "gradient"      tensor -> [its norm, its dot product with d], d_i = sin(0.7 i + 1), i the index
                    in row-major order: of the gradient of weight * contrast + nll

Everything is seeded and runs on one thread. Needs: python3, NumPy, PyTorch (Debian:
python3-numpy, python3-torch).
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

import pretrain_reference as base

GOLDEN = base.GOLDEN
MODEL = "roformer"
UNKNOWN = 1
SOURCES = [0, 0, 1, 1, 2, 2, 0, 0, 3, 3, 4, 4]
PARTNER = [4, 1, 2, 3, 6, 5, 0, 7, 10, 9, 8, 11]  # view 2 is its own
SHARE = [0.7, 1.0, 0.2, 1.0, 0.55, 1.0, 0.9, 1.0, 0.01, 1.0, 0.4, 1.0]

# name, seed, temperature, hardness, pooling, layer of the mixture, tokens with a label, weight,
# all of a source are positives, numbers of a composition
CASES = [
    ("mean", 1, 0.05, 0.0, "mean", None, False, 1.0),
    ("mean, hard", 2, 0.1, 0.7, "mean", None, False, 1.0),
    ("cls, mixed", 3, 0.2, 0.0, "cls", 1, False, 1.0),
    ("max", 4, 0.1, 0.0, "max", None, False, 1.0),
    ("mean-all, both", 5, 0.07, 0.3, "mean-all", None, True, 0.5),
    ("mean, mixed, hard", 6, 0.1, 1.5, "mean", 0, False, 1.0),
    ("all of a source", 617, 0.15, 0.4, "mean", None, False, 2.0, True),
    ("composition", 8, 0.1, 0.0, "mean", None, False, 1.0, False, 6),
    ("composition, all of a source", 9, 0.2, 0.0, "mean", None, False, 1.5, True, 6),
    ("composition, both, hard", 10, 0.15, 0.5, "mean", None, True, 10.0, False, 6),
]


# ---------------------------------------------------------------- the loss -------------------


def composition_weights(C, vocab_size, dtype):
    hidden = 4 * C
    shapes = {
        "composition.LayerNorm.bias": (C,),
        "composition.LayerNorm.weight": (C,),
        "composition.intermediate.dense.bias": (hidden,),
        "composition.intermediate.dense.weight": (hidden, C),
        "composition.output.dense.bias": (C,),
        "composition.output.dense.weight": (C, hidden),
        "composition.word_embeddings.weight": (vocab_size, C),
    }
    weights = {}
    for n, (name, shape) in enumerate(sorted(shapes.items()), 1):
        i = np.arange(math.prod(shape), dtype=np.int64)
        values = ((i + n) ** 3 % 1013 - 506) / 1024.0
        values += 1.0 if name.endswith("LayerNorm.weight") else 0.0
        weights[name] = torch.tensor(values.reshape(shape), dtype=dtype, requires_grad=True)
    return weights


class Encoder(base.Roformer):
    """The encoder, block by block, so that states can be mixed between two of them."""

    def __init__(self, composition=0):
        super().__init__(GOLDEN / MODEL, torch.float64)
        if composition > 0:
            more = composition_weights(composition, self.config["vocab_size"], self.dtype)
            self.weights.update(more)

    def embedded(self, ids):
        x = self.weights[base.WORD][ids] + self.weights[base.TYPE][0]
        x = self.norm(x, "roformer.embeddings.LayerNorm")
        return self.linear(x, "roformer.embeddings_project")

    def block(self, x, n):
        layer = f"roformer.encoder.layer.{n}"
        a = self.linear(self.attention(x, layer), f"{layer}.attention.output.dense")
        x = self.norm(x + a, f"{layer}.attention.output.LayerNorm")
        f = F.gelu(self.linear(x, f"{layer}.intermediate.dense"))
        return self.norm(x + self.linear(f, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")

    def states(self, sequences, mix):
        """The last layer's states of each sequence."""
        x = [self.embedded(torch.tensor(ids)) for ids in sequences]
        for n in range(self.config["num_hidden_layers"]):
            if mix and mix["layer"] == n:
                pairs = zip(x, mix["partner"], mix["share"])
                x = [a * own + (1.0 - a) * x[r] if a < 1.0 else own for own, r, a in pairs]
            x = [self.block(one, n) for one in x]
        return x

    def composition(self, ids):
        """Of one sequence."""
        words = self.weights["composition.word_embeddings.weight"]
        u = self.norm(words[torch.tensor(ids)[counted(ids)]].mean(dim=0), "composition.LayerNorm")
        h = self.linear(u, "composition.intermediate.dense")
        return u + self.linear(F.gelu(h), "composition.output.dense")


def counted(ids):
    """Places of the k-mers in a sequence."""
    return [t for t in range(1, len(ids) - 1) if ids[t] != UNKNOWN]


def pool(x, ids, pooling):
    inner = counted(ids)
    if pooling == "cls":
        return x[0]
    if pooling == "mean-all":
        return x.mean(dim=0)
    return x[inner].amax(dim=0) if pooling == "max" else x[inner].mean(dim=0)


def vectors_of(model, states, case):
    sequences = sequences_of(case)
    if case["composition"]:
        return [model.composition(ids) for ids in sequences]
    return [pool(x, ids, case["pooling"]) for x, ids in zip(states, sequences)]


def contrast(vectors, case):
    """The loss, and the number of hits."""
    sources, mix = case["sources"], case["mix"]
    n, h = len(sources), case["hardness"]
    z = torch.stack([v / torch.sqrt((v**2).sum()) for v in vectors])
    u = z @ z.T / case["temperature"]
    losses, hits = [], 0
    for i in range(0, n, 2 if mix else 1):
        keys = range(1, n, 2) if mix else [j for j in range(n) if j != i]
        pair, share, own = [i ^ 1], [1.0], {sources[i]}
        if mix and mix["partner"][i] != i:
            pair.append(mix["partner"][i] + 1)
            share = [mix["share"][i], 1.0 - mix["share"][i]]
            own.add(sources[mix["partner"][i]])
        if case["all_positives"]:
            pair = [j for j in range(n) if j != i and sources[j] == sources[i]]
            share = [1.0 / len(pair)] * len(pair)
        others = u[i, [j for j in keys if sources[j] not in own]]
        like = u[i, pair]
        crowd = len(others) * torch.exp((1.0 + h) * others).sum() / torch.exp(h * others).sum()
        wanted = (torch.tensor(share, dtype=u.dtype) * like).sum()
        losses.append(torch.log(torch.exp(like).sum() + crowd) - wanted)
        hits += bool(like.max() > others.max())
    return torch.stack(losses).mean(), hits


def sequences_of(case):
    offsets = case["batch"]["offsets"]
    return [case["batch"]["ids"][a:b] for a, b in zip(offsets, offsets[1:])]


def losses_of(model, case):
    """Contrastive loss, sum of -log p, hits."""
    states = model.states(sequences_of(case), case["mix"])
    labels = torch.tensor(case["batch"]["labels"])
    rows = labels != base.NO_LABEL
    nll = torch.zeros((), dtype=model.dtype)
    if rows.any():
        logits = model.logits(torch.cat(states)[rows])
        nll = F.cross_entropy(logits, labels[rows], reduction="sum")
    loss, hits = contrast(vectors_of(model, states, case), case)
    return loss, nll, hits


def total(model, case):
    loss, nll, _ = losses_of(model, case)
    return case["weight"] * loss + nll


# ---------------------------------------------------------------- cases ----------------------


def make_case(
    name,
    seed,
    temperature,
    hardness,
    pooling,
    layer,
    labelled,
    weight,
    all_positives=False,
    composition=0,
):
    """Views that are mixed have one length. The pair of a view shares half of its k-mers."""
    random = np.random.RandomState(seed)
    ids, offsets, of_source = [], [0], {}
    for view, source in enumerate(SOURCES):
        length = 14 if layer is not None and view % 2 == 0 else int(random.randint(5, 25))
        common = of_source.setdefault(source, random.randint(base.FIRST_KMER, 1029, 10))
        any_one = random.randint(base.FIRST_KMER, 1029, length)
        kmers = np.where(random.rand(length) < 0.5, random.choice(common, length), any_one)
        kmers[1::7] = UNKNOWN
        ids += [base.CLS, *kmers.tolist(), base.SEP]
        offsets.append(len(ids))
    labels = [base.NO_LABEL] * len(ids)
    inner = [i for i in range(len(ids)) if ids[i] >= base.FIRST_KMER]
    for place in random.permutation(inner)[: 24 if labelled else 0].tolist():
        labels[place] = ids[place]
        ids[place] = base.MASK
    mix = None if layer is None else {"layer": layer, "partner": PARTNER, "share": SHARE}
    return {
        "name": name,
        "batch": {"offsets": offsets, "ids": ids, "labels": labels},
        "sources": SOURCES,
        "temperature": temperature,
        "hardness": hardness,
        "pooling": pooling,
        "mix": mix,
        "composition": composition,
        "all_positives": all_positives,
        "weight": weight,
    }


def gradient(model, case):
    """{name: array}; 0 where the total does not hang on a tensor."""
    weights = model.weights
    grads = torch.autograd.grad(total(model, case), list(weights.values()), allow_unused=True)
    pairs = zip(weights.items(), grads)
    return {
        name: np.zeros(tuple(w.shape)) if g is None else g.numpy() for (name, w), g in pairs
    }


def digest(values):
    flat = values.ravel()
    way = np.sin(0.7 * np.arange(flat.size) + 1.0)
    return [float(np.linalg.norm(flat)), float(flat @ way)]


def make_golden():
    cases = []
    for line in CASES:
        case = make_case(*line)
        model = Encoder(case["composition"])
        loss, nll, hits = losses_of(model, case)
        grads = gradient(model, case)
        case.update(contrast=loss.item(), hits=hits, nll=nll.item())
        case["gradient"] = {name: digest(values) for name, values in grads.items()}
        cases.append(case)
    return {"model": f"tests/golden/{MODEL}", "unknown": UNKNOWN, "cases": cases}


# ---------------------------------------------------------------- check ----------------------


def check_vectors(report):
    """Pooled by the published code, as the model's own golden file has it."""
    model = Encoder()
    expected = json.loads((GOLDEN / MODEL / "expected.json").read_text())
    worst = 0.0
    for case in expected["cases"]:
        ids = case["input_ids"]
        with torch.no_grad():
            (x,) = model.states([ids], None)
            for pooling, key in (("cls", "cls"), ("mean-all", "mean_all")):
                difference = pool(x, ids, pooling).numpy() - case["f64"][key]
                worst = max(worst, np.abs(difference).max())
    report.line("float64 vectors of expected.json", worst, 1e-6)


def check_plain(report, case):
    """Hardness 0, not mixed: PyTorch's cross-entropy over the pair and the others."""
    model = Encoder(case["composition"])
    with torch.no_grad():
        vectors = vectors_of(model, model.states(sequences_of(case), None), case)
        z = F.normalize(torch.stack(vectors))
        n, sources = len(vectors), torch.tensor(case["sources"])
        same = (sources[:, None] == sources[None, :]).logical_or(torch.eye(n, dtype=bool))
        pair = torch.arange(n) ^ 1
        same[torch.arange(n), pair] = False
        logits = (z @ z.T / case["temperature"]).masked_fill(same, -math.inf)
        found = F.cross_entropy(logits, pair).item()
    report.line("loss by cross-entropy", abs(found - case["contrast"]), 1e-12)


def check_composition(report, case):
    """Number by number, without PyTorch."""
    model = Encoder(case["composition"])
    table, w1, w2, scale = (
        model.weights[f"composition.{name}.weight"].detach().numpy()
        for name in ("word_embeddings", "intermediate.dense", "output.dense", "LayerNorm")
    )
    b1, b2, shift = (
        model.weights[f"composition.{name}.bias"].detach().numpy()
        for name in ("intermediate.dense", "output.dense", "LayerNorm")
    )
    C, worst = case["composition"], 0.0
    for ids in sequences_of(case):
        rows = [table[t] for t in ids[1:-1] if t != UNKNOWN]
        z = [sum(row[i] for row in rows) / len(rows) for i in range(C)]
        mean = sum(z) / C
        variance = sum((x - mean) ** 2 for x in z) / C
        root = math.sqrt(variance + model.config["layer_norm_eps"])
        u = [(z[i] - mean) / root * scale[i] + shift[i] for i in range(C)]
        h = [b1[j] + sum(w1[j, i] * u[i] for i in range(C)) for j in range(4 * C)]
        g = [x * (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0 for x in h]
        c = [u[i] + b2[i] + sum(w2[i, j] * g[j] for j in range(4 * C)) for i in range(C)]
        with torch.no_grad():
            worst = max(worst, np.abs(model.composition(ids).numpy() - c).max())
    report.line("compositions by their formula", worst, 1e-13)


def check_gradient(report, case):
    """A way through each tensor, by difference quotients of the fourth order.

    The greatest of several numbers has kinks, which short steps do not come upon.
    """
    kinks = case["pooling"] == "max"
    length, limit = (1e-4, 1e-6) if kinks else (1e-2, 1e-8)
    model = Encoder(case["composition"])
    model.loss = lambda batch: total(model, case)
    random = np.random.RandomState(8)
    worst = 0.0
    grads = gradient(model, case)
    size = math.sqrt(sum((g**2).sum() for g in grads.values()))
    for tensor, grad in grads.items():
        way = random.standard_normal(grad.shape)
        way *= length / np.linalg.norm(way)
        found = base.slope(model, None, tensor, torch.tensor(way))
        worst = max(worst, abs(found - (way * grad).sum()) / (length * size))
    report.line("gradient, directions by differences", worst, limit)


def check(directory):
    golden = make_golden()
    stored = json.loads((directory / f"{MODEL}.json").read_text())
    report = base.Report(MODEL)
    good = True
    check_vectors(report)
    report.line("cases missing", abs(len(golden["cases"]) - len(stored["cases"])), 0.0)
    good = good and report.good
    for case, old in zip(golden["cases"], stored["cases"]):
        report = base.Report(case["name"])
        if case["hardness"] == 0.0 and not case["mix"] and not case["all_positives"]:
            check_plain(report, case)
        if case["composition"]:
            check_composition(report, case)
        check_gradient(report, case)
        made = ("contrast", "nll", "gradient")
        differ = sum(case[key] != old[key] for key in case if key not in made)
        report.line("stored settings, batches and hits that differ", differ, 0.0)
        error = max(abs(case[key] - old[key]) / (1e-300 + abs(old[key])) for key in made[:2])
        for tensor, (norm, dot) in case["gradient"].items():
            right = old["gradient"][tensor]
            scale = right[0] if right[0] > 0.0 else 1.0
            error = max(error, abs(norm - right[0]) / scale, abs(dot - right[1]) / scale)
        report.line("stored losses and gradients", error, 1e-9)
        good = good and report.good
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument(
        "-o", dest="directory", metavar="DIR", type=pathlib.Path, default=GOLDEN / "contrast"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        return check(args.directory)
    args.directory.mkdir(parents=True, exist_ok=True)
    (args.directory / f"{MODEL}.json").write_text(base.json_text(make_golden()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

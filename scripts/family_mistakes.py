# SPDX-License-Identifier: MIT
"""What common mistakes do to the numbers of a model: a table for golden_families.py.

A mistake is a change of scripts/reference.py's model: of the facts of its family, or of its
tensors as if they were read or used wrongly. Needs: python3, numpy.
"""
import collections
import copy
import dataclasses
import json
import math
import re

import numpy as np

import reference

# What float32 is allowed to differ by, and how many times that a mistake has to show.
TOLERANCE = {"hidden": 1e-4, "pooler": 1e-4, "logits": 2e-4}
SHOWN = 10.0

# ---------------------------------------------------------------- changes --------------------


class Mistaken(reference.Model):
    """A model with an eps of its own in some norms."""

    wrong_eps = None
    wrong_norms = r"$."

    def norm(self, x, name, eps=None):
        wrong = re.search(self.wrong_norms, name)
        return super().norm(x, name, self.wrong_eps if wrong else eps)


def changed(model, tensors=None, **facts):
    """The model with other tensors (None: without) and other facts of its family."""
    other = copy.copy(model)
    tensors = {**model.tensors, **(tensors or {})}
    other.tensors = {name: value for name, value in tensors.items() if value is not None}
    other.family = dataclasses.replace(model.family, **facts)
    return other


def with_eps(model, eps, norms):
    other = copy.copy(model)
    other.wrong_eps, other.wrong_norms = eps, norms
    return other


def zero_rows(tensor, rows):
    cut = tensor.copy()
    cut[rows] = 0.0
    return cut


# ---------------------------------------------------------------- mistakes -------------------

# Each function gives (what, model with it). Where a tensor is of every layer, the mistake is made
# in all of them.


def of_arithmetic(model):
    family = model.family
    if family.activation is reference.gelu:
        yield "tanh for erf in GELU, blocks", changed(model, activation=reference.gelu_tanh)
    else:
        yield "GELU for SiLU", changed(model, activation=reference.gelu)
    if model.has_head():
        yield "tanh for erf in GELU, head", changed(model, head_activation=reference.gelu_tanh)
    eps = 1e-5 if family.eps < 1e-6 else 1e-12
    yield f"eps {eps:.0e} for {family.eps:.0e}", changed(model, eps=eps)
    norms = {
        "of embeddings": family.embedding_norm,
        "of attention": rf"\d\.{family.attention_norm}",
        "of feed-forward": rf"\d\.{family.feed_forward_norm}",
        "at the end": family.closing_norm,
        "of the head": family.head[1] if model.has_head() else None,
    }
    for which, name in norms.items():
        if name:
            yield f"eps {eps:.0e} in norms {which}", with_eps(model, eps, f"{name}$")


def of_biases(model):
    """Each kind of bias left out."""
    unused = r"contact_head|seq_relationship"
    if model.family.head_bias == "cls.predictions.bias":
        unused += r"|cls.predictions.decoder"  # a copy of it
    kinds = collections.defaultdict(list)
    for name in model.tensors:
        if name.endswith(".bias") and not re.search(unused, name):
            kinds[re.sub(r"\.\d+\.", ".N.", name)].append(name)
    width = model.config["hidden_size"]
    for kind, names in kinds.items():
        parts = {"": slice(None)}
        if kind.endswith("Wqkv.bias"):
            parts = {
                ", query": slice(0, width),
                ", key": slice(width, 2 * width),
                ", value": slice(2 * width, 3 * width),
            }
        for part, rows in parts.items():
            cut = {name: zero_rows(model.tensors[name], rows) for name in names}
            yield f"no {kind}{part}", changed(model, cut)


def of_positions(model):
    family, tensors = model.family, model.tensors
    if family.positions == "learned":
        name = "embeddings.position_embeddings.weight"
        for step in (1, -1):
            what = f"positions from {family.first_position + step}"
            yield what, changed(model, {name: np.roll(tensors[name], -step, axis=0)})
        yield "no positions", changed(model, {name: 0.0 * tensors[name]})
    elif family.positions == "halves":
        yield from of_rotation(model)
    elif family.positions == "alibi":
        yield from of_slopes(model)


def of_rotation(model):
    family, tensors = model.family, model.tensors
    stored = [name for name in tensors if name.endswith("inv_freq")]
    none = dict.fromkeys(stored)
    yield "no positions", changed(model, {name: 0.0 * tensors[name] for name in stored})
    yield "rotary pairs of neighbours", changed(model, positions="pairs")
    yield "rotary values too", changed(model, values_turned=True)
    reverse = {name: tensors[name][::-1] for name in stored}
    yield "rotary frequencies in reverse", changed(model, reverse)
    yield "rotary base 4 times as large", changed(model, none, base=4.0 * family.base)
    size = model.config["hidden_size"] // family.heads
    if family.turned < size:
        yield "rotary on whole heads", changed(model, none, turned=size)
        # Scores do not know in which order the columns of q and k are.
        moved = {}
        for name in tensors:
            if re.search(r"self\.(query|key)\.", name):
                heads = np.split(tensors[name], family.heads)
                heads = [np.roll(head, family.turned, axis=0) for head in heads]
                moved[name] = np.concatenate(heads)
        yield "rotary on the last columns", changed(model, moved)


def of_slopes(model):
    n = model.family.heads
    right = reference.alibi_slopes(n)
    wrong = {"no slopes": [0.0] * n, "slopes in reverse": right[::-1]}
    below = 2 ** int(math.log2(n))
    if below < n:
        above = reference.alibi_slopes(2 * below)
        odd = reference.alibi_slopes(below) + above[1::2][: n - below]
        wrong["slopes from odd places"] = odd
        wrong["slopes in order of size"] = sorted(right, reverse=True)
        wrong["slopes as for a power of two"] = [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    for what, slopes in wrong.items():
        yield what, changed(model, slopes=lambda heads, slopes=slopes: slopes)


def of_blocks(model):
    family, tensors = model.family, model.tensors
    width = model.config["hidden_size"]
    size = width // family.heads
    larger, in_turn, swapped = {}, {}, {}
    for name, value in tensors.items():
        if re.search(r"self\.(query|Wqkv)\.", name):
            larger[name] = value.copy()
            larger[name][:width] *= math.sqrt(size)
        if "self.Wqkv." in name:
            # As if the rows were q, k, v of the first head, then of the second, ...
            rows = value.reshape(family.heads, 3, size, -1)
            in_turn[name] = rows.swapaxes(0, 1).reshape(value.shape)
        if family.gated and name.endswith(family.feed_forward[0] + ".weight"):
            swapped[name] = np.concatenate(np.split(value, 2)[::-1])
    yield "scores not divided", changed(model, larger)
    if in_turn:
        yield "q, k, v of each head in turn", changed(model, in_turn)
    if swapped:
        yield "halves of the gate swapped", changed(model, swapped)
    yield "norms at the other end of blocks", changed(model, norm_first=not family.norm_first)
    if family.closing_norm:
        yield "no norm at the end", changed(model, closing_norm=None)


def of_embeddings(model):
    family, tensors = model.family, model.tensors
    types = "embeddings.token_type_embeddings.weight"
    if types in tensors:
        yield "no token type", changed(model, {types: 0.0 * tensors[types]})
        yield "token type 1", changed(model, {types: tensors[types][::-1]})
    if family.norm_first and family.embedding_norm:
        yield "no norm of embeddings", changed(model, embedding_norm=None)
    if family.token_dropout:
        yield "no token dropout", changed(model, token_dropout=False)
        yield "masks neither zero nor counted", changed(model, mask_id=-1)
    elif family.mask_id is not None:
        yield "token dropout", changed(model, token_dropout=True)


def of_head(model):
    family = model.family
    if model.has_head():
        what = "once" if family.head_bias_times == 2 else "twice"
        yield f"output bias {what}", changed(model, head_bias_times=3 - family.head_bias_times)
        if family.decoder == "lm_head.decoder.weight":
            yield "decoder tied to embeddings", changed(model, {family.decoder: None})


def mistakes(model):
    yield from of_arithmetic(model)
    yield from of_biases(model)
    yield from of_embeddings(model)
    yield from of_positions(model)
    yield from of_blocks(model)
    yield from of_head(model)


# ---------------------------------------------------------------- the table ------------------


def invisible(model, mistake):
    """Whether a mistake cannot show: a bias of keys adds the same to all scores of a query, which
    softmax takes away, unless keys are turned afterwards."""
    of_keys = mistake.endswith(("key.bias", "Wqkv.bias, key"))
    return of_keys and model.family.positions in ("learned", "alibi")


def states_of(model, expected):
    """{what: arrays}: of all cases, the numbers that golden files hold."""
    found = collections.defaultdict(list)
    for case in expected["cases"]:
        x = model.layers(np.array(case["input_ids"]))[-1]
        found["hidden"].append(x)
        if model.has_pooler():
            found["pooler"].append(model.pooler(x))
        for mlm in case.get("mlm", []):
            found["logits"].append(model.logits(x[mlm["position"]]))
    return found


def table(directory):
    """Lines of Markdown; and those that show too little."""
    model = Mistaken(directory)
    expected = json.loads((directory / "expected.json").read_text())
    right = states_of(model, expected)
    lines = ["| mistake | hidden | pooler | logits |", "|---|---|---|---|"]
    weak = []
    for what, wrong in mistakes(model):
        states = states_of(wrong, expected)
        moved = {
            name: max(float(np.abs(a - b).max()) for a, b in zip(states[name], right[name]))
            for name in right
        }
        shown = max(moved[name] / TOLERANCE[name] for name in moved)
        if invisible(model, what):
            what += " (adds the same to all scores of a query: cannot show)"
        elif not shown >= SHOWN:
            weak.append(f"{directory.name}: {what}: {shown:.1f} times the tolerance")
        cells = [f"{moved[name]:.1e}" if name in moved else "" for name in TOLERANCE]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return lines, weak

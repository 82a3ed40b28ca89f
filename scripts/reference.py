#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every published encoder family a second time, in NumPy and float64, from their equations.

  reference.py --check DIR...   compare with DIR/expected.json (f64 vectors) and DIR/*.npy
  reference.py DIR < ids        last hidden states, a line a token; ids on one line

DIR is a model directory: config.json, model.safetensors (or its parts and their index). One
forward pass serves all; what sets a family apart is a few facts, in describe():

  DNABERT                  BERT: LayerNorm after a block, learned positions; output bias twice
  RoFormer                 rotary q and k in pairs (2i, 2i+1), an embedding of another width
  Nucleotide Transformer   LayerNorm before each block and one at the end; v1: learned positions
                           from 2, word embeddings scaled; v2: rotary halves, gated by SiLU
  DNABERT-2, DNABERT-S     ALiBi, one product for q, k and v, feed-forward gated by GELU
  GENA-LM                  LayerNorm before each block, a closing one or none, rotary on a part

A sequence goes through alone. Heads are looped over and every matrix product is written as the
formula has it: this program is for being right, not for being fast.
Needs: python3, numpy.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import re
import sys
import typing

import numpy as np

import tensorfile

PREFIXES = ("bert.", "roformer.", "esm.")  # of the encoder's tensors; some files have none

# ---------------------------------------------------------------- functions ------------------


def gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2.0)))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1.0 + np.exp(-x))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": silu,
}


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def alibi_slopes(heads):
    """r, r^2, ... with r = 2^(-8/n) for n heads, a power of two. For another number: those of
    the power of two below, then every other one of the power of two above."""
    below = 2 ** int(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / below) for i in range(below)]
    if below < heads:
        slopes += alibi_slopes(2 * below)[0::2][: heads - below]
    return slopes


# ---------------------------------------------------------------- families -------------------


@dataclasses.dataclass(frozen=True)
class Family:
    """What sets a family apart. The defaults are those of BERT; names are of tensors, those of
    a layer without its number and all without .weight and .bias."""

    name: str
    heads: int
    eps: float
    # Embeddings: word, + type 0 where the model has types, + position, norm, projection.
    token_dropout: bool = False
    mask_id: typing.Optional[int] = None
    first_position: int = 0
    embedding_norm: typing.Optional[str] = "embeddings.LayerNorm"
    # Positions: learned, pairs or halves (rotary), alibi.
    positions: str = "learned"
    turned: int = 0  # rotary: columns of each head that are turned, from its first
    base: float = 10000.0
    values_turned: bool = False
    slopes: typing.Callable = alibi_slopes
    # Blocks: x + block(norm(x)) if norm_first, else norm(x + block(x)).
    norm_first: bool = False
    attention_norm: str = "attention.output.LayerNorm"
    feed_forward_norm: str = "output.LayerNorm"
    closing_norm: typing.Optional[str] = None
    qkv: str = "apart"  # or: joined
    feed_forward: tuple = ("intermediate.dense", "output.dense")
    activation: typing.Callable = gelu
    gated: bool = False  # the first half of what comes in is activated, times the second half
    # The masked-language-model head; its decoder is the word embeddings where it is not stored.
    head: tuple = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm")
    head_activation: typing.Callable = gelu
    head_eps: typing.Optional[float] = None  # where it is not eps
    decoder: str = "cls.predictions.decoder.weight"
    head_bias: str = "cls.predictions.bias"
    head_bias_times: int = 1


def describe(config, tensors):
    """The family of a model: by its tensors as far as possible, for its config may name it
    wrongly or not at all."""
    heads = config["num_attention_heads"]
    size = config["hidden_size"] // heads
    eps = config.get("layer_norm_eps", 1e-12)
    act = ACTIVATIONS[config.get("hidden_act", "gelu")]
    bert = Family("dnabert", heads, eps, activation=act, head_activation=act)
    first = "encoder.layer.0."

    if first + "attention.self.Wqkv.weight" in tensors:
        return dataclasses.replace(
            bert,
            name="dnabert-2" if bert.head[0] + ".weight" in tensors else "dnabert-s",
            positions="alibi",
            qkv="joined",
            feed_forward=("mlp.gated_layers", "mlp.wo"),
            feed_forward_norm="mlp.layernorm",
            gated=True,
            head_eps=1e-12,
            head_bias="cls.predictions.decoder.bias",
        )
    if "encoder.emb_layer_norm_after.weight" in tensors:
        rows = len(tensors[first + "intermediate.dense.weight"])
        gated = rows == 2 * config["intermediate_size"]
        rotary = config.get("position_embedding_type") == "rotary"
        return Family(
            "nucleotide-transformer-" + ("v2" if gated else "v1"),
            heads,
            eps,
            token_dropout=config.get("token_dropout", False),
            mask_id=config.get("mask_token_id"),
            first_position=config.get("pad_token_id", 1) + 1,
            embedding_norm=(
                "embeddings.layer_norm" if config.get("emb_layer_norm_before") else None
            ),
            positions="halves" if rotary else "learned",
            turned=size if rotary else 0,
            norm_first=True,
            attention_norm="attention.LayerNorm",
            feed_forward_norm="LayerNorm",
            closing_norm="encoder.emb_layer_norm_after",
            activation=silu if gated else gelu,
            gated=gated,
            head=("lm_head.dense", "lm_head.layer_norm"),
            decoder="lm_head.decoder.weight",
            head_bias="lm_head.bias",
        )
    if first + "pre_attention_ln.weight" in tensors:
        closing = config.get("last_layer_norm", config.get("pre_layer_norm"))
        rotary = config.get("position_embedding_type") == "rotary"
        return dataclasses.replace(
            bert,
            name="gena-lm",
            positions="halves" if rotary else "learned",
            turned=config.get("rotary_dim", size) if rotary else 0,
            base=config.get("rotary_base", 10000.0),
            norm_first=True,
            attention_norm="pre_attention_ln",
            feed_forward_norm="post_attention_ln",
            closing_norm="encoder.last_layer_ln" if closing else None,
        )
    stored = "encoder.embed_positions.weight" in tensors
    if config.get("model_type") == "roformer" or stored:
        return dataclasses.replace(
            bert,
            name="roformer",
            positions="pairs",
            turned=size,
            values_turned=config.get("rotary_value", False),
        )
    return dataclasses.replace(bert, head_bias_times=2)


# ---------------------------------------------------------------- the encoder ----------------


def plain_name(name):
    """A tensor's name without the prefix of the encoder, its norms as they are called today."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    name = name.removesuffix(".gamma") + ".weight" if name.endswith(".gamma") else name
    return name.removesuffix(".beta") + ".bias" if name.endswith(".beta") else name


class Model:
    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.tensors = {
            plain_name(name): np.array(value, np.float64)
            for name, value in tensorfile.read_model(directory).items()
        }
        self.family = describe(self.config, self.tensors)

    def multiply(self, a, b):
        """Every product of matrices; where factors are rounded, another one."""
        return a @ b

    def linear(self, x, name):
        """Some products have no bias: the gated ones."""
        y = self.multiply(x, self.tensors[name + ".weight"].T)
        return y + self.tensors.get(name + ".bias", 0.0)

    def norm(self, x, name, eps=None):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + (self.family.eps if eps is None else eps))
        return scaled * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def drop(self, x, what, layer=None, head=0):
        """Where dropout would be: of embeddings, of a layer's sublayers and attention."""
        return x

    def embed(self, ids, n_real):
        family = self.family
        x = self.tensors["embeddings.word_embeddings.weight"][ids]
        if family.token_dropout:
            masked = ids == family.mask_id
            x[masked] = 0.0
            x = x * (1.0 - 0.15 * 0.8) / (1.0 - masked.sum() / n_real)
        if "embeddings.token_type_embeddings.weight" in self.tensors:
            x = x + self.tensors["embeddings.token_type_embeddings.weight"][0]
        if family.positions == "learned":
            table = self.tensors["embeddings.position_embeddings.weight"]
            x = x + table[family.first_position :][: len(ids)]
        if family.embedding_norm:
            x = self.norm(x, family.embedding_norm)
        x = self.drop(x, "embeddings")
        if "embeddings_project.weight" in self.tensors:
            x = self.linear(x, "embeddings_project")
        return x

    def angles(self, length, layer):
        """cos and sin [length, turned / 2]. What a checkpoint stores of them, as float32, is
        what was used; without it, float32 frequencies are what the halves were turned by."""
        family = self.family
        half = family.turned // 2
        table = self.tensors.get("encoder.embed_positions.weight")
        if table is not None and length <= len(table):
            return table[:length, half:], table[:length, :half]
        frequency = family.base ** (-2.0 * np.arange(half) / family.turned)
        if family.positions == "halves":
            frequency = frequency.astype(np.float32).astype(np.float64)
        for name in ("rotary_embeddings", "rotary_emb"):
            frequency = self.tensors.get(f"{layer}.attention.self.{name}.inv_freq", frequency)
        angle = np.arange(length)[:, None] * frequency
        return np.cos(angle), np.sin(angle)

    def turn(self, x, cos, sin):
        """Pairs of the first columns as complex numbers, times e^(i angle). The two of a pair
        are neighbours, or one is in the first half of these columns and one in the second."""
        n = self.family.turned
        if self.family.positions == "pairs":
            real, imaginary = slice(0, n, 2), slice(1, n, 2)
        else:
            real, imaginary = slice(0, n // 2), slice(n // 2, n)
        turned = x.copy()
        turned[:, real] = x[:, real] * cos - x[:, imaginary] * sin
        turned[:, imaginary] = x[:, imaginary] * cos + x[:, real] * sin
        return turned

    def weigh(self, scores, v, layer, head):
        """What a head's queries take from all values."""
        return self.multiply(self.drop(softmax(scores), "attention", layer, head), v)

    def attention(self, x, layer, of_key):
        """of_key [T]: added to the scores of each key."""
        family = self.family
        if family.qkv == "joined":
            q, k, v = np.split(self.linear(x, f"{layer}.attention.self.Wqkv"), 3, axis=1)
        else:
            q, k, v = (
                self.linear(x, f"{layer}.attention.self.{name}")
                for name in ("query", "key", "value")
            )
        size = q.shape[1] // family.heads
        at = np.arange(len(x))
        out = []
        for h in range(family.heads):
            part = slice(h * size, (h + 1) * size)
            qh, kh, vh = q[:, part], k[:, part], v[:, part]
            if family.positions in ("pairs", "halves"):
                cos, sin = self.angles(len(x), layer)
                qh, kh = self.turn(qh, cos, sin), self.turn(kh, cos, sin)
                vh = self.turn(vh, cos, sin) if family.values_turned else vh
            scores = self.multiply(qh, kh.T) / math.sqrt(size)
            if family.positions == "alibi":
                scores -= family.slopes(family.heads)[h] * np.abs(at[:, None] - at)
            out.append(self.weigh(scores + of_key, vh, layer, h))
        y = self.linear(np.concatenate(out, axis=1), f"{layer}.attention.output.dense")
        return self.drop(y, "heads", layer)

    def feed_forward(self, x, layer):
        family = self.family
        enter, leave = family.feed_forward
        u = self.linear(x, f"{layer}.{enter}")
        if family.gated:
            first, second = np.split(u, 2, axis=1)
            u = family.activation(first) * second
        else:
            u = family.activation(u)
        return self.drop(self.linear(u, f"{layer}.{leave}"), "feed-forward", layer)

    def block(self, x, n, of_key):
        """What leaves block n."""
        family = self.family
        layer = f"encoder.layer.{n}"
        attention_norm = f"{layer}.{family.attention_norm}"
        feed_forward_norm = f"{layer}.{family.feed_forward_norm}"
        if family.norm_first:
            x = x + self.attention(self.norm(x, attention_norm), layer, of_key)
            return x + self.feed_forward(self.norm(x, feed_forward_norm), layer)
        x = self.norm(x + self.attention(x, layer, of_key), attention_norm)
        return self.norm(x + self.feed_forward(x, layer), feed_forward_norm)

    def layers(self, ids, real=None, mask_is_added=False):
        """[L + 1][T, D]: what enters the first block, and what leaves each; the last one is
        after the closing norm of families that have one.
        real [T]: false at padding, whose keys no one sees; or, as DNABERT's own code has it,
        the 1 and 0 of real tokens and padding are added to the scores and nothing is hidden."""
        family = self.family
        real = np.ones(len(ids), bool) if real is None else real
        of_key = real * 1.0 if mask_is_added else np.where(real, 0.0, -np.inf)
        x = self.embed(ids, real.sum())
        states = [x]
        for n in range(self.config["num_hidden_layers"]):
            x = self.block(x, n, of_key)
            states.append(x)
        if family.closing_norm:
            states[-1] = self.norm(x, family.closing_norm)
        return states

    def has_head(self):
        return self.family.head[0] + ".weight" in self.tensors

    def logits(self, x):
        family = self.family
        dense, norm = family.head
        y = family.head_activation(self.linear(x, dense))
        y = self.norm(y, norm, family.head_eps)
        word = self.tensors["embeddings.word_embeddings.weight"]
        decoder = self.tensors.get(family.decoder, word)
        y = self.multiply(y, decoder.T)
        return y + family.head_bias_times * self.tensors[family.head_bias]

    def has_pooler(self):
        return "pooler.dense.weight" in self.tensors

    def pooler(self, x):
        """x: the hidden states of the last layer, of which the first token's are taken."""
        return np.tanh(self.linear(x[0], "pooler.dense"))


# ---------------------------------------------------------------- golden numbers -------------

# Of float64 against float64; of float64 against float32, which is what the arrays hold.
LIMITS = {
    "f64 vectors": 1e-6,
    "hidden.npy": 5e-5,
    "layers.npy": 5e-5,
    "logits.npy": 1e-4,
    "padded": 1e-4,
}


def pooled(model, x, ids, special_ids):
    """The vectors that expected.json has of a case."""
    vectors = {"cls": x[0], "mean_all": x.mean(axis=0)}
    content = ~np.isin(ids, special_ids)
    if content.any():
        vectors["mean_content"] = x[content].mean(axis=0)
    if model.has_pooler():
        vectors["pooler"] = model.pooler(x)
    return vectors


def check(directory):
    """Whether the golden numbers are met, each of them within its limit."""
    model = Model(directory)
    expected = json.loads((directory / "expected.json").read_text())
    arrays = {path.name: np.load(path) for path in sorted(directory.glob("*.npy"))}
    worst = {}

    def compare(name, ours, theirs):
        error = float(np.abs(ours - np.asarray(theirs)).max())
        worst[name] = max(worst.get(name, 0.0), error)

    cases = {case["name"]: case for case in expected["cases"]}
    of_layers = re.search("case '([^']*)'", expected["files"]["layers.npy"])[1]
    for case in cases.values():
        ids = np.array(case["input_ids"])
        states = model.layers(ids)
        x = states[-1]
        ours = pooled(model, x, ids, expected["special_ids"])
        for name, theirs in case["f64"].items():
            if theirs:
                compare("f64 vectors", ours[name], theirs)
        row = case["hidden_row"]
        compare("hidden.npy", x, arrays["hidden.npy"][row : row + len(ids)])
        if case["name"] == of_layers:
            compare("layers.npy", np.stack(states), arrays["layers.npy"])
        for mlm in case.get("mlm", []):
            y = model.logits(x[mlm["position"]])
            compare("logits.npy", y, arrays["logits.npy"][mlm["logits_row"]])
            compare("f64 vectors", np.logaddexp.reduce(y), mlm["logsumexp_f64"])

    for padded in expected.get("padded_cases", []):
        ids = np.array(cases[padded["of_case"]]["input_ids"])
        n = len(ids)
        real = np.arange(max(n, padded["padded_length"])) < n
        filled = np.full(len(real), expected["pad_id"])
        filled[:n] = ids
        for kind in ("masked", "stock_bert_masked", "own_code"):
            if kind not in padded:
                continue
            x = model.layers(filled, real, kind == "own_code")[-1][:n]
            ours = pooled(model, x, ids, expected["special_ids"])
            ours["mean_real"] = ours["mean_all"]
            for name, theirs in padded[kind].items():
                compare("padded", ours[name], theirs)

    print(f"{directory}: {model.family.name}, {len(cases)} cases")
    for name, error in worst.items():
        print(f"{directory}: {name}: largest difference {error:.2e} (limit {LIMITS[name]:.0e})")
    return all(error <= LIMITS[name] for name, error in worst.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with DIR/expected.json")
    parser.add_argument("directories", metavar="DIR", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    if args.check:
        met = [check(directory) for directory in args.directories]
        return 0 if all(met) else 1
    if len(args.directories) > 1:
        parser.error("hidden states are written of one model")
    ids = np.array([int(word) for word in sys.stdin.read().split()])
    for row in Model(args.directories[0]).layers(ids)[-1]:
        print(" ".join(f"{value:.17g}" for value in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())

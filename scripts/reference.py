#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The RoFormer encoder a second time, in NumPy and float64, from the published equations.

  reference.py --check DIR      compare with DIR/expected.json (f64 vectors) and DIR/*.npy
  reference.py DIR < ids        hidden states of the last layer, a line a token; ids on one line

DIR is a model directory: config.json, model.safetensors. Needs: python3, numpy.
Heads are looped over and every matrix product is written as the formula has it: this program
is for being right, not for being fast.
"""
import argparse
import json
import math
import pathlib
import struct
import sys

import numpy as np

TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64}


def read_safetensors(path):
    """{name: float64 array}. Integer tensors are left out."""
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, info in json.loads(data[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        beg, end = (8 + n + offset for offset in info["data_offsets"])
        if info["dtype"] == "BF16":
            halves = np.frombuffer(data[beg:end], "<u2").astype(np.uint32)
            values = (halves << 16).view(np.float32)
        elif info["dtype"] in TYPES:
            values = np.frombuffer(data[beg:end], TYPES[info["dtype"]])
        else:
            continue
        tensors[name] = values.astype(np.float64).reshape(info["shape"])
    return tensors


def gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0.0),
}


class Roformer:
    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.tensors = {
            name.removeprefix("roformer."): value
            for name, value in read_safetensors(directory / "model.safetensors").items()
        }
        self.eps = self.config.get("layer_norm_eps", 1e-12)
        self.act = ACTIVATIONS[self.config.get("hidden_act", "gelu")]

    def linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + self.eps)
        return scaled * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def table(self, length, size):
        """cos and sin [length, size / 2]; a stored table is the one that was used."""
        stored = self.tensors.get("encoder.embed_positions.weight")
        if stored is not None and length <= len(stored):
            return stored[:length, size // 2 :], stored[:length, : size // 2]
        frequency = 10000.0 ** (-2.0 * np.arange(size // 2) / size)
        angle = np.arange(length)[:, None] * frequency
        return np.cos(angle), np.sin(angle)

    @staticmethod
    def turn(x, cos, sin):
        """Each pair (2i, 2i + 1) as a complex number, times e^(i angle)."""
        pairs = (x[:, 0::2] + 1j * x[:, 1::2]) * (cos + 1j * sin)
        turned = np.empty_like(x)
        turned[:, 0::2] = pairs.real
        turned[:, 1::2] = pairs.imag
        return turned

    def attention(self, x, layer):
        heads = self.config["num_attention_heads"]
        size = x.shape[1] // heads
        cos, sin = self.table(len(x), size)
        q, k, v = (
            self.linear(x, f"{layer}.attention.self.{name}")
            for name in ("query", "key", "value")
        )
        out = []
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            qh = self.turn(q[:, part], cos, sin)
            kh = self.turn(k[:, part], cos, sin)
            vh = v[:, part]
            if self.config.get("rotary_value"):
                vh = self.turn(vh, cos, sin)
            scores = qh @ kh.T / math.sqrt(size)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out.append(weights / weights.sum(axis=1, keepdims=True) @ vh)
        return np.concatenate(out, axis=1)

    def layers(self, ids):
        """[L + 1][T, D]: what enters the first block, and what leaves each."""
        word = self.tensors["embeddings.word_embeddings.weight"]
        kind = self.tensors["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(word[ids] + kind, "embeddings.LayerNorm")
        if "embeddings_project.weight" in self.tensors:
            x = self.linear(x, "embeddings_project")
        states = [x]
        for n in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{n}"
            a = self.linear(self.attention(x, layer), f"{layer}.attention.output.dense")
            x = self.norm(x + a, f"{layer}.attention.output.LayerNorm")
            f = self.act(self.linear(x, f"{layer}.intermediate.dense"))
            f = self.linear(f, f"{layer}.output.dense")
            x = self.norm(x + f, f"{layer}.output.LayerNorm")
            states.append(x)
        return states

    def logits(self, x):
        head = "cls.predictions.transform"
        y = self.norm(self.act(self.linear(x, f"{head}.dense")), f"{head}.LayerNorm")
        word = self.tensors["embeddings.word_embeddings.weight"]
        return y @ word.T + self.tensors["cls.predictions.bias"]


def check(directory):
    """0 if the golden numbers are met: f64 vectors to 1e-6, float32 arrays to theirs."""
    model = Roformer(directory)
    expected = json.loads((directory / "expected.json").read_text())
    hidden = np.load(directory / "hidden.npy")
    logits = np.load(directory / "logits.npy")
    layers = np.load(directory / "layers.npy")
    worst = {"f64 vectors": 0.0, "hidden.npy": 0.0, "layers.npy": 0.0, "logits.npy": 0.0}
    limit = {"f64 vectors": 1e-6, "hidden.npy": 5e-5, "layers.npy": 5e-5, "logits.npy": 1e-4}

    def compare(name, ours, theirs):
        worst[name] = max(worst[name], float(np.abs(ours - np.asarray(theirs)).max()))

    for case in expected["cases"]:
        ids = np.array(case["input_ids"])
        states = model.layers(ids)
        x = states[-1]
        compare("f64 vectors", x[0], case["f64"]["cls"])
        compare("f64 vectors", x.mean(axis=0), case["f64"]["mean_all"])
        content = ~np.isin(ids, expected["special_ids"])
        if case["f64"].get("mean_content"):
            compare("f64 vectors", x[content].mean(axis=0), case["f64"]["mean_content"])
        row = case["hidden_row"]
        compare("hidden.npy", x, hidden[row : row + len(ids)])
        if case["name"] == "short":
            compare("layers.npy", np.stack(states), layers)
        for mlm in case.get("mlm", []):
            compare("logits.npy", model.logits(x[mlm["position"]]), logits[mlm["logits_row"]])
    for name, error in worst.items():
        print(f"{directory}: {name}: largest difference {error:.2e} (limit {limit[name]:.0e})")
    return 0 if all(error <= limit[name] for name, error in worst.items()) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with DIR/expected.json")
    parser.add_argument("directory", metavar="DIR", type=pathlib.Path)
    args = parser.parse_args()
    if args.check:
        return check(args.directory)
    ids = np.array([int(word) for word in sys.stdin.read().split()])
    for row in Roformer(args.directory).layers(ids)[-1]:
        print(" ".join(f"{value:.17g}" for value in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())

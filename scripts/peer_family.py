#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The published encoder families in PyTorch, as a peer to measure speed against.

  peer_family.py DIR B T [--threads N] [--runs R]   tokens a second, B sequences of T tokens
  peer_family.py --check DIR...                     compare with DIR/hidden.npy, to 1e-4

DIR is a model directory, of random_model.py for one. The code is what the published
implementations do on a CPU in float32: a product for each of q, k and v (DNABERT-2: one for all
three), attention as two batched products, sequences of one length in a batch, no gradients. One
line comes out: median, least and most of R runs after one that is not counted, and peak memory.

The default OpenBLAS of Debian brings threads of its own, which fight with PyTorch's. Faster:

  LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=2 peer_family.py ...

(package libopenblas0-openmp). Needs: python3, numpy, PyTorch (Debian: python3-torch).
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import reference
import tensorfile

ACTIVATIONS = {reference.gelu: F.gelu, reference.silu: F.silu}
ACTIVATIONS[reference.gelu_tanh] = lambda x: F.gelu(x, approximate="tanh")


class Tensors:
    """Modules made of what a model directory stores."""

    def __init__(self, directory):
        self.stored = {
            reference.plain_name(name): value
            for name, value in tensorfile.read_model(directory).items()
        }

    def get(self, name):
        value = self.stored.get(name)
        return None if value is None else torch.from_numpy(value.astype(np.float32, copy=False))

    def linear(self, name):
        weight, bias = self.get(name + ".weight"), self.get(name + ".bias")
        layer = nn.utils.skip_init(
            nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None
        )
        layer.weight = nn.Parameter(weight, requires_grad=False)
        if bias is not None:
            layer.bias = nn.Parameter(bias, requires_grad=False)
        return layer

    def norm(self, name, eps):
        weight = self.get(name + ".weight")
        layer = nn.LayerNorm(len(weight), eps)
        layer.weight = nn.Parameter(weight, requires_grad=False)
        layer.bias = nn.Parameter(self.get(name + ".bias"), requires_grad=False)
        return layer


class Embeddings(nn.Module):
    def __init__(self, tensors, family):
        super().__init__()
        self.family = family
        self.word = tensors.get("embeddings.word_embeddings.weight")
        self.kind = tensors.get("embeddings.token_type_embeddings.weight")
        self.position = tensors.get("embeddings.position_embeddings.weight")
        name = family.embedding_norm
        self.norm = tensors.norm(name, family.eps) if name else nn.Identity()
        projected = tensors.get("embeddings_project.weight") is not None
        self.project = tensors.linear("embeddings_project") if projected else nn.Identity()

    def forward(self, ids):
        family = self.family
        x = F.embedding(ids, self.word)
        if family.token_dropout:
            masked = ids == family.mask_id
            x = x.masked_fill(masked[..., None], 0.0)
            share = masked.float().mean(dim=1)[:, None, None]
            x = x * (1.0 - 0.15 * 0.8) / (1.0 - share)
        if self.kind is not None:
            x = x + self.kind[0]
        if family.positions == "learned":
            first = family.first_position
            x = x + self.position[first : first + ids.shape[1]]
        return self.project(self.norm(x))


class Positions:
    """What attention needs of them for T tokens, made once for all layers and calls."""

    def __init__(self, tensors, family, size):
        self.family = family
        self.size = size
        self.table = tensors.get("encoder.embed_positions.weight")
        self.frequency = None
        for name in ("rotary_embeddings", "rotary_emb"):
            found = tensors.get(f"encoder.layer.0.attention.self.{name}.inv_freq")
            self.frequency = self.frequency if found is None else found
        self.length = 0

    def prepare(self, length):
        family = self.family
        if length == self.length or family.positions == "learned":
            return
        self.length = length
        at = torch.arange(length, dtype=torch.float32)
        if family.positions == "alibi":
            slopes = torch.tensor(family.slopes(family.heads), dtype=torch.float32)
            self.bias = -slopes[:, None, None] * (at[:, None] - at).abs()
            return
        half = family.turned // 2
        frequency = self.frequency
        if frequency is None:
            exponent = -2.0 * torch.arange(half, dtype=torch.float64) / family.turned
            frequency = (family.base**exponent).float()
        angle = at[:, None] * frequency
        cos, sin = angle.cos(), angle.sin()
        if self.table is not None and length <= len(self.table):
            sin, cos = self.table[:length].split(half, dim=1)
        if family.positions == "pairs":
            self.cos, self.sin = cos.repeat_interleave(2, 1), sin.repeat_interleave(2, 1)
        else:
            self.cos, self.sin = cos.repeat(1, 2), sin.repeat(1, 2)

    def turn(self, x):
        """x: [B, heads, T, size]"""
        n = self.family.turned
        part = x if n == self.size else x[..., :n]
        if self.family.positions == "pairs":
            other = torch.stack([-part[..., 1::2], part[..., 0::2]], dim=-1).reshape_as(part)
        else:
            first, second = part.chunk(2, dim=-1)
            other = torch.cat([-second, first], dim=-1)
        part = part * self.cos + other * self.sin
        return part if n == self.size else torch.cat([part, x[..., n:]], dim=-1)


class Attention(nn.Module):
    def __init__(self, tensors, family, name, positions):
        super().__init__()
        self.family = family
        self.positions = positions
        if family.qkv == "joined":
            self.qkv = tensors.linear(f"{name}.self.Wqkv")
        else:
            self.query = tensors.linear(f"{name}.self.query")
            self.key = tensors.linear(f"{name}.self.key")
            self.value = tensors.linear(f"{name}.self.value")
        self.out = tensors.linear(f"{name}.output.dense")

    def heads(self, x):
        B, T, D = x.shape
        return x.view(B, T, self.family.heads, D // self.family.heads).transpose(1, 2)

    def forward(self, x):
        family, positions = self.family, self.positions
        if family.qkv == "joined":
            q, k, v = (self.heads(part.contiguous()) for part in self.qkv(x).chunk(3, dim=-1))
        else:
            products = self.query(x), self.key(x), self.value(x)
            q, k, v = (self.heads(product) for product in products)
        q = q * q.shape[-1] ** -0.5
        if family.positions in ("pairs", "halves"):
            q, k = positions.turn(q), positions.turn(k)
            v = positions.turn(v) if family.values_turned else v
        scores = q @ k.transpose(-1, -2)
        if family.positions == "alibi":
            scores += positions.bias
        y = scores.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    def __init__(self, tensors, family, layer):
        super().__init__()
        enter, leave = family.feed_forward
        self.enter = tensors.linear(f"{layer}.{enter}")
        self.leave = tensors.linear(f"{layer}.{leave}")
        self.act = ACTIVATIONS[family.activation]
        self.gated = family.gated

    def forward(self, x):
        u = self.enter(x)
        if self.gated:
            first, second = u.chunk(2, dim=-1)
            u = self.act(first) * second
        else:
            u = self.act(u)
        return self.leave(u)


class Layer(nn.Module):
    def __init__(self, tensors, family, name, positions):
        super().__init__()
        self.norm_first = family.norm_first
        self.attention = Attention(tensors, family, f"{name}.attention", positions)
        self.attention_norm = tensors.norm(f"{name}.{family.attention_norm}", family.eps)
        self.feed_forward = FeedForward(tensors, family, name)
        self.feed_forward_norm = tensors.norm(f"{name}.{family.feed_forward_norm}", family.eps)

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.attention_norm(x))
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.feed_forward(x))


class Encoder(nn.Module):
    def __init__(self, directory):
        super().__init__()
        config = json.loads((directory / "config.json").read_text())
        tensors = Tensors(directory)
        family = reference.describe(config, tensors.stored)
        self.name = family.name
        self.vocab = config["vocab_size"]
        self.embeddings = Embeddings(tensors, family)
        self.positions = Positions(tensors, family, config["hidden_size"] // family.heads)
        self.layers = nn.ModuleList(
            Layer(tensors, family, f"encoder.layer.{n}", self.positions)
            for n in range(config["num_hidden_layers"])
        )
        name = family.closing_norm
        self.closing_norm = tensors.norm(name, family.eps) if name else nn.Identity()

    def forward(self, ids):
        self.positions.prepare(ids.shape[1])
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.closing_norm(x)


def check(directory):
    """Whether the last hidden states are those of DIR/hidden.npy, alone and in a batch."""
    encoder = Encoder(directory)
    hidden = np.load(directory / "hidden.npy")
    worst = 0.0
    for case in json.loads((directory / "expected.json").read_text())["cases"]:
        ids = torch.tensor([case["input_ids"]])
        row = case["hidden_row"]
        right = torch.from_numpy(hidden[row : row + ids.shape[1]])
        for x in (encoder(ids), encoder(ids.repeat(3, 1))):
            worst = max(worst, float((x - right).abs().max()))
    print(f"{directory}: {encoder.name}: hidden states differ by {worst:.1e} at most")
    return worst <= 1e-4


def measure(directory, B, T, threads, runs):
    torch.set_num_threads(threads)
    encoder = Encoder(directory)
    rng = np.random.default_rng(1)
    ids = torch.from_numpy(rng.integers(6, encoder.vocab, (B, T)))
    rates = []
    for run in range(runs + 1):
        start = time.perf_counter()
        encoder(ids)
        if run > 0:
            rates.append(B * T / (time.perf_counter() - start))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{encoder.name} {B} x {T}, threads {threads}: {statistics.median(rates):.0f} tokens/s "
        f"[{min(rates):.0f} {max(rates):.0f}], peak {peak:.0f} MiB"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], usage="%(prog)s DIR B T [options] | --check DIR..."
    )
    parser.add_argument("--check", action="store_true", help="compare with DIR/hidden.npy")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("what", nargs="+", help="DIR B T, or directories to check")
    args = parser.parse_args()
    with torch.inference_mode():
        if args.check:
            right = [check(pathlib.Path(directory)) for directory in args.what]
            return 0 if all(right) else 1
        if len(args.what) != 3:
            parser.error("DIR, B and T are needed")
        directory, B, T = args.what
        measure(pathlib.Path(directory), int(B), int(T), args.threads, args.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())

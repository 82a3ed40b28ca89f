#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Masked-language-model training of RoFormer a second time, in PyTorch, for its golden numbers.

  pretrain_reference.py            writes tests/golden/pretrain anew
  pretrain_reference.py -o DIR     the same into DIR
  pretrain_reference.py --check    is this program right, are the files in DIR what it makes?

For each of the random models tests/golden/roformer and tests/golden/roformer-rotary-value:

  MODEL.json          batches, losses, settings and ten steps of AdamW; see below
  MODEL.safetensors   float64: the gradient of each trained tensor, under its name in the model

The equations are those of src/model/encoder.c; a sequence goes through alone, so there is no
padding and no mask. Gradients are PyTorch's own (autograd), in float64.

  loss       mean of -log softmax(logits)[label] over the tokens with a label of 0 or more
  gradient   norm: of all tensors as one vector; clipped: times min(1, clip / (norm + 1e-6))
  AdamW      step t = 1 .. 10, each on a batch of its own; g is the clipped gradient
             w -= lr decay w                 decay: of tensors of two dimensions; vectors: 0
             m  = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
             w -= lr m / (1 - b1^t) / ( sqrt(v / (1 - b2^t)) + eps )

MODEL.json:

  "model"        directory of the model
  "gradient"     "batch", "loss", "norm": of the tensors in MODEL.safetensors
  "settings"     of AdamW: "lr", "beta1", "beta2", "eps", "weight_decay", "steps"
  "batches"      [10], of the steps
  "runs"         [2], the ten steps from the model's weights with "clip" 1, which cuts them all,
                 and 10, which cuts some; each in float64 and in float32, "f64" and "f32":
                   "losses", "norms"  [10], before each step and before clipping
                   "after"            tensor -> "sum", "sum_of_squares" and "moved", the sum of
                                      squares of what the ten steps added (sums in float64)

  a batch        "offsets" [sequences + 1], "ids" and "labels" [offsets[sequences]]: sequence s
                 is tokens offsets[s] .. offsets[s + 1] - 1; a label of -1 is none

Everything is seeded and runs on one thread. Needs: python3, NumPy, PyTorch (Debian:
python3-numpy, python3-torch).
"""
import argparse
import json
import math
import pathlib
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

import tensorfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
MODELS = {"roformer": 501, "roformer-rotary-value": 502}  # and the seed of their batches
SETTINGS = {
    "lr": 1e-3,
    "beta1": 0.9,
    "beta2": 0.98,
    "eps": 1e-6,
    "weight_decay": 0.01,
    "steps": 10,
}
CLIPS = (1.0, 10.0)
CLS, SEP, MASK, FIRST_KMER = 2, 3, 4, 5
NO_LABEL = -1
POSITIONS = "roformer.encoder.embed_positions.weight"  # sines, not trained
WORD = "roformer.embeddings.word_embeddings.weight"
TYPE = "roformer.embeddings.token_type_embeddings.weight"
HEAD = "cls.predictions"


# ---------------------------------------------------------------- files ----------------------


def write_safetensors(path, tensors):
    """float64 arrays by name; the data starts at a multiple of 64 bytes."""
    header, end = {}, 0
    for name, values in tensors.items():
        begin, end = end, end + values.size * 8
        header[name] = {"dtype": "F64", "shape": values.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-(8 + len(text)) % 64)
    body = b"".join(values.astype("<f8").tobytes() for values in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + body)


def json_text(value, indent=0):
    """As JSON with a line for each list of numbers and each object of numbers."""
    inner = " " * (indent + 1)
    if isinstance(value, dict) and any(isinstance(v, (dict, list)) for v in value.values()):
        lines = (f'{inner}"{key}": {json_text(v, indent + 1)}' for key, v in value.items())
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        lines = (inner + json_text(v, indent + 1) for v in value)
        return "[\n" + ",\n".join(lines) + "\n" + " " * indent + "]"
    return json.dumps(value)


# ---------------------------------------------------------------- model ----------------------


class Roformer:
    def __init__(self, directory, dtype):
        self.config = json.loads((directory / "config.json").read_text())
        if self.config["hidden_act"] != "gelu":
            raise SystemExit(f"{directory}: only gelu is written down here")
        self.dtype = dtype
        stored = tensorfile.read_file(directory / "model.safetensors")
        self.weights = {
            name: torch.tensor(stored[name], dtype=dtype, requires_grad=True)
            for name in sorted(stored)
            if name != POSITIONS
        }

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        w, b = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return F.layer_norm(x, w.shape, w, b, self.config["layer_norm_eps"])

    def turn(self, x):
        """x [heads, tokens, K]: pair (2i, 2i + 1) of token t by the angle t 10000^(-2i/K)."""
        tokens, size = x.shape[1:]
        frequency = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angle = torch.arange(tokens, dtype=torch.float64)[:, None] * frequency
        cos, sin = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
        return turned.reshape(x.shape)

    def attention(self, x, layer):
        tokens, width = x.shape
        heads = self.config["num_attention_heads"]
        q, k, v = (
            self.linear(x, f"{layer}.attention.self.{name}")
            .reshape(tokens, heads, width // heads)
            .transpose(0, 1)
            for name in ("query", "key", "value")
        )
        q, k = self.turn(q), self.turn(k)
        if self.config["rotary_value"]:
            v = self.turn(v)
        scores = q @ k.transpose(1, 2) / math.sqrt(width // heads)
        return (torch.softmax(scores, dim=-1) @ v).transpose(0, 1).reshape(tokens, width)

    def hidden(self, ids):
        """The last layer's states [tokens, D] of one sequence."""
        x = self.weights[WORD][ids] + self.weights[TYPE][0]
        x = self.norm(x, "roformer.embeddings.LayerNorm")
        if self.config["embedding_size"] != self.config["hidden_size"]:
            x = self.linear(x, "roformer.embeddings_project")
        for n in range(self.config["num_hidden_layers"]):
            layer = f"roformer.encoder.layer.{n}"
            a = self.linear(self.attention(x, layer), f"{layer}.attention.output.dense")
            x = self.norm(x + a, f"{layer}.attention.output.LayerNorm")
            f = F.gelu(self.linear(x, f"{layer}.intermediate.dense"))
            f = self.linear(f, f"{layer}.output.dense")
            x = self.norm(x + f, f"{layer}.output.LayerNorm")
        return x

    def logits(self, x):
        y = F.gelu(self.linear(x, f"{HEAD}.transform.dense"))
        y = self.norm(y, f"{HEAD}.transform.LayerNorm")
        return y @ self.weights[WORD].T + self.weights[f"{HEAD}.bias"]

    def loss(self, batch):
        total = torch.zeros((), dtype=self.dtype)
        for beg, end in zip(batch["offsets"], batch["offsets"][1:]):
            x = self.hidden(torch.tensor(batch["ids"][beg:end]))
            labels = torch.tensor(batch["labels"][beg:end])
            rows = labels != NO_LABEL
            if rows.any():
                logits = self.logits(x[rows])
                total = total + F.cross_entropy(logits, labels[rows], reduction="sum")
        return total / sum(label != NO_LABEL for label in batch["labels"])


# ---------------------------------------------------------------- batches --------------------


def make_batch(random, lengths, vocab_size):
    """Sequences [CLS] k-mers [SEP] of these lengths, the second one without a label.

    Half of the k-mers are from a few that come again and again, so that rows of the table get
    more than one term. A quarter of the tokens, 20 at least, is hidden: 3 kept, 3 random, the
    rest [MASK].
    """
    common = random.randint(FIRST_KMER, vocab_size, 12)
    ids, places, offsets = [], [], [0]
    for s, length in enumerate(lengths):
        n = length - 2
        any_one = random.randint(FIRST_KMER, vocab_size, n)
        kmers = np.where(random.rand(n) < 0.5, random.choice(common, n), any_one)
        if s != 1:
            places += range(offsets[-1] + 1, offsets[-1] + 1 + n)
        ids += [CLS, *kmers.tolist(), SEP]
        offsets.append(len(ids))
    labels = [NO_LABEL] * len(ids)
    n_hidden = min(30, max(20, len(ids) // 4))
    for i, place in enumerate(random.permutation(places)[:n_hidden].tolist()):
        labels[place] = ids[place]
        if i >= 6:
            ids[place] = MASK
        elif i >= 3:
            other = int(random.randint(FIRST_KMER, vocab_size - 1))
            ids[place] = other + (other >= labels[place])
    return {"offsets": offsets, "ids": ids, "labels": labels}


def make_batches(seed, vocab_size):
    """The gradient's batch and those of the steps.

    The first has 196 tokens; row 128, where a tile of rows ends, is inside its fifth sequence.
    """
    random = np.random.RandomState(seed)
    first = make_batch(random, [41, 7, 3, 64, 50, 31], vocab_size)
    rest = []
    for _ in range(SETTINGS["steps"]):
        lengths = random.randint(3, 61, random.randint(3, 8)).tolist()
        rest.append(make_batch(random, [*lengths, 40], vocab_size))
    return first, rest


# ---------------------------------------------------------------- training -------------------


def gradient(model, batch):
    """Loss, norm and {name: array} of a batch."""
    loss = model.loss(batch)
    grads = torch.autograd.grad(loss, list(model.weights.values()))
    norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in grads))
    return loss.item(), norm, {name: g.numpy() for name, g in zip(model.weights, grads)}


def train(directory, dtype, batches, clip):
    """Ten steps by PyTorch's own optimiser."""
    model = Roformer(directory, dtype)
    begin = {name: w.detach().clone() for name, w in model.weights.items()}
    weights = list(model.weights.values())
    matrices = [w for w in weights if w.dim() == 2]
    vectors = [w for w in weights if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": SETTINGS["weight_decay"]},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=SETTINGS["lr"],
        betas=(SETTINGS["beta1"], SETTINGS["beta2"]),
        eps=SETTINGS["eps"],
    )
    losses, norms = [], []
    for batch in batches:
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(weights, clip).item())
        losses.append(loss.item())
        optimizer.step()
    after = {}
    for name, w in model.weights.items():
        end, moved = w.detach().double(), w.detach().double() - begin[name].double()
        after[name] = {
            "sum": end.sum().item(),
            "sum_of_squares": (end**2).sum().item(),
            "moved": (moved**2).sum().item(),
        }
    return {"losses": losses, "norms": norms, "after": after}


def make_golden(name):
    """What becomes MODEL.json, and the gradients."""
    model = Roformer(GOLDEN / name, torch.float64)
    first, rest = make_batches(MODELS[name], model.config["vocab_size"])
    loss, norm, grads = gradient(model, first)
    golden = {
        "model": f"tests/golden/{name}",
        "gradient": {"loss": loss, "norm": norm, "batch": first},
        "settings": SETTINGS,
        "batches": rest,
        "runs": [
            {
                "clip": clip,
                "f64": train(GOLDEN / name, torch.float64, rest, clip),
                "f32": train(GOLDEN / name, torch.float32, rest, clip),
            }
            for clip in CLIPS
        ],
    }
    return golden, grads


# ---------------------------------------------------------------- check ----------------------


class Report:
    def __init__(self, name):
        self.name = name
        self.good = True

    def line(self, what, error, limit):
        """A difference above its limit, or one that is NaN, is a failure of all."""
        self.good = self.good and bool(error <= limit)
        verdict = f"largest difference {error:.1e} (limit {limit:.0e})"
        print(f"{self.name}: {what}: {verdict}{'' if error <= limit else '  FAILED'}")


def far(ours, theirs):
    """Largest difference, relative to the largest of theirs."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    scale = np.abs(theirs).max()
    return float(np.abs(ours - theirs).max() / (scale if scale > 0.0 else 1.0))


def check_forward(report, directory):
    """Hidden states and logits, as the model's files have them from the published code."""
    model = Roformer(directory, torch.float64)
    expected = json.loads((directory / "expected.json").read_text())
    hidden = np.load(directory / "hidden.npy")
    logits = np.load(directory / "logits.npy")
    of_vectors, of_hidden, of_logits = [], [], []
    for case in expected["cases"]:
        with torch.no_grad():
            x = model.hidden(torch.tensor(case["input_ids"]))
            y = model.logits(x).numpy()
        x, row = x.numpy(), case["hidden_row"]
        of_vectors.append(np.abs(x[0] - case["f64"]["cls"]).max())
        of_vectors.append(np.abs(x.mean(axis=0) - case["f64"]["mean_all"]).max())
        of_hidden.append(np.abs(x - hidden[row : row + len(x)]).max())
        for mlm in case.get("mlm", []):
            of_logits.append(np.abs(y[mlm["position"]] - logits[mlm["logits_row"]]).max())
    report.line("float64 vectors of expected.json", max(of_vectors), 1e-6)
    report.line("hidden.npy", max(of_hidden), 5e-5)
    report.line("logits.npy", max(of_logits), 1e-4)


def slope(model, batch, name, direction):
    """Of the loss as this tensor goes that way: a difference quotient of fourth order."""
    step = 1e-3
    weight = model.weights[name]
    begin = weight.detach().clone()

    def loss_at(times):
        with torch.no_grad():
            weight.copy_(begin + times * step * direction)
            return model.loss(batch).item()

    quotient = 8.0 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))
    with torch.no_grad():
        weight.copy_(begin)
    return quotient / (12.0 * step)


def check_gradient(report, name, batch, grads):
    """Per tensor three elements, one way through all of them, and what must be 0."""
    model = Roformer(GOLDEN / name, torch.float64)
    random = np.random.RandomState(7)
    worst_element, worst_way = 0.0, 0.0
    for tensor, grad in grads.items():
        largest = np.abs(grad).max()
        for _ in range(3):
            at = np.unravel_index(random.randint(grad.size), grad.shape)
            direction = torch.zeros(grad.shape, dtype=torch.float64)
            direction[at] = 1.0
            found = slope(model, batch, tensor, direction)
            worst_element = max(worst_element, abs(found - grad[at]) / largest)
        way = random.standard_normal(grad.shape)
        way /= np.linalg.norm(way)
        found = slope(model, batch, tensor, torch.tensor(way))
        size = np.linalg.norm(grad) / math.sqrt(grad.size)
        worst_way = max(worst_way, abs(found - (way * grad).sum()) / size)
    report.line("gradient, elements by differences", worst_element, 1e-7)
    report.line("gradient, directions by differences", worst_way, 1e-7)
    report.line("gradient of token type 1", np.abs(grads[TYPE][1]).max(), 0.0)


def check_steps(report, name, batches, run):
    """A run by the formula above."""
    s, golden = SETTINGS, run["f64"]
    model = Roformer(GOLDEN / name, torch.float64)
    m = {tensor: np.zeros(w.shape) for tensor, w in model.weights.items()}
    v = {tensor: np.zeros(w.shape) for tensor, w in model.weights.items()}
    losses, norms = [], []
    for t, batch in enumerate(batches, 1):
        loss, norm, grads = gradient(model, batch)
        losses.append(loss)
        norms.append(norm)
        factor = min(1.0, run["clip"] / (norm + 1e-6))
        for tensor, grad in grads.items():
            w, g = model.weights[tensor].detach().numpy(), factor * grad
            w -= s["lr"] * (s["weight_decay"] if w.ndim == 2 else 0.0) * w
            m[tensor] = s["beta1"] * m[tensor] + (1.0 - s["beta1"]) * g
            v[tensor] = s["beta2"] * v[tensor] + (1.0 - s["beta2"]) * g * g
            root = np.sqrt(v[tensor] / (1.0 - s["beta2"] ** t)) + s["eps"]
            w -= s["lr"] * (m[tensor] / (1.0 - s["beta1"] ** t)) / root
    title = f"clip {run['clip']:g}"
    squares = [float((w.detach() ** 2).sum()) for w in model.weights.values()]
    wanted = [after["sum_of_squares"] for after in golden["after"].values()]
    report.line(f"{title}, ten losses by the formula", far(losses, golden["losses"]), 1e-10)
    report.line(f"{title}, ten norms by the formula", far(norms, golden["norms"]), 1e-10)
    ratio = np.abs(np.array(squares) / np.array(wanted) - 1.0).max()
    report.line(f"{title}, weights after them by the formula", ratio, 1e-10)
    between = far(run["f32"]["losses"], golden["losses"])
    report.line(f"{title}, ten losses in float32 and float64", between, 1e-5)


def check_files(report, directory, golden, grads):
    stored = json.loads((directory / f"{report.name}.json").read_text())
    same = ("model", "settings", "batches")
    differ = sum(stored[key] != golden[key] for key in same)
    differ += stored["gradient"]["batch"] != golden["gradient"]["batch"]
    report.line("stored batches and settings that differ", differ, 0.0)
    for kind, limit in (("f64", 1e-9), ("f32", 1e-4)):
        error = 0.0
        for ours, theirs in zip(golden["runs"], stored["runs"]):
            ours, theirs = ours[kind], theirs[kind]
            for key in ("losses", "norms"):
                error = max(error, far(ours[key], theirs[key]))
            for tensor, after in theirs["after"].items():
                found = ours["after"][tensor].values()
                error = max(error, far(list(found), list(after.values())))
        report.line(f"stored steps in {kind}", error, limit)
    tensors = tensorfile.read_file(directory / f"{report.name}.safetensors")
    report.line("stored tensors missing", len(set(grads) ^ set(tensors)), 0.0)
    error = max(far(grads[tensor], values) for tensor, values in tensors.items())
    of_loss = abs(stored["gradient"]["loss"] / golden["gradient"]["loss"] - 1.0)
    of_norm = abs(stored["gradient"]["norm"] / golden["gradient"]["norm"] - 1.0)
    report.line("stored gradients, loss and norm", max(error, of_loss, of_norm), 1e-9)


def check(directory):
    good = True
    for name in MODELS:
        report = Report(name)
        golden, grads = make_golden(name)
        check_forward(report, GOLDEN / name)
        check_gradient(report, name, golden["gradient"]["batch"], grads)
        for run in golden["runs"]:
            check_steps(report, name, golden["batches"], run)
        check_files(report, directory, golden, grads)
        good = good and report.good
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument(
        "-o", dest="directory", metavar="DIR", type=pathlib.Path, default=GOLDEN / "pretrain"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if args.check:
        return check(args.directory)
    args.directory.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        golden, grads = make_golden(name)
        (args.directory / f"{name}.json").write_text(json_text(golden) + "\n")
        write_safetensors(args.directory / f"{name}.safetensors", grads)
    return 0


if __name__ == "__main__":
    sys.exit(main())

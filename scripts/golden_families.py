#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny random models of every published family, and what scripts/reference.py computes of them.

  golden_families.py              writes tests/golden/NAME anew, for every NAME in SETS below
  golden_families.py -o DIR       the same into DIR/NAME
  golden_families.py --check      are the files in tests/golden what this program makes?
  golden_families.py --mistakes [NAME...]
                                  how far common mistakes throw the numbers off

NAME/ holds

  config.json, model.safetensors  in the published form of the family, see scripts/families.py
  vocab.txt or tokenizer.json     k-mers as published; byte pairs learnt from random DNA
  tokenizer_config.json
  expected.json                   cases: sequence, input_ids, pooled vectors in float64 ("f64"),
                                  masked-language-model rows ("mlm"); and which ids are special
  hidden.npy                      last hidden states of all cases, rows hidden_row on, float32
  layers.npy                      [L + 1, T, D], of the case "short"
  logits.npy                      the rows that "mlm" names; none without such a head
  tokens.json                     texts with their ids, by scripts/tokenize_naive.py
  README.md                       with the table of --mistakes

A tolerance of 1e-4 of hidden states and 2e-4 of logits has to tell right from wrong, so the
weights are drawn for that: see Weights. Everything is seeded. Needs: python3, numpy.
"""
import argparse
import collections
import dataclasses
import filecmp
import json
import math
import pathlib
import re
import sys
import tempfile

import numpy as np

import families
import family_mistakes
import reference
import tensorfile
import tokenize_naive

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"

# ---------------------------------------------------------------- vocabularies ---------------


def random_dna(rng, n, letters="ACGT"):
    return "".join(rng.choice(list(letters), n))


def repetitive_dna(rng, n):
    """Some words are common, so that merges of merges are worth it."""
    words = [random_dna(rng, int(length)) for length in rng.integers(2, 9, 24)]
    text = ""
    while len(text) < n:
        text += words[min(int(rng.geometric(0.12)), 24) - 1] + random_dna(rng, 2)
    return text[:n]


def learn_merges(texts, n):
    """The n most frequent pairs, each counted after the merges before it; ties go to the pair
    that sorts first, and pairs that would make a token again are passed over."""
    words = [list(text) for text in texts]
    merges, made = [], set()
    while len(merges) < n:
        counts = collections.Counter(
            pair for word in words for pair in zip(word, word[1:]) if "".join(pair) not in made
        )
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        made.add("".join(best))
        for word in words:
            for i in range(len(word) - 2, -1, -1):
                if tuple(word[i : i + 2]) == best:
                    word[i : i + 2] = ["".join(best)]
    return merges


def dnabert2_tokenizer(rng, vocab, tuned=False):
    """tuned: as saved after fine-tuning, with limits and paddings that do not count."""
    merges = learn_merges([repetitive_dna(rng, 4000)], vocab - 9)
    return families.dnabert2_tokenizer(merges, tuned)


def gena_tokenizer(rng, vocab, first=False, new=False):
    """first: of the first generation, which knows no N; new: as newer libraries write it."""
    words = [repetitive_dna(rng, 4000)]
    if first:
        return families.first_gena_tokenizer(learn_merges(words, vocab - 10))
    words += ["NNNN"] * 60 + [letter + "ACGT" for letter in families.IUPAC]
    merges = learn_merges(words, vocab - 6 - len(families.IUPAC))
    return families.gena_tokenizer(merges, new)


# ---------------------------------------------------------------- the sets -------------------

# Sizes differ from each other and are no multiples of what a vector register holds.
Size = families.Size


def old_names(config, layout):
    """A conversion of old: no prefix, the norms' tensors called gamma and beta."""
    renamed = []
    for name, dtype, shape in layout:
        name = name.removeprefix("bert.")
        if "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        renamed.append((name, dtype, shape))
    return {**config, "layer_norm_eps": 1e-12}, renamed


def first_gena(config, layout):
    """Read, not assumed: another eps than that of all others."""
    return {**config, "layer_norm_eps": 1e-5}, layout


@dataclasses.dataclass(frozen=True)
class Set:
    seed: int
    family: str
    made: tuple  # (config, layout)
    vocabulary: object  # lines of vocab.txt, or (function of tokenizer.json, its options)
    tokenizer_config: dict
    limit: int  # tokens of a sequence; 0: any number
    pad: int
    mask: int
    ends: tuple  # ids before and after the content


WORDS = families.dnabert_vocabulary(3)
NT1_WORDS = families.nucleotide_vocabulary(3, ends=False)
NT2_WORDS = families.nucleotide_vocabulary(3, ends=True)
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
ENDLESS = {**FAST, "model_max_length": int(1e30)}  # as published; no 64-bit integer holds it
ESM = {"eos_token": None, "tokenizer_class": "EsmTokenizer"}

SETS = {
    "dnabert": Set(
        seed=601,
        family="dnabert-k3",
        made=families.dnabert(Size(len(WORDS), 24, 3, 2, 28, 512)),
        vocabulary=WORDS,
        tokenizer_config={"do_lower_case": True, "max_len": 512},
        limit=512,
        pad=0,
        mask=4,
        ends=(2, 3),
    ),
    "dnabert-gamma": Set(
        seed=602,
        family="dnabert-k3",
        made=old_names(*families.dnabert(Size(len(WORDS), 20, 4, 2, 26, 64))),
        vocabulary=WORDS,
        tokenizer_config={"do_lower_case": True, "max_len": 64},
        limit=64,
        pad=0,
        mask=4,
        ends=(2, 3),
    ),
    "nt-v1": Set(
        seed=603,
        family="nucleotide-transformer-v1",
        made=families.nucleotide(Size(len(NT1_WORDS), 20, 4, 2, 26, 66), 1),
        vocabulary=NT1_WORDS,
        tokenizer_config={**ESM, "model_max_length": 64},
        limit=64,
        pad=1,
        mask=2,
        ends=(3,),
    ),
    "nt-v1-norm-before": Set(
        seed=604,
        family="nucleotide-transformer-v1",
        made=families.nucleotide(Size(len(NT1_WORDS), 24, 4, 2, 30, 66), 1, norm_before=True),
        vocabulary=NT1_WORDS,
        tokenizer_config={**ESM, "model_max_length": 64},
        limit=64,
        pad=1,
        mask=2,
        ends=(3,),
    ),
    "nt-v2": Set(
        seed=605,
        family="nucleotide-transformer-v2",
        made=families.nucleotide(Size(len(NT2_WORDS), 24, 4, 2, 26, 130), 2),
        vocabulary=NT2_WORDS,
        tokenizer_config={**ESM, "model_max_length": 128},
        limit=128,
        pad=1,
        mask=2,
        ends=(3,),
    ),
    "dnabert-2": Set(
        seed=606,
        family="dnabert-2",
        made=families.dnabert2(Size(98, 24, 6, 2, 22, 512)),
        vocabulary=(dnabert2_tokenizer, {}),
        tokenizer_config=ENDLESS,
        limit=0,
        pad=3,
        mask=4,
        ends=(1, 2),
    ),
    "dnabert-s": Set(
        seed=607,
        family="dnabert-s",
        made=families.dnabert2(Size(90, 20, 4, 2, 26, 512), pooler=True),
        vocabulary=(dnabert2_tokenizer, {"tuned": True}),
        tokenizer_config=ENDLESS,
        limit=0,
        pad=3,
        mask=4,
        ends=(1, 2),
    ),
    "gena-lm": Set(
        seed=608,
        family="gena-lm",
        made=families.gena(Size(110, 24, 3, 2, 30, 128), decoder=True),
        vocabulary=(gena_tokenizer, {}),
        tokenizer_config=FAST,
        limit=128,
        pad=3,
        mask=4,
        ends=(1, 2),
    ),
    "gena-lm-lastln": Set(
        seed=609,
        family="gena-lm",
        made=first_gena(
            *families.gena(
                Size(100, 20, 2, 2, 26, 64), closing=True, decoder=True, pretraining=True
            )
        ),
        vocabulary=(gena_tokenizer, {"first": True}),
        tokenizer_config=FAST,
        limit=64,
        pad=3,
        mask=4,
        ends=(1, 2),
    ),
    "gena-lm-rope": Set(
        seed=610,
        family="gena-lm",
        made=families.gena(Size(104, 24, 2, 2, 30, 128), rotary=(5000, 6)),
        vocabulary=(gena_tokenizer, {"new": True}),
        tokenizer_config=FAST,
        limit=128,
        pad=3,
        mask=4,
        ends=(1, 2),
    ),
}

# ---------------------------------------------------------------- weights --------------------

STREAM = 0.02  # the size of what goes from block to block
FINAL = 1.5  # and of what leaves the last norm
OPEN = 3.5  # and the last layer, where no norm comes after it


class Weights:
    """Random values by what a tensor is for. What queries, keys, values and activations get is
    of size one, as in a trained model, and so is what the model gives. But the sums that norms
    see are of size STREAM, so that an eps of 1e-5 instead of 1e-12 shows; and what enters a
    GELU lies about -2, where it is small and its tanh approximation 1 % off. All biases are
    random and of the size of what they are added to."""

    def __init__(self, seed, config, layout):
        self.rng = np.random.default_rng(seed)
        self.config = config
        self.made = {}
        names = " ".join(name for name, _, _ in layout)
        self.tied = "lm_head" not in names
        self.gated = "intermediate.dense.bias" not in names
        self.norm_first = "pre_attention_ln" in names or "emb_layer_norm_after" in names
        self.closing = "last_layer_ln" in names or "emb_layer_norm_after" in names
        self.final = OPEN if self.norm_first and not self.closing else FINAL

    def noise(self, shape, size=1.0, centre=0.0):
        return centre + size * self.rng.standard_normal(shape)

    def dense(self, kind, shape, reads=1.0, writes=1.0, centre=0.0):
        """A product that gets values of size `reads` and gives those of size `writes`."""
        if kind == "bias":
            return writes * self.noise(shape, 0.5, centre)
        return self.noise(shape, writes / (reads * math.sqrt(shape[1])))

    def norm(self, kind, shape, writes=1.0):
        value = self.noise(shape, 0.5) if kind == "bias" else self.noise(shape, 0.3, 1.0)
        return writes * value

    def draw(self, name, shape):
        width = self.config["hidden_size"]
        last = f".layer.{self.config['num_hidden_layers'] - 1}." in name
        stem, kind = name.rsplit(".", 1)
        kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)
        in_block = 1.0 if self.norm_first else STREAM

        # The head and what else reads the last hidden states.
        if re.search(r"predictions.transform.LayerNorm|lm_head.layer_norm", stem):
            decoder = STREAM * math.sqrt(width) if self.tied else 3.0
            return self.norm(kind, shape, 3.0 / decoder)
        if re.search(r"predictions.transform.dense|lm_head.dense", stem):
            return self.dense(kind, shape, self.final, 0.7, centre=-2.8)
        if stem in ("lm_head", "cls.predictions", "cls.predictions.decoder") and kind == "bias":
            return self.noise(shape)
        if stem == "lm_head.decoder":
            return self.noise(shape, 3.0 / math.sqrt(width))
        if re.search(r"pooler|seq_relationship|contact_head", stem):
            return self.dense(kind, shape, self.final)
        # The embeddings.
        if re.search(r"(word|position|token_type)_embeddings", stem):
            return self.noise(shape, STREAM)
        if re.search(r"embeddings\.(LayerNorm|layer_norm)", stem):
            return self.norm(kind, shape, STREAM)
        # The norms: of blocks and the closing one.
        if re.search(r"last_layer_ln|emb_layer_norm_after", stem):
            return self.norm(kind, shape, FINAL)
        if self.norm_first and re.search(r"LayerNorm|attention_ln", stem):
            return self.norm(kind, shape)
        if re.search(r"\d\.output\.LayerNorm|mlp\.layernorm", stem) and last:
            return self.norm(kind, shape, FINAL)
        if re.search(r"LayerNorm|layernorm", stem):
            return self.norm(kind, shape, STREAM)
        # The products of blocks: what leaves a block, what enters it.
        if re.search(r"\d\.output.dense|mlp.wo", stem):
            # A GELU about -2 gives little, a gate more.
            gain = 2.5 if self.gated else 8.0
            is_open = last and self.final == OPEN
            return self.dense(kind, shape, writes=gain * (1.0 if is_open else STREAM))
        if stem.endswith("attention.output.dense"):
            return self.dense(kind, shape, writes=STREAM)
        if stem.endswith("intermediate.dense"):
            return self.dense(kind, shape, in_block, centre=-2.0)
        return self.dense(kind, shape, in_block)

    def __call__(self, name, dtype, shape):
        """What tensorfile.write_file() asks for."""
        if dtype == "I64":
            yield np.arange(shape[1]).reshape(shape)
            return
        if name.endswith("inv_freq"):
            turned = 2 * shape[0]
            base = self.config.get("rotary_base", 10000.0)
            yield base ** (-2.0 * np.arange(shape[0]) / turned)
            return
        copies = {
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }
        value = self.made.get(copies.get(name))
        self.made[name] = self.draw(name, shape) if value is None else value
        yield self.made[name]


# ---------------------------------------------------------------- texts ----------------------


def is_kmers(tokenizer):
    return isinstance(tokenizer, tokenize_naive.Kmers)


def mask_text(tokenizer):
    return "<mask>" if isinstance(tokenizer, tokenize_naive.Longest) else "[MASK]"


def sequences(rng, tokenizer):
    """{case: sequence}."""

    def dna(n):
        return random_dna(rng, n)

    texts = {
        "short": "ACGTACGTTGCAACGTTAGC",
        "medium": dna(97),
        "lower": dna(41).lower(),
        "with_n": dna(13) + "N" + dna(9) + "NN" + dna(17) + "N" * 12 + dna(20),
        "long": dna(140),
        "mixed": "ACGTRYKM" + dna(11) + dna(7).lower() + dna(12) + "-" + dna(8) + "U" + dna(7),
        "tiny": dna(7),
        "very_long": dna(600),
    }
    if not is_kmers(tokenizer):
        texts["with_mask_text"] = texts["short"] + mask_text(tokenizer) + dna(30)
    return texts


def token_texts(rng, tokenizer):
    """Texts that tokenizers differ in."""

    def dna(n):
        return random_dna(rng, n)

    def letters(n):
        return random_dna(rng, n, "ACGTRYSWKMBDHVN")

    texts = ["", "A", "AC", "ACG", "ACGTA", "ACGTAC", "ACGTACG"]
    texts += [dna(n) for n in (12, 50, 51, 300)]
    texts += [dna(30).lower(), dna(10) + dna(10).lower() + dna(13)]
    texts += [dna(11) + "N" * n + dna(10) for n in (1, 2, 5, 6, 9, 10, 11, 19, 20, 35)]
    texts += ["N" * n for n in (1, 4, 12)]
    texts += ["NN" + dna(20), dna(20) + "NNN", "N" * 15 + dna(7) + "N" * 10]
    texts += [dna(9) + "n" * 12 + dna(9)]
    texts += ["A" * 40, "T" * 13, "CA" * 25, "GATC" * 11, "AAT" * 10, "CCCCCCCGGGGGGGGG"]
    texts += [letters(25), letters(40), dna(18).replace("T", "U"), dna(10) + "X" + dna(10)]
    texts += [dna(6) + "12" + dna(6), dna(8) + "-" + dna(9), dna(7) + "--" + dna(6) + "."]
    texts += [dna(9) + "*" + dna(9), dna(5) + "-" * 12 + dna(5), dna(7) + "_" + dna(7)]
    if not is_kmers(tokenizer):
        mask = mask_text(tokenizer)
        texts += [" " + dna(9), dna(9) + "  ", dna(9) + " " + dna(9), f"{dna(9)}\n{dna(9)}\t"]
        texts += [dna(5) + " NNN " + dna(5), " ", " " + "N" * 14 + " "]
        texts += [mask, dna(9) + mask + dna(9), mask + mask + dna(7)]
        texts += [f"{dna(6)} {mask} {dna(6)}", dna(4) + mask + "N" * 11 + mask]
        texts += [dna(8) + "[PAD][CLS]" + dna(5), dna(8) + "<pad><eos>" + dna(5) + "<unk>"]
    return texts


def tokens_of(rng, tokenizer, limit):
    texts = token_texts(rng, tokenizer)
    items = [{"text": text, "ids": tokenizer.encode(text)} for text in texts]
    if is_kmers(tokenizer):
        text = "[MASK] [MASK] ACG [MASK]"
        items.append({"kmer_text": text, "ids": tokenizer.encode_kmers(text)})
    cut = [(random_dna(rng, 200), 16), ("N" * 40, 8), (random_dna(rng, 30), 2)]
    cut += [(random_dna(rng, 1500), limit)] if limit else []
    for text, n in cut:
        items.append({"text": text, "max_length": n, "ids": tokenizer.encode(text, n)})
    longest = isinstance(tokenizer, tokenize_naive.Longest)
    special = "<cls> first, nothing after" if longest else "[CLS] ... [SEP]"
    return {"tokenizer": "scripts/tokenize_naive.py", "special": special, "items": items}


# ---------------------------------------------------------------- golden numbers -------------


def json_lines(value):
    """A line for each key of a dictionary and for each item of its lists of dictionaries."""
    lines = []
    for key, item in value.items():
        if isinstance(item, list) and item and isinstance(item[0], dict):
            inner = ",\n".join(json.dumps(x) for x in item)
            lines.append(f"{json.dumps(key)}: [\n{inner}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(item)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def make_cases(rng, golden, tokenizer):
    """[{name, sequence, input_ids, masked}]: of each sequence; and one with masks in its ids,
    at the positions "masked"."""
    cases = []
    for name, sequence in sequences(rng, tokenizer).items():
        ids = tokenizer.encode(sequence, golden.limit or None)
        cases.append({"name": name, "sequence": sequence, "input_ids": ids, "masked": []})
    long = next(case for case in cases if case["name"] == "long")
    ids = list(long["input_ids"])
    masked = [3, 4, len(ids) // 4, len(ids) // 2]
    for position in masked:
        ids[position] = golden.mask
    note = "ids of case long with the mask at mlm positions"
    cases.append({**long, "name": "masked", "note": note, "input_ids": ids, "masked": masked})
    return cases


def vector(x):
    return [float(value) for value in x]


def golden_numbers(directory, golden):
    """Writes expected.json and the arrays."""
    rng = np.random.default_rng([golden.seed, 1])
    tokenizer = tokenize_naive.load(directory)
    model = reference.Model(directory)
    special = sorted({golden.pad, *golden.ends})
    hidden, logits, cases = [], [], []
    for case in make_cases(rng, golden, tokenizer):
        ids = np.array(case["input_ids"])
        states = model.layers(ids)
        x = states[-1]
        content = np.flatnonzero(~np.isin(ids, special))
        if case["name"] == "short":
            np.save(directory / "layers.npy", np.stack(states).astype(np.float32))
        positions = case.pop("masked") or sorted({content[0], len(ids) // 2, content[-1]})
        case["length"] = len(ids)
        case["hidden_row"] = sum(map(len, hidden))
        case["content_positions"] = [int(content[0]), int(content[-1])]
        pooled = reference.pooled(model, x, ids, special)
        case["f64"] = {name: vector(value) for name, value in pooled.items()}
        if model.has_head():
            case["mlm"] = []
            for position in positions:
                y = model.logits(x[position])
                row = {
                    "position": int(position),
                    "logits_row": len(logits),
                    "argmax": int(y.argmax()),
                    "logsumexp_f64": float(np.logaddexp.reduce(y)),
                }
                case["mlm"].append(row)
                logits.append(y)
        hidden.append(x)
        cases.append(case)
    np.save(directory / "hidden.npy", np.concatenate(hidden).astype(np.float32))
    if logits:
        np.save(directory / "logits.npy", np.stack(logits).astype(np.float32))
    expected = {
        "family": golden.family,
        "computed_by": "scripts/reference.py, NumPy, float64",
        "pooling": "cls: row 0; mean_all: of all rows; mean_content: without special_ids; "
        "pooler: tanh of a product with row 0",
        "files": {
            "hidden.npy": "last hidden states, rows hidden_row .. hidden_row+length-1, float32",
            "layers.npy": "hidden states of case 'short': [layers+1, length, width], float32",
            "logits.npy": "rows named by mlm[].logits_row, float32",
        },
        "special_ids": special,
        "pad_id": golden.pad,
        "mask_id": golden.mask,
        "cases": cases,
    }
    if is_kmers(tokenizer):
        expected["mlm_output_bias_times"] = model.family.head_bias_times
        expected["token_only_cases"] = list(long_token_cases(rng, tokenizer))
    (directory / "expected.json").write_text(json_lines(expected))


def long_token_cases(rng, tokenizer):
    """About the 510 k-mers at which a text without a limit becomes several."""
    for n in (509, 510, 511, 1020, 1021):
        sequence = random_dna(rng, n + tokenizer.k - 1)
        limited, free = tokenizer.encode(sequence, 512), tokenizer.encode(sequence)
        case = {"name": f"{n}_kmers", "sequence": sequence}
        case["length_max_length_512"], case["length_no_limit"] = len(limited), len(free)
        if n in (510, 1021):
            case["ids_max_length_512"], case["ids_no_limit"] = limited, free
        yield case


# ---------------------------------------------------------------- files ----------------------


def make_model(directory, golden):
    """Everything but numbers: config.json, weights and vocabulary."""
    directory.mkdir(parents=True, exist_ok=True)
    config, layout = golden.made
    (directory / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (directory / "tokenizer_config.json").write_text(json.dumps(golden.tokenizer_config) + "\n")
    if isinstance(golden.vocabulary, list):
        # As published, without an end of line after the last.
        (directory / "vocab.txt").write_text("\n".join(golden.vocabulary))
    else:
        make, options = golden.vocabulary
        rng = np.random.default_rng([golden.seed, 2])
        tokenizer = make(rng, config["vocab_size"], **options)
        (directory / "tokenizer.json").write_text(json.dumps(tokenizer, indent=1) + "\n")
    tensorfile.write_file(
        directory / "model.safetensors", sorted(layout), Weights(golden.seed, config, layout)
    )
    rng = np.random.default_rng([golden.seed, 3])
    tokens = tokens_of(rng, tokenize_naive.load(directory), golden.limit)
    (directory / "tokens.json").write_text(json_lines(tokens))


README = """# {name}

A tiny random model of the family {family} in its published layout, and golden numbers of it.

Made by `scripts/golden_families.py`, which describes the files at its top, with seed {seed};
its `--check` says whether they are what it makes. The numbers are those of
`scripts/reference.py` in float64, the ids those of `scripts/tokenize_naive.py`. Nothing of a
published model is in it.

What mistakes cost here, as the largest difference over all cases: in one of the columns it has
to be {shown:.0f} times what float32 may differ by, {tolerance}.

{table}
"""


def make_readme(directory, name, golden):
    lines, weak = family_mistakes.table(directory)
    tolerance = [f"{value:.0e} of {what}" for what, value in family_mistakes.TOLERANCE.items()]
    text = README.format(
        name=name,
        family=golden.family,
        seed=golden.seed,
        shown=family_mistakes.SHOWN,
        tolerance=", ".join(tolerance),
        table="\n".join(lines),
    )
    (directory / "README.md").write_text(text)
    return weak


def make(directory, names):
    weak = []
    for name in names:
        make_model(directory / name, SETS[name])
        golden_numbers(directory / name, SETS[name])
        weak += make_readme(directory / name, name, SETS[name])
        print(directory / name)
    return weak


def check(names):
    """Whether models and tokens are what is made now, byte for byte, and numbers within their
    limits: their last digits may depend on the machine."""
    met = True
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            made, stored = pathlib.Path(scratch) / name, GOLDEN / name
            make_model(made, SETS[name])
            for path in sorted(made.iterdir()):
                if not filecmp.cmp(path, stored / path.name, shallow=False):
                    print(f"{stored / path.name} is not what this program makes")
                    met = False
            met = reference.check(stored) and met
            met = tokenize_naive.check(stored) and met
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", dest="directory", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--check", action="store_true", help="are the files right and of now?")
    parser.add_argument("--mistakes", action="store_true", help="what mistakes cost")
    parser.add_argument("names", metavar="NAME", nargs="*", help="of SETS; all by default")
    args = parser.parse_args()
    names = args.names or list(SETS)
    if args.check:
        return 0 if check(names) else 1
    if args.mistakes:
        weak = []
        for name in names:
            lines, too_weak = family_mistakes.table(args.directory / name)
            print(f"{name}\n\n" + "\n".join(lines) + "\n")
            weak += too_weak
    else:
        weak = make(args.directory, names)
    for line in weak:
        print(line, file=sys.stderr)
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Text to token ids as the published families do it, the plain way.

  tokenize_naive.py DIR < texts          ids of each line, a line
  tokenize_naive.py --check DIR...       compare with DIR/tokens.json, DIR/expected.json

DIR is a model directory, and what lies in it says which tokenizer it is:

  vocab.txt from [PAD]   DNABERT: overlapping k-mers, looked up as they are
  vocab.txt from <unk>   Nucleotide Transformer: from the left, the longest entry that fits
  tokenizer.json         DNABERT-2, GENA-LM: byte-pair encoding

Pairs to merge are found by looking at every pair each time, k-mers by slicing: this program is
for being right, not for being fast. Needs: python3.
"""
import argparse
import json
import pathlib
import re
import string
import sys

# ---------------------------------------------------------------- k-mers ---------------------


class Kmers:
    """DNABERT's. Its pieces of 510 k-mers are a constant of its code, whatever the model."""

    PIECE = 510
    KEPT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    MARKS = re.escape(string.punctuation)

    def __init__(self, directory):
        lines = (directory / "vocab.txt").read_text().splitlines()
        self.ids = {token: i for i, token in enumerate(lines)}
        self.k = max(len(token) for token in lines if token not in self.KEPT)

    def kmer_text(self, text):
        return " ".join(text[i : i + self.k] for i in range(len(text) - self.k + 1))

    def pieces(self, word):
        """Punctuation stands alone, and parts what is around it."""
        if word in self.KEPT:
            return [word]
        return re.findall(f"[{self.MARKS}]|[^{self.MARKS}]+", word)

    def encode_kmers(self, kmer_text, max_length=None):
        ids = [
            self.ids.get(piece, self.ids["[UNK]"])
            for word in kmer_text.split()
            for piece in self.pieces(word)
        ]
        cls, sep = self.ids["[CLS]"], self.ids["[SEP]"]
        if max_length is not None:
            return [cls, *ids[: max_length - 2], sep]
        # 510 k-mers or more become several; a full last one is followed by an empty one.
        out = []
        for begin in range(0, len(ids) + 1, self.PIECE):
            out += [cls, *ids[begin : begin + self.PIECE], sep]
        return out

    def encode(self, text, max_length=None):
        return self.encode_kmers(self.kmer_text(text), max_length)


# ---------------------------------------------------------------- longest entry --------------


class Longest:
    """The Nucleotide Transformer's."""

    def __init__(self, directory):
        lines = (directory / "vocab.txt").read_text().splitlines()
        self.ids = {token: i for i, token in enumerate(lines)}
        self.longest = max(map(len, lines))

    def entry(self, text, at):
        """The longest entry that starts here, or None."""
        for n in range(self.longest, 0, -1):
            if text[at : at + n] in self.ids and at + n <= len(text):
                return text[at : at + n]
        return None

    def encode(self, text, max_length=None):
        ids = [self.ids["<cls>"]]
        unknown = False  # in a word of characters that no entry starts with
        at = 0
        while at < len(text):
            entry = self.entry(text, at)
            if entry is not None:
                ids.append(self.ids[entry])
                unknown = False
                at += len(entry)
                continue
            if text[at].isspace():
                unknown = False
            elif not unknown:
                ids.append(self.ids["<unk>"])
                unknown = True
            at += 1
        return ids if max_length is None else ids[:max_length]


# ---------------------------------------------------------------- byte pairs -----------------


class BytePairs:
    """A tokenizer.json of model BPE, with the stages that these families have."""

    def __init__(self, directory):
        self.json = json.loads((directory / "tokenizer.json").read_text())
        model = self.json["model"]
        self.ids = model["vocab"]
        self.unknown = self.ids[model["unk_token"]]
        merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        self.rank = {tuple(pair): i for i, pair in enumerate(merges)}
        if len({first + second for first, second in self.rank}) < len(merges):
            raise ValueError(f"{directory}: two merges make one token")
        self.added = {token["content"]: token["id"] for token in self.json["added_tokens"]}

    def normalise(self, text, stage):
        if stage is None:
            return text
        if stage["type"] == "Sequence":
            for part in stage["normalizers"]:
                text = self.normalise(text, part)
            return text
        if stage["type"] == "Strip":
            text = text.lstrip() if stage["strip_left"] else text
            return text.rstrip() if stage["strip_right"] else text
        if stage["type"] == "Replace":
            return re.sub(stage["pattern"]["Regex"], stage["content"], text)
        raise ValueError(f"a normaliser of type {stage['type']}")

    @staticmethod
    def split(text, stage):
        if stage is None:
            return [text] if text else []
        if stage["type"] == "Whitespace":
            return re.findall(r"\w+|[^\w\s]+", text)
        if stage["type"] == "Split" and stage["behavior"] == "Isolated":
            parts = re.split(f"({re.escape(stage['pattern']['String'])})", text)
            return [part for part in parts if part]
        raise ValueError(f"a pre-tokenizer of type {stage['type']}")

    def merge(self, word):
        """The pair of the smallest rank is merged wherever it is, from the left, until no pair
        is left that merges. That is the same as one place at a time: each merge makes a token
        of its own, which only later merges know. None stands for a character that the
        vocabulary has not: it merges with nothing."""
        tokens = [character if character in self.ids else None for character in word]
        while True:
            pairs = set(zip(tokens, tokens[1:])) & self.rank.keys()
            if not pairs:
                return [self.unknown if token is None else self.ids[token] for token in tokens]
            first, second = min(pairs, key=self.rank.get)
            merged = []
            for token in tokens:
                if token == second and merged and merged[-1] == first:
                    merged[-1] = first + second
                else:
                    merged.append(token)
            tokens = merged

    def encode(self, text, max_length=None):
        written_out = "|".join(re.escape(token) for token in self.added)
        ids = []
        for part in re.split(f"({written_out})", text):
            if part in self.added:
                ids.append(self.added[part])
                continue
            part = self.normalise(part, self.json["normalizer"])
            for word in self.split(part, self.json["pre_tokenizer"]):
                # A gap that the normaliser made is a word that the vocabulary has.
                ids += [self.added[word]] if word in self.added else self.merge(word)
        if max_length is not None:
            ids = ids[: max_length - 2]
        return [self.ids["[CLS]"], *ids, self.ids["[SEP]"]]


# ---------------------------------------------------------------- the program ----------------


def load(directory):
    if (directory / "tokenizer.json").exists():
        return BytePairs(directory)
    with open(directory / "vocab.txt") as file:
        return Kmers(directory) if file.readline().strip() == "[PAD]" else Longest(directory)


def check(directory):
    """Whether all texts of tokens.json and all cases of expected.json get the ids they have."""
    tokenizer = load(directory)
    n = wrong = 0

    def compare(text, ours, theirs):
        nonlocal n, wrong
        n += 1
        if ours != theirs:
            wrong += 1
            print(f"{directory}: {text[:60]!r}: {ours[:20]} instead of {theirs[:20]}")

    path = directory / "tokens.json"
    for item in json.loads(path.read_text())["items"] if path.exists() else []:
        if "kmer_text" in item:
            compare(item["kmer_text"], tokenizer.encode_kmers(item["kmer_text"]), item["ids"])
        elif "ids_max_length_512" in item:
            ours = tokenizer.encode(item["text"], 512)
            compare(item["text"], ours, item["ids_max_length_512"])
        else:
            ours = tokenizer.encode(item["text"], item.get("max_length"))
            compare(item["text"], ours, item["ids"])

    path = directory / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    for case in expected.get("cases", []):
        if "note" in case:  # its ids are not those of a text
            continue
        theirs = case["input_ids"]
        ours = tokenizer.encode(case["sequence"])
        if ours != theirs:  # cut to what the model has positions for
            ours = tokenizer.encode(case["sequence"], len(theirs))
        compare(case["sequence"], ours, theirs)
    for case in expected.get("token_only_cases", []):
        for kind, max_length in (("max_length_512", 512), ("no_limit", None)):
            ours = tokenizer.encode(case["sequence"], max_length)
            theirs = case.get(f"ids_{kind}", ours)
            compare(case["sequence"], ours, theirs)
            compare(case["sequence"], [len(ours)], [case[f"length_{kind}"]])
    print(f"{directory}: {n - wrong} of {n} texts have the ids they should have")
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with DIR/tokens.json")
    parser.add_argument("directories", metavar="DIR", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    if args.check:
        right = [check(directory) for directory in args.directories]
        return 0 if all(right) else 1
    if len(args.directories) > 1:
        parser.error("ids are written of one tokenizer")
    tokenizer = load(args.directories[0])
    for line in sys.stdin:
        print(*tokenizer.encode(line.removesuffix("\n")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

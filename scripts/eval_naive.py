#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kmerformer eval beside scikit-learn, on the same vectors.

    scripts/eval_naive.py --train A.csv --test B.csv [--dev C.csv] [-m MODEL]... [--kmerformer PROGRAM]

For each model it runs `kmerformer eval --predictions` and `kmerformer embed`, gives the vectors to
scikit-learn with the L2 and the scales that eval chose, and prints a line:

    model  probe: ours theirs  knn: ours theirs  ari: ours theirs  nmi: ours theirs  agree|DIFFER

Agreement is: accuracies of logistic regression and neighbours within 0.5 points (or one record of a
small test part), ARI and NMI of our clusters, as scikit-learn computes them, within 1e-12. Scores of
our own predictions (macro F1, MCC) must be scikit-learn's to 1e-6, as the table has six digits.
Exit status 1 if anything differs.

scikit-learn's C is 1 / (l2 n); with two classes twice that, since it has one column of weights where
a multinomial has two of half the size. Its neighbours break ties by the smallest class; so the vote
here is our own, of its neighbours: the nearest one's class among those with the most votes.
"""
import argparse
import collections
import csv
import gzip
import os
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (accuracy_score, adjusted_rand_score, f1_score, matthews_corrcoef,
                             normalized_mutual_info_score)
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler


def read_table(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, newline="")
    with opened as f:
        rows = list(csv.DictReader(f))
    return [r["sequence"] for r in rows], np.array([r["label"] for r in rows])


def embed(program, model, sequences, folder):
    with open(folder + "/x.fa", "w") as f:
        for i, s in enumerate(sequences):
            f.write(f">{i}\n{s}\n")
    subprocess.run([program, "embed", "-q", "-m", model, "-o", folder + "/x.npy",
                    folder + "/x.fa"], check=True)
    return np.load(folder + "/x.npy").astype(float)


def scaled(kind, x, test):
    mean = x.mean(axis=0)
    if kind == "standard":
        deviation = x.std(axis=0)
        deviation[deviation < 1e-9 * abs(mean)] = 1
        deviation[deviation == 0] = 1
        return (x - mean) / deviation, (test - mean) / deviation
    if kind == "center-l2":
        x, test = x - mean, test - mean
    if kind in ("l2", "center-l2"):
        def unit(v):
            length = np.linalg.norm(v, axis=1, keepdims=True)
            return v / np.where(length > 0, length, 1)
        return unit(x), unit(test)
    return x, test


def vote(x, y, test, k):
    near = NearestNeighbors(n_neighbors=min(k, len(x))).fit(x).kneighbors(test)[1]
    out = []
    for row in near:
        count = collections.Counter(y[row])
        most = max(count.values())
        out.append(next(c for c in y[row] if count[c] == most))
    return np.array(out)


def judge(model, ours, predictions, args, folder):
    train, y = read_table(args.train)
    test, truth = read_table(args.test)
    x = embed(args.kmerformer, model, train, folder)
    x_test = embed(args.kmerformer, model, test, folder)
    if np.isnan(x).any() or np.isnan(x_test).any():
        sys.exit("a record without a k-mer: not what this compares")
    scaler = StandardScaler().fit(x)
    if ours["probe_scale"] == "common":
        scaler.scale_ = np.sqrt(np.full(x.shape[1], scaler.var_.mean()))
    l2 = float(ours["l2"])
    c = (2 if len(set(y)) == 2 else 1) / (l2 * len(y))
    regression = LogisticRegression(C=c, max_iter=2000, tol=1e-5).fit(scaler.transform(x), y)
    theirs = accuracy_score(truth, regression.predict(scaler.transform(x_test)))
    near, asked = scaled(ours["scale"], x, x_test)
    knn = accuracy_score(truth, vote(near, y, asked, args.neighbours))
    label = np.array([p["label"] for p in predictions])
    probe = np.array([p["probe"] for p in predictions])
    cluster = np.array([int(p["cluster"]) for p in predictions])
    pairs = [("probe", float(ours["accuracy"]), theirs, max(0.005, 1.01 / len(truth))),
             ("knn", float(ours["knn"]), knn, max(0.005, 1.01 / len(truth))),
             ("ari", float(ours["ari"]), adjusted_rand_score(label, cluster), 1e-12),
             ("nmi", float(ours["nmi"]), normalized_mutual_info_score(label, cluster), 1e-12),
             ("f1", float(ours["macro_f1"]), f1_score(label, probe, average="macro"), 1e-6),
             ("mcc", float(ours["mcc"]), matthews_corrcoef(label, probe), 1e-6)]
    good = all(abs(a - b) <= tolerance for _, a, b, tolerance in pairs) and \
        list(label) == list(truth)
    print(model, "  ".join(f"{name}: {a:.6g} {b:.6g}" for name, a, b, _ in pairs),
          "agree" if good else "DIFFER", sep="\t", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--dev")
    parser.add_argument("-m", "--model", action="append", required=True)
    parser.add_argument("-k", "--neighbours", type=int, default=5)
    parser.add_argument("--kmerformer", default=os.environ.get("KMF", "build/kmerformer"))
    args = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for model in args.model:
            command = [args.kmerformer, "eval", "-q", "--train", args.train, "--test", args.test,
                       "-m", model, "-k", str(args.neighbours), "--resamples", "0", "--format",
                       "tsv", "-o", folder + "/eval.tsv", "--predictions", folder + "/p.tsv"]
            subprocess.run(command + (["--dev", args.dev] if args.dev else []), check=True)
            with open(folder + "/eval.tsv") as f:
                ours = next(csv.DictReader(f, delimiter="\t"))
            with open(folder + "/p.tsv") as f:
                predictions = list(csv.DictReader(f, delimiter="\t"))
            good = judge(model, ours, predictions, args, folder) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

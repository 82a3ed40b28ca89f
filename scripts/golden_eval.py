#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/eval.txt: scores, and a logistic regression, by scikit-learn.

    python3 scripts/golden_eval.py > tests/golden/eval.txt

The file is numbers between blanks, read by tests/test_scores.c and tests/test_probe.c:

    scores  n classes      truth[n] predicted[n] probabilities[n, classes]
                           accuracy macro-F1 MCC AUC
    parts   n              a[n] b[n]   ARI NMI
    probe   n dim classes l2 scale   x[n, dim] y[n]
                           probabilities[n, classes] of the fitted model on x

Made with NumPy 1.24 and scikit-learn 1.2.1. Coordinates of the probe are multiples of 1/64, exact as
float32; it is fitted on columns of mean 0 and deviation 1 (scale 0), or of mean 0 and a mean variance
of 1 (scale 1), with C = 1 / (l2 n), to a tolerance of 1e-10. Two classes
are fitted as scikit-learn fits two, by one column of weights w: ours are w/2 and -w/2, whose squares
add up to half of w's, so that C is twice as large.
"""
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (accuracy_score, adjusted_rand_score, f1_score, matthews_corrcoef,
                             normalized_mutual_info_score, roc_auc_score)
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(20261122)


def numbers(array, form="%.17g"):
    return " ".join(form % v for v in np.asarray(array).ravel())


def scores(n, classes, skill):
    while True:
        truth = rng.integers(0, classes, n)
        if len(set(truth)) == classes:
            break
    logits = np.round(rng.normal(size=(n, classes)) + skill * np.eye(classes)[truth], 1)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    predicted = p.argmax(axis=1)
    auc = (roc_auc_score(truth, p[:, 1]) if classes == 2
           else roc_auc_score(truth, p, multi_class="ovr", average="macro"))
    print("scores", n, classes)
    print(numbers(truth, "%d"), numbers(predicted, "%d"), numbers(p))
    print(numbers([accuracy_score(truth, predicted), f1_score(truth, predicted, average="macro"),
                   matthews_corrcoef(truth, predicted), auc]))


def parts(a, b):
    print("parts", len(a))
    print(numbers(a, "%d"), numbers(b, "%d"))
    print(numbers([adjusted_rand_score(a, b), normalized_mutual_info_score(a, b)]))


def probe(n, dim, classes, l2, scale):
    y = np.arange(n) % classes
    x = np.round(64 * (rng.normal(size=(n, dim)) * np.geomspace(0.3, 30, dim) +
                       rng.normal(size=(classes, dim))[y])) / 64
    z = StandardScaler(with_std=scale == 0).fit_transform(x)
    if scale == 1:
        z /= np.sqrt((z ** 2).mean())
    c = (2 if classes == 2 else 1) / (l2 * n)
    model = LogisticRegression(C=c, tol=1e-10, max_iter=100000,
                               multi_class="auto" if classes == 2 else "multinomial").fit(z, y)
    print("probe", n, dim, classes, "%g" % l2, scale)
    print(numbers(x), numbers(y, "%d"))
    print(numbers(model.predict_proba(z)))


for n, classes, skill in ((40, 2, 1), (60, 3, 0.5), (90, 7, 2), (12, 2, 0)):
    scores(n, classes, skill)
parts(rng.integers(0, 4, 50), rng.integers(0, 6, 50))
parts(np.repeat(np.arange(5), 8), np.repeat([3, 1, 0, 2, 4], 8))
labels = rng.integers(0, 5, 80)
parts(labels, np.where(rng.random(80) < 0.7, labels, rng.integers(0, 5, 80)))
parts(np.zeros(9, int), np.zeros(9, int))
parts(np.arange(9) % 3, np.zeros(9, int))
for n, dim, classes, l2, scale in ((60, 4, 3, 0.01, 0), (50, 6, 2, 0.1, 0), (45, 3, 5, 1, 0),
                                   (60, 4, 3, 0.01, 1), (50, 6, 2, 0.001, 1), (45, 3, 5, 1, 1)):
    probe(n, dim, classes, l2, scale)

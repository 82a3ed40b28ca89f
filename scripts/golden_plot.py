#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Golden numbers of `kmerformer plot`, from NumPy: tests/golden/plot.

  rows.npy      60 x 12 float32 of a fixed seed, far from 0 beside their spread; what `embed` writes
  pca.tsv       total variance; then for each of the first 3 components its variance (n - 1 below)
                and its 12 numbers, from the singular values of the centred rows in float64
  cosines.tsv   cosines of the first 6 rows, float64

Tolerances in tests/test_plot.c: sums of 60 float32 products leave about 1e-6 of relative error.
"""
import pathlib

import numpy

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/plot"


def write(name, rows):
    with open(OUT / name, "w") as file:
        for row in rows:
            file.write("\t".join(f"{x:.15g}" for x in row) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(20261122)
    spread = numpy.array([3, 2, 1.5] + [0.4] * 9)
    turn, _ = numpy.linalg.qr(random.normal(size=(12, 12)))
    rows = (random.normal(size=(60, 12)) * spread @ turn + 20).astype("<f4")
    numpy.save(OUT / "rows.npy", rows)

    x = rows.astype(float)
    centred = x - x.mean(axis=0)
    _, singular, axes = numpy.linalg.svd(centred, full_matrices=False)
    variance = singular**2 / (len(x) - 1)
    largest = numpy.abs(axes).argmax(axis=1)
    axes *= numpy.sign(axes[numpy.arange(12), largest])[:, None]
    write("pca.tsv", [[variance.sum()]] + [[variance[i], *axes[i]] for i in range(3)])

    unit = x[:6] / numpy.linalg.norm(x[:6], axis=1, keepdims=True)
    write("cosines.tsv", unit @ unit.T)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Derives the polynomial constants of src/nn/vmath.h and prints them as C.

  exp     e^r = 1 + r + r^2 s(r) on |r| <= ln(2)/2, relative error minimised
  exp2    2^f = 1 + f s(f) on |f| <= 1/2, relative error minimised
  gelu    g(a) = a e^(-a^2/2) q(a), q(a) = e^(a^2/2) erfc(a / sqrt 2) / 2 on 0 <= a <= 6, the
          absolute error of g minimised: q need only be good where the factor before it is not
          small, which is why a short polynomial is enough
  slope   GELU'(-a) = e^(-a^2/2) r(a), r(a) = e^(a^2/2) erfc(a / sqrt 2) / 2 - a / sqrt(2 pi) on
          0 <= a <= 6, the absolute error of the product minimised

  rough   max(x, 0) - a q(a), a = min(|x|, 4.25): either GELU to 1e-4, for inference in bf16
          and int8, on 0 <= a <= 4.25, the absolute error minimised; near the end it counts
          twice, because there the error for all larger |x| adds to it

All are weighted minimax fits by Lawson's iteration (least squares whose weights are multiplied
by the error until it is level), in a Chebyshev basis, in double.
Needs: python3, numpy.
"""
import math

import numpy as np
from numpy.polynomial import chebyshev, polynomial


def minimax(f, weight, beg, end, degree, points=4001, rounds=400):
    """Coefficients c[0..degree] of the polynomial p with max |weight (p - f)| smallest."""
    t = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    x = beg + (end - beg) * (t + 1) / 2
    target, w = f(x), weight(x)
    basis = chebyshev.chebvander(t, degree)
    lawson = np.full(points, 1 / points)
    best, best_error = None, math.inf
    for _ in range(rounds):
        s = np.sqrt(lawson) * w
        c = np.linalg.lstsq(basis * s[:, None], target * s, rcond=None)[0]
        error = np.abs(w * (basis @ c - target))
        if error.max() < best_error:
            best, best_error = c, error.max()
        lawson *= error
        lawson /= lawson.sum()
    inner = chebyshev.cheb2poly(best)  # in t = scale x + shift
    scale, shift = 2 / (end - beg), -(end + beg) / (end - beg)
    out, power = np.zeros(1), np.ones(1)
    for c in inner:
        out = polynomial.polyadd(out, c * power)
        power = polynomial.polymul(power, [shift, scale])
    return out, best_error


def print_constants(name, c, error):
    print(f"/* {name}: largest error of the fit {error:.1e} */")
    for i, value in enumerate(c):
        print(f"    c{i} = {np.float32(value):.9g}f")


def main():
    ln2 = math.log(2)

    def s(r):
        """(e^r - 1 - r) / r^2, by its series: the difference would cancel."""
        return sum(r**i / math.factorial(i + 2) for i in range(14))

    c, error = minimax(s, lambda r: r * r / np.exp(r), -ln2 / 2, ln2 / 2, 4)
    print_constants("s(r) of exp", c, error)

    def s2(f):
        """(2^f - 1) / f; in the limit ln 2."""
        there = np.where(f == 0, 1, f)
        return np.where(f == 0, ln2, np.expm1(f * ln2) / there)

    c, error = minimax(s2, lambda f: np.abs(f) / np.exp2(f), -0.5, 0.5, 4)
    print_constants("s(f) of exp2", c, error)

    erfc = np.vectorize(math.erfc)

    def q(a):
        return np.exp(a * a / 2) * erfc(a / math.sqrt(2)) / 2

    c, error = minimax(q, lambda a: a * np.exp(-a * a / 2), 0, 6, 10)
    print_constants("q(a) of gelu", c, error)

    c, error = minimax(
        lambda a: q(a) - a / math.sqrt(2 * math.pi), lambda a: np.exp(-a * a / 2), 0, 6, 11
    )
    print_constants("r(a) of gelu's slope", c, error)

    def below(a):
        """(x - GELU(x)) / x at x = a, which is also -GELU(-a) / a."""
        return erfc(a / math.sqrt(2)) / 2

    def below_tanh(a):
        u = math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)
        return (1 - np.tanh(u)) / 2

    c, error = minimax(np.exp2, lambda f: 1 / np.exp2(f), -0.5, 0.5, 3)
    print_constants("2^f of the rough exp", c, error)

    for name, f in (("gelu", below), ("gelu_tanh", below_tanh)):
        c, error = minimax(f, lambda a: a * np.where(a > 4.2, 2, 1), 0, 4.25, 8)
        print_constants(f"q(a) of the rough {name}", c, error)

    # The high part keeps 9 bits, so that n high is exact for every exponent n of a float.
    bits = np.array([ln2], np.float32).view(np.uint32) & np.uint32(0xFFFF8000)
    high = float(bits.view(np.float32)[0])
    low, inverse = np.float32(ln2 - high), np.float32(1 / ln2)
    print(f"ln 2 = {high!r}f + {low:.9g}f, 1 / ln 2 = {inverse:.9g}f")


if __name__ == "__main__":
    main()

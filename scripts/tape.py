# SPDX-License-Identifier: MIT
"""Gradients of what NumPy computes, for the other scripts: formulas are written as they are, and
Value stands for an array that remembers what it was made of.

    w = Value(array)
    backward((np.exp(w) ** 2).sum())
    w.gradient                        an array of the shape of w

Reverse accumulation in float64. What a Value knows is what the scripts use: arithmetic, exp, log,
sqrt and matrix products, sums, means, slices, rows by their numbers, concatenate and stack. Needs:
python3, NumPy.
"""
import math

import numpy as np

# Slopes of a function of arrays by each of them: from the arrays and what became of them.
SLOPES = {
    np.add: lambda a, b, y: (1, 1),
    np.subtract: lambda a, b, y: (1, -1),
    np.multiply: lambda a, b, y: (b, a),
    np.true_divide: lambda a, b, y: (1 / b, -y / b),
    np.power: lambda a, b, y: (b * a ** (b - 1), None),  # of constant exponents
    np.negative: lambda a, y: (-1,),
    np.exp: lambda a, y: (y,),
    np.log: lambda a, y: (1 / a,),
    np.sqrt: lambda a, y: (0.5 / y,),
}


def array_of(x):
    return x.array if isinstance(x, Value) else np.asarray(x, np.float64)


def shrink(gradient, shape):
    """Of an array that was spread out to the shape of the gradient."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    spread = tuple(i for i, n in enumerate(shape) if n == 1)
    return gradient.sum(axis=spread, keepdims=True)


class Value(np.lib.mixins.NDArrayOperatorsMixin):
    made = 0

    def __init__(self, array, sources=()):
        """sources: [(Value, what makes a gradient by it from one by this one)]."""
        self.array = np.asarray(array, np.float64)
        self.sources = sources
        self.gradient = np.zeros(self.array.shape)
        Value.made += 1
        self.number = Value.made

    shape = property(lambda self: self.array.shape)
    T = property(lambda self: Value(self.array.T, [(self, np.transpose)]))

    def __len__(self):
        return len(self.array)

    def __array_ufunc__(self, function, method, *inputs):
        assert method == "__call__"
        arrays = [array_of(x) for x in inputs]
        y = function(*arrays)
        if function is np.matmul:
            a, b = arrays
            ways = [lambda g: g @ b.T, lambda g: a.T @ g]
        else:
            slopes = SLOPES[function](*arrays, y)
            ways = [
                lambda g, x=x, slope=slope: shrink(g * slope, x.shape)
                for x, slope in zip(arrays, slopes)
            ]
        return Value(y, [(x, way) for x, way in zip(inputs, ways) if isinstance(x, Value)])

    def __array_function__(self, function, types, args, kwargs):
        assert function in (np.concatenate, np.stack)
        parts, axis = args[0], kwargs.get("axis", 0)
        y = function([array_of(x) for x in parts], axis=axis)
        sources, at = [], 0
        for x in parts:
            if function is np.stack:
                way = lambda g, at=at: np.take(g, at, axis=axis)
                at += 1
            else:
                span = range(at, at + x.shape[axis])
                way = lambda g, span=span: np.take(g, span, axis=axis)
                at = span.stop
            sources.append((x, way))
        return Value(y, [(x, way) for x, way in sources if isinstance(x, Value)])

    def __getitem__(self, at):
        def way(g):
            whole = np.zeros(self.shape)
            np.add.at(whole, at, g)
            return whole

        return Value(self.array[at], [(self, way)])

    def sum(self, axis=None, keepdims=False):
        def way(g):
            g = g if keepdims or axis is None else np.expand_dims(g, axis)
            return np.broadcast_to(g, self.shape)

        return Value(self.array.sum(axis=axis, keepdims=keepdims), [(self, way)])

    def mean(self, axis=None, keepdims=False):
        total = self.sum(axis, keepdims)
        return total * (total.array.size / self.array.size)

    def max(self, **how):
        """A constant: a softmax does not hang on what is taken off, and hits have no slope."""
        return self.array.max(**how)


def gelu(x):
    cdf = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x.array / math.sqrt(2)))
    slope = cdf + x.array * np.exp(-0.5 * x.array**2) / math.sqrt(2 * math.pi)
    return Value(x.array * cdf, [(x, lambda g: g * slope)])


def backward(value):
    """Adds the gradients of a number to those of all that it was made of."""
    found, open_ones = {}, [value]
    while open_ones:
        one = open_ones.pop()
        if one.number not in found:
            found[one.number] = one
            open_ones += [source for source, _ in one.sources]
    value.gradient = np.ones(value.shape)
    for number in sorted(found, reverse=True):
        for source, way in found[number].sources:
            source.gradient = source.gradient + way(found[number].gradient)

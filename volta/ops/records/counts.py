"""Records of Poisson and binomial numbers: element by element, from two uniform numbers that are the key of the element's own stream."""
from __future__ import annotations

import math

import numpy as np

from volta import random
from volta.ops.records.math import zero
from volta.ops.table import case, register


def _np_count(n, p, u, v):
    """By inversion; n = -1 is Poisson. IN: a mean below 10, and p <= 1/2 of binomial numbers."""
    x = random.unit(int(u * 2 ** 24) | int(v * 2 ** 24) << 32, 0, 1, np.float32)[0].astype(float)
    k, share = 0, math.exp(-p) if n == -1 else (1 - p) ** math.floor(n)
    while x >= share and k < 200:
        x -= share
        share *= p / (k + 1) if n == -1 else (math.floor(n) - k) / (k + 1) * p / (1 - p)
        k += 1
    return k


_CASES = {count: tuple(case(*[shape] * count) for shape in ((), (7,), (3, 5), (2, 0, 3))) for count in (3, 4)}
poisson_op = register("poisson", ("rate", "u", "v"), family="draw", takes="f", promote="common", vjp=(zero, None, None), cases=_CASES[3],
                      domain=(0.0, 0.999), smooth=False, numpy=np.vectorize(lambda *x: _np_count(-1, *x), [float]))
binomial_op = register("binomial", ("count", "prob", "u", "v"), family="draw", takes="f", promote="common", vjp=(zero, zero, None, None),
                       cases=_CASES[4], domain=(0.0, 0.499), smooth=False, numpy=np.vectorize(_np_count, [float]))

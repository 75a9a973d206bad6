"""Records of orthogonal polynomials, of any degree of each element. As in PyTorch, they have no derivatives."""
from __future__ import annotations

import numpy as np

from volta.ops.records.elementwise import DOCS, binary

# By name: of x, the second polynomial; of k, x, p and q, the one after q and p of degrees k and k - 1; what help calls it.
_FIRST = {"t": lambda x: x, "u": lambda x: 2 * x, "v": lambda x: 2 * x - 1, "w": lambda x: 2 * x + 1}
_KINDS = {"first": "t", "second": "u", "third": "v", "fourth": "w"}
RECURRENCES = {
    f"chebyshev_polynomial_{letter}": (_FIRST[letter], lambda k, x, p, q: 2 * x * q - p, f"Chebyshev polynomial of the {kind} kind")
    for kind, letter in _KINDS.items()}
RECURRENCES |= {
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, p, q: 2 * (x * q - k * p), "physicist's Hermite polynomial"),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * q - k * p, "probabilist's Hermite polynomial"),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * q - k * p) / (k + 1), "Laguerre polynomial"),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * q - k * p) / (k + 1), "Legendre polynomial")}


def _reference(first, following, shifted=False):
    def polynomial(x, n):
        x, n = np.broadcast_arrays(2 * x - 1 if shifted else x, np.trunc(n))
        p, q = np.ones_like(x), first(x)
        found = np.where(n == 0, p, np.where(n == 1, q, np.where((n > 100_000) & (n < 2.0 ** 63), np.nan, 0.0)))
        for k in range(1, 10):
            p, q = q, following(k, x, p, q)
            found = np.where(n == k + 1, q, found)
        return found
    return polynomial


def _polynomial(name, formula, reference):
    value = float(reference(np.float64(0.2), np.float64(2)))
    most = "512" if name.startswith("hermite") else "100,000"
    DOCS[name] = (f"The {formula}, of degree n rounded to 0; 0 for a negative one and one beyond int64, NaN for one beyond {most}.",
                  f"tensor([{value:7.4f}])".replace("[ ", "["), "[0.2]", "[2.0]")
    binary(name, numpy=reference, takes="f", second="n", domain=(0.0, 3.9), smooth=False, room="special", family="polynomial")


for _name, (_first, _following, _formula) in RECURRENCES.items():
    _polynomial(_name, f"{_formula} in input", _reference(_first, _following))
    if _name.startswith("chebyshev"):
        _polynomial(f"shifted_{_name}", f"{_formula} in 2 * input - 1", _reference(_first, _following, shifted=True))

"""Direction numbers of Sobol sequences, `BITS` of `BITS` bits for each dimension.

Dimension 0 has those of van der Corput's sequence. Each other dimension belongs to a primitive polynomial over the field of two elements,
in the order of their degrees and coefficients, which is computed here. Its first numbers are free but for being odd; those of Joe and Kuo
lie in joe_kuo.bin (whose notice is joe_kuo.txt): (m_j - 1) / 2 in j - 1 bits, j = 1 to the degree, dimension after dimension, highest
bit first. The others follow by the polynomial's recurrence.

Source: S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM Journal on Scientific Computing
30, 2635-2654 (2008), equations 2 and 3; table new-joe-kuo-6.21201.
"""
from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

__all__ = ["BITS", "DIMENSIONS", "directions"]

BITS = 30
# How many primitive polynomials of degree 1, 2, ... there are; the table ends with the last one of degree 18.
_COUNTS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)
DIMENSIONS = 1 + sum(_COUNTS)


def _product(x: np.ndarray, y: np.ndarray, modulus: np.ndarray, degree: int) -> np.ndarray:
    """Products of polynomials over two elements, whose coefficients are bits, each modulo its own one."""
    out = np.zeros_like(modulus)
    for place in reversed(range(degree)):
        out <<= 1
        out ^= modulus * (out >> degree & 1)
        out ^= x * (y >> place & 1)
    return out


def _power_of_x(exponent: int, modulus: np.ndarray, degree: int) -> np.ndarray:
    """x to the power of `exponent`, modulo each polynomial."""
    out = np.ones_like(modulus)
    x = np.full_like(modulus, 2) if degree > 1 else modulus ^ 2
    for bit in f"{exponent:b}":
        out = _product(out, out, modulus, degree)
        if bit == "1":
            out = _product(out, x, modulus, degree)
    return out


def primitive_polynomials(degree: int) -> np.ndarray:
    """The polynomials of this degree modulo which x has the order 2**degree - 1, as numbers whose bits are the coefficients."""
    order = (1 << degree) - 1
    found = np.arange((1 << degree) + 1, 2 << degree, 2, dtype=np.int64)
    found = found[_power_of_x(order, found, degree) == 1]
    for prime in _prime_factors(order):
        found = found[_power_of_x(order // prime, found, degree) != 1]
    return found


def _prime_factors(number: int) -> set[int]:
    factors, divisor = set(), 2
    while divisor * divisor <= number:
        if number % divisor:
            divisor += 1
        else:
            factors.add(divisor)
            number //= divisor
    return factors | {number} - {1}


def _first_numbers(degree: int, packed: np.ndarray) -> np.ndarray:
    """The numbers of Joe and Kuo for all polynomials of this degree, a row each, shifted to the places of their bits."""
    start = sum(count * (d * (d - 1) // 2) for d, count in enumerate(_COUNTS[:degree - 1], 1))
    count, each = _COUNTS[degree - 1], degree * (degree - 1) // 2
    first = start // 8
    bits = np.unpackbits(packed[first:(start + count * each + 7) // 8])[start - 8 * first:][:count * each].reshape(count, each)
    numbers = np.empty((count, degree), np.uint32)
    for j in range(degree):
        weights = np.uint32(2) << np.arange(j, dtype=np.uint32)[::-1]
        numbers[:, j] = (1 + bits[:, j * (j - 1) // 2:][:, :j] @ weights).astype(np.uint32) << np.uint32(BITS - 1 - j)
    return numbers


@functools.cache
def _of_degree(degree: int) -> np.ndarray:
    """The direction numbers of all dimensions whose polynomials have this degree, a row each."""
    numbers = np.empty((_COUNTS[degree - 1], BITS), np.uint32)
    packed = np.fromfile(Path(__file__).with_name("joe_kuo.bin"), np.uint8)
    numbers[:, :degree] = _first_numbers(degree, packed)
    polynomials = primitive_polynomials(degree)
    for j in range(degree, BITS):
        numbers[:, j] = numbers[:, j - degree] ^ numbers[:, j - degree] >> np.uint32(degree)
        for k in range(1, degree):
            numbers[:, j] ^= numbers[:, j - k] * (polynomials >> (degree - k) & 1).astype(np.uint32)
    numbers.flags.writeable = False
    return numbers


def directions(count: int) -> np.ndarray:
    """The direction numbers of the first `count` dimensions, a row of `BITS` each: number j has its highest one at bit BITS - 1 - j."""
    parts, have = [(np.uint32(1) << np.arange(BITS, dtype=np.uint32)[::-1])[None]], 1
    for degree, found in enumerate(_COUNTS, 1):
        if have < count:
            parts.append(_of_degree(degree))
            have += found
    return np.concatenate(parts)[:count]

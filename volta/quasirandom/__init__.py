"""Points that fill a cube more evenly than random ones, under PyTorch's names. They are computed on the host."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import as_dtype, float32, float64, get_default_dtype, to_numpy
from volta.errors import ArgumentError, DTypeError
from volta.ops.from_data import tensor
from volta.quasirandom.directions import BITS, DIMENSIONS, directions
from volta.random import Generator, bits, default_generator

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DTypeLike

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol's sequence in the unit cube of up to 21201 dimensions, with the direction numbers of Joe and Kuo; the first of its 2**30 points
    is the origin.

    With `scramble`, the bits of each dimension are mixed by a random triangular matrix and shifted by a random number (Matousek's linear
    scrambling), which keeps what makes the sequence even. `seed` chooses these; without it they come from the default generator. They
    are not PyTorch's, whose random numbers are others; the points of the plain sequence are PyTorch's.

    Raises: ArgumentError for another number of dimensions.

    >>> volta.quasirandom.SobolEngine(2).draw(3).tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25]]

    Source: I. M. Sobol, "On the distribution of points in a cube", USSR Computational Mathematics and Mathematical Physics 7 (1967);
    J. Matousek, "On the L2-discrepancy for anchored boxes", Journal of Complexity 14 (1998).
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= DIMENSIONS:
            raise ArgumentError(f"SobolEngine: dimension must be 1 to {DIMENSIONS}, got {dimension}")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._directions, self._shift = directions(dimension), np.zeros(dimension, np.uint32)
        if scramble:
            generator = default_generator if seed is None else Generator(seed)
            words = bits(*generator.advance(dimension * (BITS + 1)), dimension * (BITS + 1)).reshape(dimension, BITS + 1)
            self._directions, self._shift = _scrambled(self._directions, words[:, 1:]), words[:, 0] >> np.uint32(32 - BITS)
        self._directions = np.ascontiguousarray(self._directions.T)         # a row for each bit of a point's number

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DTypeLike = None) -> Tensor:
        """The next `n` points, a row each, in float32 or float64.

        Raises: ArgumentError for a negative `n`, and behind the last point; DTypeError for other dtypes.
        """
        kind = get_default_dtype() if dtype is None else as_dtype(dtype)
        if kind not in (float32, float64):
            raise DTypeError(f"SobolEngine.draw: dtype must be float32 or float64, got {kind}")
        start, stop = self.num_generated, self._after("draw", n)
        numbers = np.arange(start, stop)
        zeros = np.frexp((numbers & -numbers).astype(np.float64))[1] - 1    # at the end of each number: which bit of its Gray code changes
        points = self._directions[zeros]
        if n:
            points[0] = self._point(start)
            np.bitwise_xor.accumulate(points, 0, out=points)
        result = tensor(points.astype(to_numpy(kind)) * to_numpy(kind).type(2.0 ** -BITS), device="cpu")
        self.num_generated = stop
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DTypeLike = None) -> Tensor:
        """The next 2**m points, where that makes the number of all points so far a power of 2: only then do they lie evenly.

        Raises: ArgumentError otherwise, and as `draw`.
        """
        total = self.num_generated + 2 ** m
        if total & total - 1:
            raise ArgumentError(f"SobolEngine.draw_base2: points lie evenly where their number is a power of 2, got {self.num_generated} + "
                                f"2**{m} = {total}; use draw if that does not matter")
        return self.draw(2 ** m, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Start again from the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points. Raises: ArgumentError as `draw`."""
        self.num_generated = self._after("fast_forward", n)
        return self

    def _after(self, name: str, n: int) -> int:
        if not 0 <= n <= (1 << BITS) - self.num_generated:
            raise ArgumentError(f"SobolEngine.{name}: n must be 0 to {(1 << BITS) - self.num_generated}, the points that are left, got {n}")
        return self.num_generated + n

    def _point(self, number: int) -> np.ndarray:
        """One point as integers: the direction numbers of the bits of its Gray code."""
        gray = number ^ number >> 1
        return np.bitwise_xor.reduce(self._directions[[j for j in range(BITS) if gray >> j & 1]], 0) ^ self._shift

    def __repr__(self) -> str:
        options = [f"dimension={self.dimension}", *(["scramble=True"] if self.scramble else []),
                   *([f"seed={self.seed}"] if self.seed is not None else [])]
        return f"SobolEngine({', '.join(options)})"


def _scrambled(numbers: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Each dimension's direction numbers times its lower triangular matrix with a unit diagonal: bit p (of `BITS`, the highest first) of
    word p and what is before it says which bits above are added to bit p."""
    out = np.zeros_like(numbers)
    for p in range(BITS):
        place = np.uint32(BITS - 1 - p)
        above = np.uint32((1 << BITS) - (2 << int(place)))
        chosen = numbers & (words[:, p] & above | np.uint32(1) << place)[:, None]
        for half in (16, 8, 4, 2, 1):
            chosen ^= chosen >> np.uint32(half)
        out |= (chosen & np.uint32(1)) << place
    return out

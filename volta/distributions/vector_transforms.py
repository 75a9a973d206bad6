"""Transforms of vectors and matrices: to probabilities, triangular factors, positive definite matrices and correlations."""
from __future__ import annotations

import math

from volta.distributions.constraints import (
    corr_cholesky,
    independent,
    lower_cholesky,
    positive_definite,
    real,
    real_vector,
    simplex,
)
from volta.distributions.transform import Transform
from volta.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from volta.errors import ShapeError
from volta.linalg import cholesky
from volta.nn.functional import pad, softplus
from volta.ops.arrange import diag_embed
from volta.ops.creation import ones
from volta.ops.join import tril
from volta.ops.linalg import matmul
from volta.ops.ranges import arange
from volta.ops.scan import cumprod, cumsum
from volta.shapes import Size
from volta.tensor import Tensor

__all__ = ["CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "SoftmaxTransform", "StickBreakingTransform"]


class SoftmaxTransform(Transform):
    """softmax(x) of the last dimension; log(y) is one inverse."""

    domain, codomain = real_vector, simplex

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(Transform):
    """n numbers as n + 1 probabilities: each takes a share of what those before it left."""

    bijective, domain, codomain = True, real_vector, simplex

    @staticmethod
    def _offset(n, like):
        return n - arange(n, dtype=like.dtype, device=like.device)

    def _call(self, x):
        share = (x - self._offset(x.shape[-1], x).log()).sigmoid()
        return pad(share, [0, 1], value=1) * pad(cumprod(1 - share, -1), [1, 0], value=1)

    def _inverse(self, y):
        part = y[..., :-1]
        left = (1 - cumsum(part, -1)).clamp(min=2.0 ** -1022 if y.dtype.itemsize == 8 else 2.0 ** -126)
        return part.log() - left.log() + self._offset(part.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x.shape[-1], x).log()
        return (-softplus(x) + y[..., :-1].log()).sum(-1)        # log(sigmoid(x)) - x

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Square matrices as lower triangular ones with a positive diagonal: exp of theirs."""

    domain, codomain = independent(real, 2), lower_cholesky

    def _call(self, x):
        return tril(x, -1) + diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y):
        return tril(y, -1) + diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """Square matrices as positive definite ones, by their Cholesky factor."""

    domain, codomain = independent(real, 2), positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return matmul(factor, factor.mT)

    def _inverse(self, y):
        return LowerCholeskyTransform()._inverse(cholesky(y))


class CorrCholeskyTransform(Transform):
    """n * (n - 1) / 2 numbers as the Cholesky factor of n-by-n correlations."""

    bijective, domain, codomain = True, real_vector, corr_cholesky

    def _call(self, x):
        partial = vec_to_tril_matrix(x.tanh(), -1)
        left = cumprod((1 - partial ** 2).clamp(min=0).sqrt(), -1)
        diagonal = diag_embed(ones(partial.shape[-1], dtype=x.dtype, device=x.device))
        return (partial + diagonal) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = 1 - cumsum(y * y, -1)
        return tril_matrix_to_vec(y / pad(left[..., :-1], [1, 0], value=1).sqrt(), -1).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - cumsum(y * y, -1), -2)
        bend = -2 * (x + softplus(-2 * x) - math.log(2))
        return 0.5 * left.log().sum(-1) + bend.sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ShapeError(f"CorrCholeskyTransform: {shape[-1]} is not n * (n - 1) / 2 for any n")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ShapeError(f"CorrCholeskyTransform: needs square matrices, got shape {tuple(shape)}")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))

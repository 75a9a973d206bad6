"""Distributions of vectors and matrices by factors: low-rank normal, correlations, sums of products. Decompositions run on the CPU."""
from __future__ import annotations

import math

from volta.autograd import no_grad
from volta.distributions.constraints import (
    Constraint,
    corr_cholesky,
    greater_than,
    independent,
    lower_cholesky,
    positive,
    positive_definite,
    real,
    real_vector,
)
from volta.distributions.distribution import Distribution
from volta.distributions.exp_family import ExponentialFamily
from volta.distributions.gamma import Beta, Gamma
from volta.distributions.utils import _standard_normal, broadcast_all
from volta.errors import ArgumentError, AssertedError, ShapeError
from volta.linalg import cholesky, inv, slogdet, solve_triangular
from volta.ops.arrange import diag_embed
from volta.ops.creation import eye
from volta.ops.decomposition import cholesky_solve
from volta.ops.join import tril
from volta.ops.linalg import matmul
from volta.ops.ranges import arange
from volta.ops.special import mvlgamma
from volta.ops.view import broadcast_shapes, broadcast_tensors
from volta.special import digamma
from volta.tensor import Tensor

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "Wishart"]


def _noise(shape, like):
    return _standard_normal(shape, like.dtype, like.device)


def _log_diagonal(factor):
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with the covariance cov_factor @ cov_factor.T + diag(cov_diag)."""

    has_rsample = True
    arg_constraints = {"loc": real_vector, "cov_factor": independent(real, 2), "cov_diag": independent(positive, 1)}
    support = real_vector

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.ndim < 1 or cov_factor.ndim < 2 or cov_factor.shape[-2] != loc.shape[-1] or cov_diag.shape[-1:] != loc.shape[-1:]:
            raise ShapeError(f"LowRankMultivariateNormal: needs loc (..., n), cov_factor (..., n, m) and cov_diag (..., n), got "
                             f"{loc.shape}, {cov_factor.shape} and {cov_diag.shape}")
        self.loc, self.cov_diag, _ = broadcast_tensors(loc, cov_diag, cov_factor[..., 0])
        self.cov_factor = cov_factor.expand(*self.loc.shape, cov_factor.shape[-1])
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:], validate_args)

    mean = mode = property(lambda self: self.loc, doc="The mean.")
    variance = property(lambda self: (self.cov_factor ** 2).sum(-1) + self.cov_diag, doc="The variance of each element.")
    covariance_matrix = property(lambda self: matmul(self.cov_factor, self.cov_factor.mT) + diag_embed(self.cov_diag),
                                 doc="The covariance matrix.")
    scale_tril = property(lambda self: cholesky(self.covariance_matrix), doc="Its Cholesky factor.")

    @property
    def _capacitance_tril(self):
        small = matmul(self.cov_factor.mT / self.cov_diag.unsqueeze(-2), self.cov_factor)
        return cholesky(small + eye(small.shape[-1], dtype=small.dtype, device=small.device))

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        half = solve_triangular(self._capacitance_tril, self.cov_factor.mT / self.cov_diag.unsqueeze(-2), upper=False)
        return diag_embed(1 / self.cov_diag) - matmul(half.mT, half)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        small = _noise((*shape[:-1], self.cov_factor.shape[-1], 1), self.loc)
        return self.loc + matmul(self.cov_factor, small).squeeze(-1) + self.cov_diag.sqrt() * _noise(shape, self.loc)

    def _half_log_det(self):
        return _log_diagonal(self._capacitance_tril) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        x = self._validate_sample(value) - self.loc
        small = matmul(self.cov_factor.mT, (x / self.cov_diag).unsqueeze(-1))
        factor = self._capacitance_tril
        half = solve_triangular(factor.expand(*small.shape[:-2], *factor.shape[-2:]), small, upper=False).squeeze(-1)
        distance = (x ** 2 / self.cov_diag).sum(-1) - (half ** 2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class LKJCholesky(Distribution):
    """The Cholesky factors of `dim` by `dim` correlations; all are as likely at concentration 1, small correlations likelier above.

    Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion method", 2009.
    """

    arg_constraints = {"concentration": positive}
    support = corr_cholesky

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ArgumentError(f"LKJCholesky: dim must be at least 2, got {dim}")
        self.dim, (self.concentration,) = dim, broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            row = arange(self.dim, dtype=self.concentration.dtype, device=self.concentration.device)
            rest = self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 2) - (row - 1).clamp(min=0) / 2
            share = Beta((row - 1).clamp(min=0) / 2 + 0.5, rest, False).sample(sample_shape).unsqueeze(-1)
            direction = tril(_noise(self._extended_shape(sample_shape), share), -1)
            length = (direction ** 2).sum(-1, keepdim=True).sqrt()
            found = share.sqrt() * direction / length.clamp(min=1e-30)
            return found + diag_embed((1 - (found ** 2).sum(-1)).clamp(min=1e-30).sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        diagonal = self._validate_sample(value).diagonal(dim1=-2, dim2=-1)[..., 1:]
        place = arange(2, self.dim + 1, device=diagonal.device, dtype=diagonal.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - place
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        normaliser = 0.5 * less * math.log(math.pi) + mvlgamma(alpha - 0.5, less) - alpha.lgamma() * less
        return (order * diagonal.log()).sum(-1) - normaliser


class Wishart(ExponentialFamily):
    """The sum of `df` outer products of normal vectors, by a covariance matrix, its inverse, or its Cholesky factor."""

    has_rsample = True
    support = positive_definite

    def __init__(self, df: Tensor | float, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise AssertedError("Wishart: give exactly one of covariance_matrix, precision_matrix and scale_tril")
        (matrix,) = given
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            raise ShapeError(f"Wishart: needs square matrices, got shape {matrix.shape}")
        size = matrix.shape[-1]
        if scale_tril is None:
            scale_tril = cholesky(matrix if precision_matrix is None else inv(matrix))
        self.df = broadcast_all(df, scale_tril[..., 0, 0])[0]
        self.scale_tril = scale_tril.expand(*self.df.shape, size, size)
        super().__init__(self.df.shape, (size, size), validate_args)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:  # type: ignore[override]  (of the object, as in PyTorch)
        """Of any way to give the matrix."""
        return {"covariance_matrix": positive_definite, "precision_matrix": positive_definite, "scale_tril": lower_cholesky,
                "df": greater_than(self._event_shape[-1] - 1)}

    covariance_matrix = property(lambda self: matmul(self.scale_tril, self.scale_tril.mT), doc="The covariance matrix.")
    precision_matrix = property(lambda self: inv(self.covariance_matrix), doc="Its inverse.")
    _count = property(lambda self: self.df[..., None, None])
    mean = property(lambda self: self._count * self.covariance_matrix, doc="The mean.")

    @property
    def mode(self) -> Tensor:
        """The most likely matrix; NaN where df is at most the size + 1."""
        factor = self._count - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._count * (covariance ** 2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        place = arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)
        chi2 = Gamma(0.5 * (self.df.unsqueeze(-1) - place), 0.5, False).rsample(sample_shape)
        lower = tril(_noise(self._extended_shape(sample_shape), self.df), -1)
        factor = matmul(self.scale_tril, lower + diag_embed(chi2.sqrt()))
        return matmul(factor, factor.mT)

    def _half_log_det(self):
        return 0.5 * self._event_shape[-1] * math.log(2) + _log_diagonal(self.scale_tril)

    def log_prob(self, value: Tensor) -> Tensor:
        value, nu, p = self._validate_sample(value), self.df, self._event_shape[-1]
        shape = broadcast_shapes(value.shape, self.scale_tril.shape)
        value, factor = value.expand(shape), self.scale_tril.expand(shape)
        trace = cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (nu - p - 1) / 2 * slogdet(value)[1] - trace / 2 - nu * self._half_log_det() - mvlgamma(nu / 2, p)

    _mean_carrier_measure = 0
    _natural_params = property(lambda self: (-self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2))

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x, y), p = natural_params, self._event_shape[-1]
        nu = 2 * y + p + 1
        return nu / 2 * (p * math.log(2) - slogdet(-2 * x)[1]) + mvlgamma(nu / 2, p)

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        place = arange(p, dtype=nu.dtype, device=nu.device)
        bend = digamma(nu.unsqueeze(-1) / 2 - place / 2).sum(-1)
        return (p + 1) * self._half_log_det() + mvlgamma(nu / 2, p) - (nu - p - 1) / 2 * bend + nu * p / 2

"""Distributions of whole tensors: independent elements as one event, and the normal distribution of vectors."""
from __future__ import annotations

import math
from typing import Any

from volta.autograd import no_grad
from volta.distributions.constraints import (
    Constraint,
    MixtureSameFamilyConstraint,
    dependent_property,
    independent,
    lower_cholesky,
    positive_definite,
    real_vector,
)
from volta.distributions.discrete import Categorical
from volta.distributions.distribution import Distribution
from volta.distributions.utils import _standard_normal, broadcast_all, lazy_property
from volta.errors import ArgumentError, ShapeError
from volta.linalg import cholesky, inv, solve_triangular
from volta.ops.creation import eye
from volta.ops.linalg import matmul
from volta.ops.reduce import logsumexp
from volta.ops.view import broadcast_shapes
from volta.tensor import Tensor

__all__ = ["Independent", "MixtureSameFamily", "MultivariateNormal"]


# Under the names that subclasses of MultivariateNormal take from inside PyTorch.

def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors."""
    return matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """x' M^-1 x of vectors x and of matrices M = L L', given as L."""
    batch, size = broadcast_shapes(bL.shape[:-2], bx.shape[:-1]), bx.shape[-1]
    standard = solve_triangular(bL.expand(*batch, size, size), bx.expand(*batch, size).unsqueeze(-1), upper=False)
    return (standard.squeeze(-1) ** 2).sum(-1)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factors of the inverses: those of P are turned round, so that nothing is inverted but a factor."""
    upper = cholesky(P.flip((-2, -1))).flip((-2, -1)).mT
    return solve_triangular(upper, eye(P.shape[-1], dtype=P.dtype, device=P.device).expand_as(P), upper=False)


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch dimensions belong to one event: their log_prob is summed."""

    @dependent_property
    def support(self) -> Constraint:
        """What draws of the base fulfil."""
        found, extra = self.base_dist.support, self.reinterpreted_batch_ndims
        return independent(found, extra) if extra else found

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        batch, event = base_distribution._batch_shape, base_distribution._event_shape
        if not 0 <= reinterpreted_batch_ndims <= len(batch):
            raise ArgumentError(f"Independent: reinterpreted_batch_ndims must be 0 to {len(batch)}, got {reinterpreted_batch_ndims}")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        split = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:split], batch[split:] + event, validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample, doc="Whether draws have gradients.")
    has_enumerate_support = property(lambda self: self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims,
                                     doc="Whether the values can be listed.")
    mean = property(lambda self: self.base_dist.mean, doc="The mean.")
    mode = property(lambda self: self.base_dist.mode, doc="The most likely value.")
    variance = property(lambda self: self.base_dist.variance, doc="The variance of each element.")

    def _summed(self, x):
        return x.sum(tuple(range(-self.reinterpreted_batch_ndims, 0))) if self.reinterpreted_batch_ndims else x

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self._summed(self.base_dist.entropy())

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            return super().enumerate_support(expand)
        return self.base_dist.enumerate_support(expand)

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> Independent:
        new = super().expand(batch_shape, _instance)
        new.base_dist = self.base_dist.expand((*batch_shape, *self._event_shape[:self.reinterpreted_batch_ndims]))
        return new

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by a covariance matrix, its inverse, or its Cholesky factor. Decompositions run on the CPU."""

    has_rsample = True
    arg_constraints = {"loc": real_vector, "covariance_matrix": positive_definite, "precision_matrix": positive_definite,
                       "scale_tril": lower_cholesky}
    support = real_vector

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ArgumentError("MultivariateNormal: give exactly one of covariance_matrix, precision_matrix and scale_tril")
        (matrix,) = given
        if loc.ndim < 1 or matrix.ndim < 2 or matrix.shape[-2:] != (loc.shape[-1],) * 2:
            raise ShapeError(f"MultivariateNormal: needs loc (..., n) and a matrix (..., n, n), got {loc.shape} and {matrix.shape}")
        size = loc.shape[-1]
        self.loc = broadcast_all(loc, matrix[..., 0])[0]
        name = ("scale_tril" if scale_tril is not None else "covariance_matrix" if covariance_matrix is not None else "precision_matrix")
        setattr(self, name, matrix.expand(*self.loc.shape[:-1], size, size))
        super().__init__(self.loc.shape[:-1], (size,), validate_args)
        if scale_tril is None:
            scale_tril = cholesky(matrix) if precision_matrix is None else _precision_to_scale_tril(matrix)
        self._unbroadcasted_scale_tril = scale_tril             # subclasses of programs have it otherwise
        self._given = name

    def __repr__(self) -> str:
        return f"MultivariateNormal(loc: {self.loc.size()}, {self._given}: {self.scale_tril.size()})"

    mean = mode = property(lambda self: self.loc, doc="The mean.")
    variance = property(lambda self: self._batch((self._unbroadcasted_scale_tril ** 2).sum(-1), 1), doc="The variance of each element.")

    def _batch(self, x, dims):
        return x.expand(*self._batch_shape, *x.shape[x.ndim - dims:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        return self._batch(self._unbroadcasted_scale_tril, 2)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        factor = self._unbroadcasted_scale_tril
        return self._batch(matmul(factor, factor.mT), 2)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return self._batch(inv(matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT)), 2)

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> MultivariateNormal:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        new._batch_shape, new._event_shape = tuple(batch_shape), self._event_shape
        new._validate_args = self._validate_args
        new.loc = new._batch(self.loc, 1)
        new._unbroadcasted_scale_tril, new._given = self._unbroadcasted_scale_tril, self._given
        for name in ("scale_tril", "covariance_matrix", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, new._batch(self.__dict__[name], 2))
        return new

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self.scale_tril, noise)

    def _half_log_det(self):
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        difference = self._validate_sample(value) - self.loc
        distance = _batch_mahalanobis(self.scale_tril, difference)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class MixtureSameFamily(Distribution):
    """Draws of the components, of the last batch dimension, in the shares of `mixture_distribution`, a Categorical. They have no
    gradients."""

    _parts = ("mixture_distribution",)

    @dependent_property
    def support(self) -> Constraint:
        """What draws of the components fulfil."""
        return MixtureSameFamilyConstraint(self.component_distribution.support)

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical) or not isinstance(component_distribution, Distribution):
            raise ArgumentError(f"MixtureSameFamily: needs a Categorical and the distribution of its components, got "
                                f"{type(mixture_distribution).__name__} and {type(component_distribution).__name__}")
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        batch = component_distribution._batch_shape
        if not batch or batch[-1] != mixture_distribution._num_events:
            raise ShapeError(f"MixtureSameFamily: {mixture_distribution._num_events} shares for components of batch_shape {batch}")
        super().__init__(batch[:-1], component_distribution._event_shape, validate_args)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> MixtureSameFamily:
        new = super().expand(batch_shape, _instance)
        new.component_distribution = self.component_distribution.expand((*batch_shape, self.mixture_distribution._num_events))
        return new

    def _shares(self, dims):
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * dims)

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            dims = len(self._event_shape)
            parts = self.component_distribution.sample(sample_shape)
            shape = (*parts.shape[:len(parts.shape) - dims - 1], 1, *parts.shape[len(parts.shape) - dims:])
            chosen = Categorical(probs=self.mixture_distribution.probs.expand(*self._batch_shape, -1), validate_args=False).sample(
                sample_shape)
            return parts.gather(-dims - 1, chosen.reshape(*chosen.shape, *[1] * (dims + 1)).expand(shape)).squeeze(-dims - 1)

    def log_prob(self, x: Tensor) -> Tensor:
        value = self._validate_sample(x).unsqueeze(-len(self._event_shape) - 1)
        return logsumexp(self.component_distribution.log_prob(value) + self.mixture_distribution.logits, -1)

    def cdf(self, x: Tensor) -> Tensor:
        value = self._validate_sample(x).unsqueeze(-len(self._event_shape) - 1)
        return (self.component_distribution.cdf(value) * self.mixture_distribution.probs).sum(-1)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        dims = len(self._event_shape)
        return (self._shares(dims) * self.component_distribution.mean).sum(-1 - dims)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        dims, parts = len(self._event_shape), self.component_distribution
        inner = (self._shares(dims) * parts.variance).sum(-1 - dims)
        return inner + (self._shares(dims) * (parts.mean - self.mean.unsqueeze(-1 - dims)) ** 2).sum(-1 - dims)

"""Transform: invertible functions with the logarithms of their derivatives, and what makes one of several."""
from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from volta._kernels import core
from volta.distributions import constraints
from volta.distributions.constraints import Constraint, independent, real
from volta.distributions.utils import _sum_rightmost
from volta.errors import ArgumentError, ShapeError
from volta.ops import join
from volta.ops.creation import zeros_like
from volta.tensor import Tensor

__all__ = ["CatTransform", "ComposeTransform", "IndependentTransform", "ReshapeTransform", "StackTransform", "Transform",
           "identity_transform"]


class Transform:
    """A function from `domain` to `codomain`. Subclasses define `_call`, and where it is `bijective` `_inverse` and
    `log_abs_det_jacobian`; `sign` is that of the derivative. With `cache_size=1` the last pair is kept, so that the inverse of what was
    just made is exact."""

    bijective: Any = False
    domain: Constraint = real
    codomain: Constraint = real

    def __init__(self, cache_size: int = 0) -> None:
        super().__init__()                  # of a Module that is a transform too
        if cache_size not in (0, 1):
            raise ArgumentError(f"{type(self).__name__}: cache_size must be 0 or 1, got {cache_size}")
        self._cache_size, self._cached_x_y = cache_size, (None, None)

    @property
    def sign(self) -> Any:
        """The sign of the derivative: 1, -1 or a tensor of these."""
        raise NotImplementedError(f"{type(self).__name__}: has no sign")

    @property
    def event_dim(self) -> int:
        """How many dimensions one element takes, where both sides agree."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ArgumentError(f"{type(self).__name__}: its two sides differ in event_dim; use domain.event_dim and codomain.event_dim")
        return self.domain.event_dim

    def __call__(self, x: Tensor) -> Tensor:
        if x is self._cached_x_y[0]:
            return self._cached_x_y[1]
        return self._kept(x, self._call(x))[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if y is self._cached_x_y[1]:
            return self._cached_x_y[0]
        return self._kept(self._inverse(y), y)[0]

    def _kept(self, x, y):
        if self._cache_size:
            self._cached_x_y = x, y
        return x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: define _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute derivative at `x`, where the value is `y`."""
        raise NotImplementedError(f"{type(self).__name__}: has no log_abs_det_jacobian")

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what is made of this shape."""
        return shape

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what this shape is made of."""
        return shape

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same, with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        new._cache_size, new._cached_x_y = cache_size, (None, None)
        return new

    def _own(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_cache_size", "_cached_x_y")}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        mine, theirs = self._own(), other._own()           # type: ignore[attr-defined]  # of the same type
        return mine.keys() == theirs.keys() and all(_same(mine[name], theirs[name]) for name in mine)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(a, b):
    if isinstance(a, core.TensorBase) and isinstance(b, core.TensorBase):
        return a is b or a.shape == b.shape and bool((a == b).all())
    return not isinstance(a, core.TensorBase) and not isinstance(b, core.TensorBase) and (isinstance(a, Constraint) or a == b)


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._of = transform

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"

    inv = property(lambda self: self._of, doc="What it is the inverse of.")
    sign = property(lambda self: self._of.sign, doc="The sign of the derivative.")
    bijective = property(lambda self: self._of.bijective, doc="Whether it has an inverse.")
    domain = property(lambda self: self._of.codomain, doc="What it takes.")
    codomain = property(lambda self: self._of.domain, doc="What it gives.")

    def __call__(self, x: Tensor) -> Tensor:
        return self._of._inv_call(x)

    def _inv_call(self, y):
        return self._of(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._of.forward_shape(shape)


def widened(constraint: Constraint, event_dim: int) -> Constraint:
    """The constraint of elements of at least `event_dim` dimensions."""
    return independent(constraint, event_dim - constraint.event_dim) if event_dim > constraint.event_dim else constraint


class ComposeTransform(Transform):
    """One transform after another."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    bijective = property(lambda self: all(part.bijective for part in self.parts), doc="Whether all are.")
    sign = property(lambda self: math.prod(part.sign for part in self.parts), doc="The product of theirs.")

    @property
    def domain(self) -> Constraint:
        """What the first takes."""
        dim = self.parts[-1].codomain.event_dim if self.parts else 0
        for part in reversed(self.parts):
            dim = max(dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return widened(self.parts[0].domain, dim) if self.parts else real

    @property
    def codomain(self) -> Constraint:
        """What the last gives."""
        dim = self.parts[0].domain.event_dim if self.parts else 0
        for part in self.parts:
            dim = max(dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return widened(self.parts[-1].codomain, dim) if self.parts else real

    def _call(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        total, dim = x.new_zeros(()), self.domain.event_dim
        for i, part in enumerate(self.parts):
            made = part(x) if i + 1 < len(self.parts) else y
            total = total + _sum_rightmost(part.log_abs_det_jacobian(x, made), dim - part.domain.event_dim)
            dim += part.codomain.event_dim - part.domain.event_dim
            x = made
        return total

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last `reinterpreted_batch_ndims` dimensions are one element."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform.with_cache(cache_size), reinterpreted_batch_ndims
        self.domain = independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = independent(base_transform.codomain, reinterpreted_batch_ndims)

    bijective = property(lambda self: self.base_transform.bijective, doc="Whether it has an inverse.")
    sign = property(lambda self: self.base_transform.sign, doc="The sign of the derivative.")

    def _checked(self, value, kind):
        if value.ndim < kind.event_dim:
            raise ShapeError(f"IndependentTransform: needs {kind.event_dim} dimensions or more, got shape {value.shape}")
        return value

    def _call(self, x):
        return self.base_transform(self._checked(x, self.domain))

    def _inverse(self, y):
        return self.base_transform._inv_call(self._checked(y, self.codomain))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Elements of `in_shape` as elements of `out_shape`."""

    bijective = True

    def __init__(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(in_shape) != math.prod(out_shape):
            raise ShapeError(f"ReshapeTransform: in_shape {self.in_shape} and out_shape {self.out_shape} differ in size")

    domain = property(lambda self: independent(real, len(self.in_shape)), doc="Numbers.")
    codomain = property(lambda self: independent(real, len(self.out_shape)), doc="Numbers.")

    def _batch(self, shape, own):
        split = len(shape) - len(own)
        if split < 0 or tuple(shape[split:]) != own:
            raise ShapeError(f"ReshapeTransform: shape {tuple(shape)} does not end in {own}")
        return tuple(shape[:split])

    def _call(self, x):
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y):
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(self._batch(x.shape, self.in_shape))

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._batch(shape, self.in_shape) + self.out_shape

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._batch(shape, self.out_shape) + self.in_shape


class CatTransform(Transform):
    """Transforms of parts that lie side by side in dimension `dim`, of `lengths`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    bijective = property(lambda self: all(t.bijective for t in self.transforms), doc="Whether all are.")
    length = property(lambda self: sum(self.lengths), doc="The size of dimension `dim`.")
    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths), doc="Of the parts.")
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths), doc="Of the parts.")

    def _parts(self, *tensors):
        return zip(self.transforms, *(t.split(self.lengths, self.dim) for t in tensors))

    def _call(self, x):
        return join.cat([t(part) for t, part in self._parts(x)], self.dim)

    def _inverse(self, y):
        return join.cat([t._inv_call(part) for t, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        event = max(t.domain.event_dim for t in self.transforms)
        found = [_sum_rightmost(t.log_abs_det_jacobian(a, b), event - t.domain.event_dim) for t, a, b in self._parts(x, y)]
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + event
        return join.cat(found, dim) if dim < 0 else sum(found[1:], found[0])


class StackTransform(Transform):
    """Transforms of the slices along dimension `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms), doc="Whether all are.")
    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim), doc="Of the slices.")
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim), doc="Of the slices.")

    def _parts(self, *tensors):
        constraints.check_parts("StackTransform", self.transforms, self.dim, *tensors)
        return zip(self.transforms, *(t.unbind(self.dim) for t in tensors))

    def _call(self, x):
        return join.stack([t(part) for t, part in self._parts(x)], self.dim)

    def _inverse(self, y):
        return join.stack([t._inv_call(part) for t, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return join.stack([t.log_abs_det_jacobian(a, b) for t, a, b in self._parts(x, y)], self.dim)

"""Conditions on values under the names of torch.distributions.constraints: what parameters, draws and the two sides of transforms fulfil.

A condition is an object with `check`; those that bounds make are classes (`greater_than(0)`). One's own derive from `Constraint`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from volta import dtypes
from volta._kernels import core
from volta.errors import ArgumentError, ShapeError
from volta.linalg import cholesky_ex, eigvalsh
from volta.ops import join
from volta.ops.creation import full
from volta.ops.join import tril
from volta.tensor import Tensor

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
           "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
           "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
           "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
           "symmetric", "unit_interval"]


class Constraint:
    """A condition on tensors. `event_dim`: how many of the last dimensions one element takes; `words`: what it asks for."""

    is_discrete: Any = False
    event_dim: Any = 0
    words = "fulfil its constraint"
    _shown: tuple[str, ...] = ("lower_bound", "upper_bound")

    def check(self, value: Tensor) -> Tensor:
        """Where it holds. Shape: of `value`, without the last `event_dim` dimensions."""
        raise NotImplementedError(f"{type(self).__name__}: define check")

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.__dict__.items() if name in self._shown)
        name = type(self).__name__.lstrip("_")
        return f"{name if name[0].isupper() else ''.join(word.capitalize() for word in name.split('_'))}({given})"


class _Dependent(Constraint):
    """What depends on other values: an object says it, its class does not."""

    words = "fulfil a constraint that depends on other values"

    def check(self, value: Tensor) -> Tensor:
        raise ArgumentError(f"{type(self).__name__}: whether values fulfil it depends on others; ask the constraint of an object")

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, name):
        value = self.__dict__[f"_{name}"]
        if value is NotImplemented:
            raise NotImplementedError(f"{type(self).__name__}: {name} is not known statically")
        return value

    is_discrete = property(lambda self: self._known("is_discrete"), doc="Whether values are discrete.")
    event_dim = property(lambda self: self._known("event_dim"), doc="How many dimensions one element takes.")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same, with what is known."""
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)


class dependent_property(property, _Dependent):
    """A property of a distribution that gives a constraint."""

    def __init__(self, fn: Callable | None = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable) -> dependent_property:          # type: ignore[override]  # the class it derives from checks a value
        """Decorator, where options are given first."""
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _single(name: str, words: str, check: Callable[[Tensor], Tensor], event_dim: int = 0, is_discrete: bool = False) -> Constraint:
    """The one object of a class of its own, whose condition is a function."""
    facts = {"words": words, "check": lambda self, value: check(value), "event_dim": event_dim, "is_discrete": is_discrete}
    return type(f"_{name}", (Constraint,), facts)()


class independent(Constraint):
    """A condition whose last dimensions are one element."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    words = property(lambda self: self.base_constraint.words)
    is_discrete = property(lambda self: self.base_constraint.is_discrete, doc="Whether values are discrete.")
    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims, doc="Of one element.")

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"

    def check(self, value: Tensor) -> Tensor:
        found = self.base_constraint.check(value)
        if found.ndim < self.reinterpreted_batch_ndims:
            raise ShapeError(f"{self!r}: needs a value of {self.event_dim} dimensions or more, got {value.ndim}")
        return found.flatten(-self.reinterpreted_batch_ndims).all(-1) if self.reinterpreted_batch_ndims else found


class _Bounded(Constraint):
    """What one bound makes."""

    def __init__(self, bound: Any) -> None:
        self.__dict__[self._side] = bound

    _side = "lower_bound"
    _bound = property(lambda self: self.__dict__[self._side])


class greater_than(_Bounded):
    """Above a number."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound)

    words = property(lambda self: "be positive" if _is_zero(self._bound) else f"be greater than {self._bound}")

    def check(self, value: Tensor) -> Tensor:
        return value > self._bound


class greater_than_eq(greater_than):
    """At least a number."""

    words = property(lambda self: "not be negative" if _is_zero(self._bound) else f"be at least {self._bound}")

    def check(self, value: Tensor) -> Tensor:
        return value >= self._bound


class less_than(_Bounded):
    """Below a number."""

    _side = "upper_bound"

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(upper_bound)

    words = property(lambda self: f"be less than {self._bound}")

    def check(self, value: Tensor) -> Tensor:
        return value < self._bound


class interval(Constraint):
    """From one number to another, both included."""

    _close = "]"

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    words = property(lambda self: f"be in [{self.lower_bound}, {self.upper_bound}{self._close}")

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class half_open_interval(interval):
    """From one number to another, which is excluded."""

    _close = ")"

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class integer_interval(interval):
    """Whole numbers from one to another, both included."""

    is_discrete = True
    words = property(lambda self: f"be whole numbers in [{self.lower_bound}, {self.upper_bound}]")

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & super().check(value)


class _IntegerGreaterThan(greater_than_eq):
    is_discrete = True
    words = property(lambda self: "be whole numbers that are " + ("not negative" if self._bound == 0 else "positive"))

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & super().check(value)


class multinomial(Constraint):
    """Counts whose sum is at most a number."""

    is_discrete, event_dim, words = True, 1, "be whole numbers of the given sum"
    _shown = ()

    def __init__(self, upper_bound: int) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class cat(Constraint):
    """Conditions on parts that lie side by side in dimension `dim`, of `lengths`."""

    words = "fulfil the constraints of its parts"

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq), doc="Whether values are discrete.")
    event_dim = property(lambda self: max(c.event_dim for c in self.cseq), doc="How many dimensions one element takes.")

    def check(self, value: Tensor) -> Tensor:
        return join.cat([c.check(v) for c, v in zip(self.cseq, value.split(self.lengths, self.dim))], self.dim)


class stack(Constraint):
    """Conditions on the slices along dimension `dim`."""

    words = "fulfil the constraints of its parts"

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq), doc="Whether values are discrete.")

    @property
    def event_dim(self) -> int:
        """How many dimensions one element takes."""
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        check_parts("constraints.stack", self.cseq, self.dim, value)
        return join.stack([c.check(v) for c, v in zip(self.cseq, value.unbind(self.dim))], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """What draws of all components fulfil, whose batch is one dimension larger than the mixture's."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"

    words = property(lambda self: self.base_constraint.words)
    is_discrete = property(lambda self: self.base_constraint.is_discrete, doc="Whether values are discrete.")
    event_dim = property(lambda self: self.base_constraint.event_dim, doc="How many dimensions one element takes.")

    def check(self, value: Tensor) -> Tensor:
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)


def is_dependent(constraint: object) -> bool:
    """Whether a condition depends on other values, so that a class cannot say it."""
    return isinstance(constraint, _Dependent)


def check_parts(name: str, parts: Sequence[object], dim: int, *tensors: Tensor) -> None:
    """Raises: ShapeError where tensors have not as many slices along `dim` as there are parts."""
    for t in tensors:
        if not -t.ndim <= dim < t.ndim or t.shape[dim] != len(parts):
            raise ShapeError(f"{name}: needs {len(parts)} slices along dim {dim}, got shape {t.shape}")


def _is_zero(bound):
    return not isinstance(bound, core.TensorBase) and bound == 0


def _is_whole(x):
    return x % 1 == 0


def _square(x):
    return full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=dtypes.bool_, device=x.device)


def _symmetric(x):
    if x.shape[-2] != x.shape[-1]:
        return _square(x)
    return ((x - x.mT).abs() <= 1e-6 + 1e-5 * x.mT.abs()).all(-1).all(-1)


def _lower(x):
    return (tril(x) == x).flatten(-2).all(-1)


def _positive_diagonal(x):
    return (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _semidefinite(x):
    found = _symmetric(x)
    return found & (eigvalsh(x) >= 0).all(-1) if found.all().item() else found


def _definite(x):
    found = _symmetric(x)
    return found & (cholesky_ex(x).info == 0) if found.all().item() else found


dependent = _Dependent()
real = _single("Real", "be numbers", lambda x: x == x)
_Real = type(real)
_IndependentConstraint = independent
real_vector = independent(real, 1)
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = _single("Boolean", "be 0 or 1", lambda x: (x == 0) | (x == 1), is_discrete=True)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
simplex = _single("Simplex", "be probabilities that sum to 1", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), 1)
one_hot = _single("OneHot", "be one-hot vectors", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), 1, True)
square = _single("Square", "be square matrices", _square, 2)
symmetric = _single("Symmetric", "be symmetric", _symmetric, 2)
lower_triangular = _single("LowerTriangular", "be lower triangular", _lower, 2)
lower_cholesky = _single("LowerCholesky", "be lower triangular with a positive diagonal", lambda x: _lower(x) & _positive_diagonal(x), 2)
corr_cholesky = _single("CorrCholesky", "be the Cholesky factor of correlations", lambda x: lower_cholesky.check(x) & (
    ((x ** 2).sum(-1) - 1).abs() <= 10 * x.shape[-1] * (2.0 ** -52 if x.dtype.itemsize == 8 else 2.0 ** -23)).all(-1), 2)
positive_semidefinite = _single("PositiveSemidefinite", "be positive semidefinite", _semidefinite, 2)
positive_definite = _single("PositiveDefinite", "be positive definite", _definite, 2)

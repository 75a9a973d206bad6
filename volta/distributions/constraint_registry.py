"""Which transform takes numbers to what fulfils a constraint: `biject_to` gives one with an inverse, `transform_to` any."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volta.distributions import constraints, transforms
from volta.distributions.constraints import Constraint
from volta.errors import ArgumentError

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from classes of constraints to what makes their transform."""

    def __init__(self) -> None:
        self._registry: dict[Any, Callable] = {}

    def register(self, constraint: Any, factory: Callable | None = None) -> Callable:
        """Enter what makes the transform of a constraint; a decorator without `factory`.

        Raises: ArgumentError for anything but a constraint or a class of them.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if not isinstance(constraint, Constraint) and not (isinstance(constraint, type) and issubclass(constraint, Constraint)):
            raise ArgumentError(f"register: constraint must be a Constraint or a class of them, got {constraint!r}")
        self._registry[constraint if isinstance(constraint, type) else type(constraint)] = factory
        return factory

    def __call__(self, constraint: Constraint) -> transforms.Transform:
        """The transform to a constraint.

        Raises: NotImplementedError where none is entered.
        """
        found = self._registry.get(type(constraint))
        if found is None:
            raise NotImplementedError(f"no transform is entered for the constraint {constraint!r}; enter one by register")
        return found(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _to_both(*wanted):
    def enter(factory):
        for constraint in wanted:
            biject_to.register(constraint, factory)
            transform_to.register(constraint, factory)
        return factory
    return enter


@_to_both(constraints.real)
def _real(constraint):
    return transforms.identity_transform


@_to_both(constraints.greater_than, constraints.greater_than_eq)
def _above(constraint):
    if not isinstance(constraint.lower_bound, float | int) or constraint.lower_bound:
        return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)])
    return transforms.ExpTransform()


@_to_both(constraints.less_than)
def _below(constraint):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@_to_both(constraints.interval, constraints.half_open_interval)
def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, float | int) and isinstance(high, float | int) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@transform_to.register(constraints.lower_cholesky)
def _lower_cholesky(constraint):
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _positive_definite(constraint):
    return transforms.PositiveDefiniteTransform()


@_to_both(constraints.corr_cholesky)
def _corr_cholesky(constraint):
    return transforms.CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())


def _of_parts(registry):
    @registry.register(constraints.independent)
    def independent(constraint):
        return transforms.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def cat(constraint):
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def stack(constraint):
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_of_parts(biject_to)
_of_parts(transform_to)

"""Conditions on values under the names of torch.distributions.constraints: for `domain`, `codomain` and `support` of one's own classes."""
from __future__ import annotations

from volta._kernels import core
from volta.distributions.distribution import (
    Constraint,
    boolean,
    nonnegative,
    one_hot,
    positive,
    real,
    simplex,
    unit_interval,
    whole,
)

__all__ = ["Constraint", "boolean", "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval",
           "interval", "is_dependent", "less_than", "nonnegative", "nonnegative_integer", "one_hot", "positive", "real", "real_vector",
           "simplex", "unit_interval"]

nonnegative_integer = whole


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """A condition whose last dimensions are one element."""
    def test(x: core.TensorBase) -> core.TensorBase:
        found = base_constraint.test(x)
        return found.flatten(-reinterpreted_batch_ndims).all(-1) if reinterpreted_batch_ndims else found
    return Constraint(base_constraint.words, test, base_constraint.event_dim + reinterpreted_batch_ndims)


def interval(lower_bound: float, upper_bound: float) -> Constraint:
    """From one number to another, both included."""
    return Constraint(f"be in [{lower_bound}, {upper_bound}]", lambda x: (x >= lower_bound) & (x <= upper_bound))


def half_open_interval(lower_bound: float, upper_bound: float) -> Constraint:
    """From one number to another, which is excluded."""
    return Constraint(f"be in [{lower_bound}, {upper_bound})", lambda x: (x >= lower_bound) & (x < upper_bound))


def integer_interval(lower_bound: int, upper_bound: int) -> Constraint:
    """Whole numbers from one to another, both included."""
    return Constraint(f"be whole numbers in [{lower_bound}, {upper_bound}]",
                      lambda x: (x % 1 == 0) & (x >= lower_bound) & (x <= upper_bound))


def greater_than(lower_bound: float) -> Constraint:
    """Above a number."""
    return Constraint(f"be greater than {lower_bound}", lambda x: x > lower_bound)


def greater_than_eq(lower_bound: float) -> Constraint:
    """At least a number."""
    return Constraint(f"be at least {lower_bound}", lambda x: x >= lower_bound)


def less_than(upper_bound: float) -> Constraint:
    """Below a number."""
    return Constraint(f"be less than {upper_bound}", lambda x: x < upper_bound)


def is_dependent(constraint: Constraint) -> bool:
    """False: a condition that depends on parameters is made with them."""
    return False


real_vector = independent(real, 1)

"""Distributions of counts: of successes in a number of trials, of each choice, and of successes before failures."""
from __future__ import annotations

from volta._kernels import core
from volta.autograd import no_grad
from volta.distributions.constraints import (
    Constraint,
    dependent_property,
    greater_than_eq,
    half_open_interval,
    integer_interval,
    multinomial,
    nonnegative_integer,
    real,
    real_vector,
    simplex,
    unit_interval,
)
from volta.distributions.discrete import Binary, Categorical
from volta.distributions.distribution import Distribution
from volta.distributions.gamma import Gamma
from volta.distributions.utils import broadcast_all
from volta.errors import ArgumentError, UnsupportedError
from volta.nn.functional import logsigmoid
from volta.ops import draws
from volta.ops.math import where
from volta.ops.ranges import arange
from volta.ops.records.chain import fused
from volta.tensor import Tensor

__all__ = ["Binomial", "Multinomial", "NegativeBinomial"]


class _Counted(Binary):
    """A number of trials, and the probability of success of each."""

    def __init__(self, total_count: Tensor | float = 1, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:
        given = logits if probs is None else probs
        if given is not None:
            like = given if isinstance(given, core.TensorBase) else broadcast_all(given)[0]
            count = total_count.to(like.dtype) if isinstance(total_count, core.TensorBase) else total_count
            self.total_count, given = broadcast_all(count, like)
        super().__init__(*((given, logits) if logits is None else (probs, given)), validate_args)


def _successes(value, n, logits):
    chances = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
    return value * logits + chances + n * logsigmoid(-logits)


def _before_failures(value, n, logits):
    found = n * logsigmoid(-logits) + value * logsigmoid(logits)
    ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
    return found + where(n + value == 0, 0.0, ways)


class Binomial(_Counted):
    """The number of successes in `total_count` trials."""

    arg_constraints = {"total_count": nonnegative_integer, "probs": unit_interval, "logits": real}
    has_enumerate_support = True

    @dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """The numbers to the number of trials."""
        return integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs, doc="The mean.")
    variance = property(lambda self: self.mean * (1 - self.probs), doc="The variance.")
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().minimum(self.total_count), doc="The most likely value.")

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return draws.binomial(self.total_count.expand(shape).contiguous(), self.probs.expand(shape).contiguous())

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_successes, self._validate_sample(value), self.total_count, self.logits)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError("Binomial: values are listed for one total_count only")
        return self._listed(arange(count + 1, dtype=self.total_count.dtype, device=self.total_count.device), expand)

    def entropy(self) -> Tensor:
        found = self.log_prob(self.enumerate_support(False))
        return -(found.exp() * found).sum(0)


class NegativeBinomial(_Counted):
    """The number of successes before `total_count` failures."""

    arg_constraints = {"total_count": greater_than_eq(0), "probs": half_open_interval(0.0, 1.0), "logits": real}
    support = nonnegative_integer

    def __init__(self, total_count: Tensor | float, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    mean = property(lambda self: self.total_count * self.logits.exp(), doc="The mean.")
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0), doc="The most likely value.")
    variance = property(lambda self: self.mean / (-self.logits).sigmoid(), doc="The variance.")

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            return draws.poisson(Gamma(self.total_count, (-self.logits).exp(), False).sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_before_failures, self._validate_sample(value), self.total_count, self.logits)


class Multinomial(Distribution):
    """How often each choice is made in `total_count` of them."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    _parts = ("_choice",)

    def __init__(self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise UnsupportedError(f"Multinomial: total_count must be one int, got {type(total_count).__name__}")
        if total_count < 0:
            raise ArgumentError(f"Multinomial: total_count must not be negative, got {total_count}")
        self.total_count, self._choice = total_count, Categorical(probs, logits, validate_args)
        super().__init__(self._choice._batch_shape, (self._choice._num_events,), validate_args)

    probs = property(lambda self: self._choice.probs, doc="The probability of each choice.")
    logits = property(lambda self: self._choice.logits, doc="Its logarithm.")
    param_shape = property(lambda self: self._choice.param_shape, doc="The shape of the parameter.")
    mean = property(lambda self: self.total_count * self.probs, doc="The mean.")
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs), doc="The variance.")

    @dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        """Counts of the given sum."""
        return multinomial(self.total_count)

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            chosen = self._choice.sample((self.total_count, *sample_shape))
            counts = self.probs.new_zeros(self._extended_shape(sample_shape))
            return counts.scatter_add(-1, chosen.movedim(0, -1), counts.new_ones((*chosen.shape[1:], self.total_count)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        logits = where((value == 0) & (self.logits == -float("inf")), 0.0, self.logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        counted = Binomial(self.total_count, self.probs, validate_args=False)
        n = self.probs.new_full((), self.total_count)
        values = counted.enumerate_support(False)[1:]
        spread = (counted.log_prob(values).exp() * (values + 1).lgamma()).sum((0, -1))
        return self.total_count * self._choice.entropy() - (n + 1).lgamma() + spread

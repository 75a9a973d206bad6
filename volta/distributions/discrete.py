"""Distributions of whole numbers and of choices, given by probabilities or by logits, of which exactly one is needed."""
from __future__ import annotations

import math

from volta._kernels import core
from volta.autograd import no_grad
from volta.distributions.constraints import (
    Constraint,
    boolean,
    dependent_property,
    integer_interval,
    nonnegative,
    nonnegative_integer,
    one_hot,
    positive,
    real,
    real_vector,
    simplex,
    unit_interval,
)
from volta.distributions.distribution import Distribution
from volta.distributions.utils import broadcast_all, logits_to_probs, probs_to_logits
from volta.errors import ArgumentError, ShapeError
from volta.nn.functional import binary_cross_entropy_with_logits
from volta.ops import draws
from volta.ops.creation import eye, full_like
from volta.ops.math import where
from volta.ops.ranges import arange
from volta.ops.records.chain import fused
from volta.ops.reduce import argmax, logsumexp
from volta.shapes import broadcast_shapes
from volta.tensor import Tensor

__all__ = ["Bernoulli", "Categorical", "Geometric", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson"]


def _exactly_one(distribution, probs, logits):
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{type(distribution).__name__}: give either probs or logits, not {'both' if probs is not None else 'neither'}")


class Binary(Distribution):
    """With a probability of 1 (or of success) for each element."""

    arg_constraints = {"probs": unit_interval, "logits": real}

    def __init__(self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:
        _exactly_one(self, probs, logits)
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        (self.__dict__[name],) = broadcast_all(value)
        super().__init__(self.__dict__[name].shape, (), validate_args)

    def __getattr__(self, name):
        if name == "logits" and "probs" in self.__dict__:
            return probs_to_logits(self.probs, is_binary=True)
        if name == "probs" and "logits" in self.__dict__:
            return logits_to_probs(self.logits, is_binary=True)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _given(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self._given.shape


class Bernoulli(Binary):
    """1 with a probability, else 0."""

    support = boolean
    has_enumerate_support = True

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._listed(arange(2, dtype=self._given.dtype, device=self._given.device), expand)

    mean = property(lambda self: self.probs, doc="The probability of 1.")
    variance = property(lambda self: self.probs * (1 - self.probs), doc="The variance.")

    @property
    def mode(self) -> Tensor:
        """The likelier of 0 and 1; NaN where both are as likely."""
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            return draws.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value, logits = self._validate_sample(value), self.logits
        shape = broadcast_shapes(logits.shape, value.shape)
        return -binary_cross_entropy_with_logits(logits.expand(shape), value.expand(shape).to(logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Geometric(Binary):
    """Failures before the first success."""

    support = nonnegative_integer

    def __init__(self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and "probs" in self.__dict__:
            self._check("probs", self.probs, positive)

    mean = property(lambda self: 1 / self.probs - 1, doc="The mean.")
    mode = property(lambda self: full_like(self.probs, 0.0), doc="0.")
    variance = property(lambda self: (1 / self.probs - 1) / self.probs, doc="The variance.")

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(2.0 ** -25, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        missed = self.probs.masked_fill((self.probs == 1) & (value == 0), 0.0)      # no trial failed: not 0 times infinity
        return value * (-missed).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


def _poisson(value, rate):
    return value.xlogy(rate) - rate - (value + 1).lgamma()


class Poisson(Distribution):
    """The number of events where `rate` are expected."""

    arg_constraints = {"rate": nonnegative}
    support = nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    mean = variance = property(lambda self: self.rate, doc="The rate.")
    mode = property(lambda self: self.rate.floor(), doc="The most likely value.")

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            return draws.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        return fused(_poisson, value, self.rate)


def _finite_product(logits, probs):
    return logits.clamp(min=-3.4e38) * probs


class Categorical(Distribution):
    """One of as many choices as the last dimension has; a draw is the index of one. `probs` need not sum to 1."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        _exactly_one(self, probs, logits)
        given = probs if logits is None else logits
        if not isinstance(given, core.TensorBase) or given.ndim < 1:
            raise ShapeError(f"{type(self).__name__}: {'probs' if logits is None else 'logits'} must be a tensor of 1 dimension or more")
        if logits is None:
            if validate_args is not False and Distribution._validate_args:
                self._check("probs", probs, nonnegative)
            self.__dict__["probs"] = probs / probs.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = logits - logsumexp(logits, -1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], (), validate_args)

    def __getattr__(self, name):
        if name == "logits" and "probs" in self.__dict__:
            return probs_to_logits(self.probs)
        if name == "probs" and "logits" in self.__dict__:
            return self.logits.exp()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return (*self._batch_shape, self._num_events)

    @dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """The numbers of the choices."""
        return integer_interval(0, self._num_events - 1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._listed(arange(self._num_events, device=self.probs.device), expand)

    mode = property(lambda self: argmax(self.probs, -1), doc="The likeliest choice.")
    mean = property(lambda self: full_like(self.probs[..., 0], math.nan), doc="NaN: choices have none.")
    variance = property(lambda self: full_like(self.probs[..., 0], math.nan), doc="NaN: choices have none.")

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            count = math.prod(sample_shape)
            drawn = draws.multinomial(self.probs.reshape(-1, self._num_events), count, True) if count else self.probs.new_empty(
                (math.prod(self._batch_shape), 0)).long()
            return drawn.t().reshape((*sample_shape, *self._batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value).long().unsqueeze(-1)
        logits = self.logits
        shape = (value + logits.new_zeros(logits.shape[:-1] + (1,))).shape[:-1]
        return logits.expand(*shape, self._num_events).gather(-1, value.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -fused(_finite_product, self.logits, self.probs).sum(-1)


class OneHotCategorical(Categorical):
    """Categorical whose draws are one-hot vectors."""

    _nameless = True
    support = one_hot
    _parts = ("_choice",)

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self._choice = Categorical(self.__dict__.get("probs"), self.__dict__.get("logits"), False)
        self._event_shape = (self._num_events,)

    mean = property(lambda self: self.probs, doc="The probabilities.")
    variance = property(lambda self: self.probs * (1 - self.probs), doc="The variance.")

    @property
    def mode(self) -> Tensor:
        """The likeliest choice."""
        return self._hot(argmax(self.probs, -1))

    def _hot(self, index):
        hot = self.probs.new_zeros((*index.shape, self._num_events))
        return hot.scatter(-1, index.unsqueeze(-1), 1.0)

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            return self._hot(self._choice.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return self._choice.log_prob(argmax(self._validate_sample(value), -1))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._listed(eye(self._num_events, dtype=self.probs.dtype, device=self.probs.device), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose draws pass gradients on to the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())

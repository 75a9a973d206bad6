"""Distribution: what all distributions share, and how their parameters are checked."""
from __future__ import annotations

from typing import Any, Self

from volta._kernels import core
from volta.autograd import no_grad
from volta.distributions.constraints import Constraint, is_dependent, real
from volta.errors import ArgumentError, ShapeError
from volta.shapes import Size
from volta.tensor import Tensor


class Distribution:
    """A distribution of random tensors. `batch_shape`: of independent distributions; `event_shape`: of one draw of one of them.

    Values are checked where that costs no transfer, on the CPU, unless `validate_args` is False.
    """

    has_rsample: Any = False            # whether draws have gradients with regard to the parameters
    has_enumerate_support: Any = False  # whether the values are few enough to be listed
    arg_constraints: dict[str, Constraint] = {}
    support: Any = real
    _parts: tuple[str, ...] = ()        # attributes that are distributions of the same batch
    _validate_args = True

    def __init__(self, batch_shape: tuple[int, ...] = (), event_shape: tuple[int, ...] = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        for name, constraint in self.arg_constraints.items() if self._validate_args else ():
            if name in self.__dict__:
                self._check(name, getattr(self, name), constraint)

    def _check(self, name, value, constraint):
        if not isinstance(value, core.TensorBase) or value.device.is_gpu or is_dependent(constraint):
            return
        if not constraint.check(value.detach()).all().item():
            raise ArgumentError(f"{type(self).__name__}: {name} must {constraint.words}, got {value.detach()}")

    @classmethod
    def set_default_validate_args(cls, value: bool) -> None:
        """Whether values are checked where nothing else is said."""
        if value not in (True, False):
            raise ArgumentError(f"set_default_validate_args: value must be True or False, got {value!r}")
        Distribution._validate_args = bool(value)

    @property
    def batch_shape(self) -> Size:
        """The shape of the independent distributions."""
        return Size(self._batch_shape)

    @property
    def event_shape(self) -> Size:
        """The shape of one draw."""
        return Size(self._event_shape)

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        """Draws of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        """Draws with gradients with regard to the parameters."""
        raise NotImplementedError(f"{type(self).__name__}: draws have no gradients; use sample()")

    def sample_n(self, n: int) -> Tensor:
        """n draws."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at `value`. Shape: of the draws, without the event's dimensions."""
        raise NotImplementedError(f"{type(self).__name__}: log_prob is not defined")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        raise NotImplementedError(f"{type(self).__name__}: cdf is not defined")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__}: icdf is not defined")

    def entropy(self) -> Tensor:
        """Units: nats. Shape: batch_shape."""
        raise NotImplementedError(f"{type(self).__name__}: entropy is not defined")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__}: mean is not defined")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self).__name__}: mode is not defined")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__}: variance is not defined")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a new first dimension; those of the batch alike, which have size 1 without `expand`."""
        raise NotImplementedError(f"{type(self).__name__}: its values cannot be listed")

    def _listed(self, values, expand):
        values = values.reshape((-1, *[1] * len(self._batch_shape), *values.shape[1:]))
        return values.expand((-1, *self._batch_shape, *self._event_shape)) if expand else values

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> Self:
        """The same distribution for a larger batch."""
        new: Any = object.__new__(type(self)) if _instance is None else _instance
        new.__dict__.update(self.__dict__)
        new._batch_shape = tuple(batch_shape)
        for name in self.arg_constraints:
            if name in self.__dict__:
                t = self.__dict__[name]
                own = t.shape[len(self._batch_shape):] if isinstance(t, core.TensorBase) else ()
                new.__dict__[name] = t.expand((*batch_shape, *own))
        for name in self._parts:
            new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """For classes of one's own: the object that their `expand` fills."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(f"{type(self).__name__}: has an __init__ of its own, so it needs an expand of its own")
        return object.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: tuple[int, ...] = ()) -> tuple[int, ...]:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def _validate_sample(self, value: Tensor, support: Constraint | None = None) -> Tensor:
        if not self._validate_args:
            return value
        if not isinstance(value, core.TensorBase):
            raise ArgumentError(f"{type(self).__name__}: value must be a tensor, got {type(value).__name__}")
        shape, own = value.shape, (*self._batch_shape, *self._event_shape)
        if any(a != b and 1 not in (a, b) for a, b in zip(reversed(shape), reversed(own))) or (
                shape[len(shape) - len(self._event_shape):] != self._event_shape):
            raise ShapeError(f"{type(self).__name__}: value of shape {shape} does not fit batch_shape {self._batch_shape} and event_shape "
                             f"{self._event_shape}")
        if support is not None or self.support is not None:
            self._check("value", value, self.support if support is None else support)
        return value

    _nameless = False               # whether it shows no parameters, since in PyTorch it has them from others

    def __repr__(self) -> str:
        if self._nameless:
            return f"{type(self).__name__}()"
        named = [(name, self.__dict__[name]) for name in self.arg_constraints if name in self.__dict__]
        return f"{type(self).__name__}({', '.join(f'{n}: {t if t.numel() == 1 else t.size()}' for n, t in named)})"

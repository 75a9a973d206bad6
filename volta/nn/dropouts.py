"""The layers of dropout: each is the function of nn.functional, in training."""
from __future__ import annotations

from numbers import Real

from volta.errors import ArgumentError, CallError
from volta.nn import functional
from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    """A dropout by the function of nn.functional that is `_function`."""

    _shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not isinstance(p, Real) or not 0.0 <= p <= 1.0:
            kind = ArgumentError if isinstance(p, Real) else CallError
            raise kind(f"{type(self).__name__}: p must be a probability in [0, 1], got {p!r}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, self._function.__name__)(input, self.p, self.training, self.inplace)


class Dropout(_Dropout):
    """Zeroes each element with probability p and scales the others by 1 / (1 - p), in training. Source: Srivastava et al. 2014."""

    _function = staticmethod(functional.dropout)


class Dropout1d(_Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L)."""

    _function = staticmethod(functional.dropout1d)


class Dropout2d(_Dropout):
    """Dropout of whole channels of (N, C, H, W). Source: Tompson et al. 2015."""

    _function = staticmethod(functional.dropout2d)


class Dropout3d(_Dropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    _function = staticmethod(functional.dropout3d)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance in networks of SELU. Source: Klambauer et al. 2017."""

    _function = staticmethod(functional.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels of (N, C, ...)."""

    _function = staticmethod(functional.feature_alpha_dropout)

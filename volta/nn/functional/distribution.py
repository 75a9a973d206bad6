"""Softmax and its kin in PyTorch's forms for networks, in which `dim` may be left out."""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta.errors import DTypeError
from volta.nn.functional.formulas import noisy
from volta.ops import reduce
from volta.ops.copy import cast
from volta.ops.creation import arange, rand_like
from volta.ops.records import math as r
from volta.ops.records.chain import fused
from volta.ops.table import case, composed
from volta.ops.view import reshape
from volta.shapes import as_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DTypeLike

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]

_SAMPLES = (case((3, 4), dim=-1), case((2, 3, 4), dim=1), case((), dim=0))


def _known(name, dim, ndim, stacklevel):
    """`dim`, or the one that PyTorch takes where none is given, with its warning."""
    if dim is not None:
        return dim
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
                  UserWarning, stacklevel=stacklevel)
    return 0 if ndim in (0, 1, 3) else 1


def _np_softmax(x, dim):
    e = np.exp(x - x.max(axis=dim, keepdims=True)) if x.ndim else np.ones(())
    return e / e.sum(axis=dim, keepdims=True) if x.ndim else e


@composed(name="functional.softmax", samples=_SAMPLES, numpy=_np_softmax, function=False, method=False)
def softmax(input: Tensor, dim: int | None = None, _stacklevel: object = 3, dtype: DTypeLike = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, without overflow. Without `dim`, along 0 of a tensor of 0, 1 or 3 dimensions, else along 1, with a
    UserWarning.

    >>> volta.nn.functional.softmax(volta.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return reduce.softmax(input, _known("softmax", dim, input.ndim, _stacklevel), dtype)


@composed(name="functional.log_softmax", samples=_SAMPLES, numpy=lambda x, dim: np.log(_np_softmax(x, dim)), function=False, method=False)
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: object = 3, dtype: DTypeLike = None) -> Tensor:
    """log(softmax(x)) along `dim`, without overflow; `dim` as in `softmax`.

    >>> volta.nn.functional.log_softmax(volta.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    return reduce.log_softmax(input, _known("log_softmax", dim, input.ndim, _stacklevel), dtype)


@composed(samples=_SAMPLES, numpy=lambda x, dim: _np_softmax(-x, dim), function=False, method=False)
def softmin(input: Tensor, dim: int | None = None, _stacklevel: object = 3, dtype: DTypeLike = None) -> Tensor:
    """softmax(-x); `dim` as in `softmax`.

    >>> volta.nn.functional.softmin(volta.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return reduce.softmax(-input, _known("softmin", dim, input.ndim, _stacklevel), dtype)


@composed(in_float32=True, takes={"logits": "f"}, function=False, method=False, untested="draws: tests/test_special_functions.py")
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((logits + noise) / tau) with Gumbel noise, a soft sample of the categories along `dim`; with `hard` a 1 there, which has the
    gradient of the soft sample. `eps` has no effect, as in PyTorch, which warns too. Source: Jang et al. 2017, eq. 2.

    Raises: DTypeError for a `tau` that is no number.

    >>> volta.nn.functional.gumbel_softmax(volta.tensor([0.0, 100.0]), hard=True)
    tensor([0., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", UserWarning, stacklevel=2)
    if not isinstance(tau, (int, float)):
        raise DTypeError(f"gumbel_softmax: tau must be a number, got {type(tau).__name__}")
    soft = reduce.softmax(fused(noisy, logits, rand_like(logits), 2.0 ** -25, tau), dim)     # a draw of 0 would be an infinite noise
    if not hard:
        return soft
    d = as_dim("gumbel_softmax", dim, logits.ndim)
    sizes = logits.shape[d:d + 1] + (1,) * (logits.ndim - d - 1)
    places = reshape(arange(sizes[0] if sizes else 1, device=logits.device), sizes)
    sample = cast(r.eq(places, reduce.argmax(soft.detach(), dim, keepdim=True)), soft.dtype)
    return sample - soft.detach() + soft

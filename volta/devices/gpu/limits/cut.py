"""Cutting the work of a kernel in two: pieces of operands, and results put together again."""
from __future__ import annotations

from volta._kernels import core
from volta.devices.gpu.common import BYTES, context, max_binding
from volta.devices.gpu.copy import cat, contiguous
from volta.errors import BindingLimitError

KERNELS: dict = {}          # the GPU's by name, which kernels.py enters: parts are put together by them


def call(name: str, *operands, **params):
    """A kernel of the table."""
    return KERNELS[name](*operands, **params)


def limit_of(t) -> int:
    """Bytes that one launch can see of a buffer."""
    return max_binding(context(t.storage.device))


def bytes_of(t) -> int:
    return t._size * BYTES[t.dtype.code]


def flat(t):
    """A contiguous tensor's elements in one dimension; a row-major copy's, where its strides are others."""
    return core.reshaped(t if t._contiguous else contiguous(t), (t._size,))


def part(t, dim, start, stop):
    """Copy of t[start:stop] along dim; all of t where dim is None."""
    return t if t is None or dim is None else contiguous(narrow(t, dim, start, stop))


def narrow(t, dim, start, stop):
    """View of t[start:stop] along dim."""
    shape = t.shape[:dim] + (stop - start,) + t.shape[dim + 1:]
    return core.view(t, shape, t._strides, t.offset + start * t._strides[dim])


def join(first, second, dims):
    """The results of two pieces as one; dims None adds them."""
    if isinstance(first, tuple):
        return tuple(join(a, b, d) for a, b, d in zip(first, second, dims))
    return call("add", first, second) if dims is None else cat(first, second, dim=dims)


def refuse(x):
    """Raises: BindingLimitError, where there is nothing left to cut."""
    raise BindingLimitError(f"a slice of shape {x.shape} alone is larger than one binding of this GPU ({limit_of(x)} bytes); "
                            "use smaller tensors")


def halves(run, inputs, params, dims, joined):
    """run on both halves of the inputs along dims[i]; `joined` is the dimension of the result (a tuple for several, None to add). Of
    inputs that differ in length the shortest is halved, and the others are cut in the same proportion.

    Raises: BindingLimitError where there is nothing left to cut.
    """
    n = min((x.shape[d] for x, d in zip(inputs, dims) if x is not None and d is not None), default=1)
    if n < 2:
        refuse(inputs[0])

    def piece(a, b):
        return run(*[x if x is None or d is None else part(x, d, a * x.shape[d] // n, b * x.shape[d] // n) for x, d in zip(inputs, dims)],
                   **params)
    return join(piece(0, n // 2), piece(n // 2, n), joined)

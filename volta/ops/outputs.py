"""`out=`: results written into tensors that the caller gives, as in PyTorch. Knows no single op."""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from volta._kernels import core
from volta._kernels.core.grad_mode import GradMode
from volta._kernels.core.graph import is_grad_enabled, wants_grad
from volta._kernels.core.inplace import check_apart, check_elements, write
from volta._kernels.core.record import Composed, Op, Primitive
from volta.errors import ArgumentError, AutogradError, DeviceError, DTypeError
from volta.ops.records.copy import cast_op

if TYPE_CHECKING:
    from volta.tensor import Tensor


def fill(op: Op, args: tuple, options: dict, out: Tensor | tuple[Tensor, ...]) -> object:
    """Call `op` unrecorded, with its results in `out`: a tensor, or one for each result. A tensor of another shape gets that of the
    result, with a warning unless it is empty.

    Raises: AutogradError where a gradient is wanted; DTypeError, DeviceError for a tensor that cannot hold the result.
    """
    outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    for each in outs:
        if not isinstance(each, core.TensorBase):
            raise DTypeError(f"{op.name}: out must be a tensor, or one for each result, got {type(each).__name__}")
    if is_grad_enabled() and any(map(wants_grad, (*outs, *_tensors((*args, *options.values()))))):
        raise AutogradError(f"{op.name}: out= is not differentiable, but one of the tensors requires grad; detach it, or call without out")
    for place, x in enumerate((*args, *options.values())):
        for read in _tensors((x,)):
            for each in outs:
                check_apart(op.name, each, read, op.details.apart is not None and place >= op.details.apart)
    with GradMode(False):
        record = op if isinstance(op, Primitive) else op.record
        if record is not None and record.promotion and not options and isinstance(out, core.TensorBase) and write(record, out, args):
            return out
        if isinstance(op, Composed) and not any(True for _ in _tensors(args)):
            options = {"dtype": out.dtype, "device": out.device, **options}         # a new tensor is made like `out`
        result = op(*args, **options)
    several = isinstance(result, (tuple, list))
    results = tuple(result) if several else (result,)
    if len(results) != len(outs) or isinstance(out, (tuple, list)) != several:
        raise ArgumentError(f"{op.name}: out must be {f'{len(results)} tensors, one for each result' if several else 'a tensor'}, got "
                            f"{f'{len(outs)} in a {type(out).__name__}' if isinstance(out, (tuple, list)) else 'one'}")
    for each, value in zip(outs, results):
        _check(op.name, each, value)
    for each, value in zip(outs, results):
        _store(op.name, each, value)
    return type(result)(*outs) if hasattr(result, "_fields") else out


def _tensors(values):
    for value in values:
        if isinstance(value, core.TensorBase):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


def _check(name, out, value):
    """Raise where `out` cannot hold the result."""
    if value.device != out.device:
        raise DeviceError(f"{name}: the result is on {value.device}, out on {out.device}; give a tensor of that device")
    if value.dtype.category > out.dtype.category:
        raise DTypeError(f"{name}: the result is {value.dtype} and cannot be stored in out of {out.dtype}")
    check_elements(name, out)


def _store(name, out, value):
    if value.dtype is not out.dtype:
        value = cast_op(value, dtype=out.dtype)
    if out.shape == value.shape:
        out.copy_(value)
        return
    if out._size:
        warnings.warn(f"{name}: out of shape {out.shape} now has that of the result, {value.shape}; give an empty tensor or one of that "
                      "shape", stacklevel=3)
    core.assign(out, value.contiguous())

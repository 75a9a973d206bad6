"""Kernels of the device "meta", whose tensors have a shape and a dtype and no data: they say what a record gives, and compute nothing.

A record without a rule here that has a reference is done by that; any other is refused by its name. What reads values is refused.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from volta._kernels import core
from volta.device import META
from volta.dtypes import bool_, int32, int64
from volta.errors import DeviceError, MetaError


class _Nothing:
    """What stands for the memory of these tensors."""

    def __getattr__(self, name: str) -> Any:
        raise MetaError("meta: tensors without data cannot be copied or read; Module.to_empty() gives a module's tensors memory, "
                          "load_state_dict(assign=True) other tensors")


NOTHING = _Nothing()


def empty(shape: Any, dtype: Any, device: Any = META) -> Any:
    """A tensor without data."""
    size = core.checked_size(tuple(shape))
    return core.tensor(core.gpu_storage(NOTHING, size * dtype.itemsize, META), tuple(shape), None, 0, dtype)


# ---------------------------------------------------------------- rules: inputs and parameters -> (shape, dtype), or one for each output
def _tensors(inputs):
    return [x for x in inputs if isinstance(x, core.TensorBase)]


def _elementwise(op, inputs, params):
    tensors = _tensors(inputs)
    rank = max(x.ndim for x in tensors)
    sizes = zip(*[(1,) * (rank - x.ndim) + x._shape for x in tensors])
    shape = tuple([next((n for n in each if n != 1), 1) for each in sizes])
    return shape, bool_ if op.tests else (tensors[1] if op.name == "where" and len(tensors) > 1 else tensors[-1]).dtype


def _alike(op, inputs, params):
    return inputs[0]._shape, inputs[0].dtype


def _each_alike(*places):
    return lambda op, inputs, params: tuple([(inputs[i]._shape, inputs[i].dtype) if inputs[i] is not None else ((0,), inputs[0].dtype)
                                             for i in places])


def _each_of(place):
    return lambda op, inputs, params: (inputs[place]._shape, inputs[place].dtype)


def _recurrent(op, inputs, params):
    x, width, rows = inputs[0], inputs[1]._shape[1], params["batch_sizes"][0]
    cells = rows if params["mode"] == "lstm" else 0
    saved = {"lstm": 7, "gru": 5}.get(params["mode"])           # as many vectors of each row
    return (((x._shape[0], width), x.dtype), ((rows, width), x.dtype), ((cells, width), x.dtype),
            ((0,) if saved is None else (x._shape[0], saved * width), x.dtype))


def _recurrent_grad(op, inputs, params):
    x, width, rows = inputs[0], inputs[1]._shape[1], params["batch_sizes"][0]
    return ((x._shape, x.dtype), (x._shape if params["mode"] == "gru" else (0, x._shape[1]), x.dtype), ((rows, width), x.dtype),
            ((rows if params["mode"] == "lstm" else 0, width), x.dtype))


def _summed(op, inputs, params):
    x = inputs[0]
    return x._shape, x.dtype if x.dtype.is_floating_point else int64


def _cast(op, inputs, params):
    return inputs[0]._shape, params["dtype"]


def _reduced_shape(x, dim, keepdim):
    dims = {dim} if isinstance(dim, int) else set(dim)
    return tuple([1 if i in dims else n for i, n in enumerate(x._shape) if keepdim or i not in dims])


def _reduced(dtype=None, sums=False):
    def rule(op, inputs, params):
        x = inputs[0]
        kind = dtype or (int64 if sums and not x.dtype.is_floating_point else x.dtype)
        return _reduced_shape(x, params["dim"], params.get("keepdim", False)), kind
    return rule


def _var(op, inputs, params):
    one = _reduced_shape(inputs[0], params["dim"], params["keepdim"]), inputs[0].dtype
    return one, one


def _places(index):
    """Values and where they are."""
    def rule(op, inputs, params):
        x, dim = inputs[0], params["dim"]
        size = x._shape[dim] if x.ndim else 1
        count = index(params, size)
        shape = x._shape if not x.ndim else (*x._shape[:dim], count, *x._shape[dim + 1:])
        return (shape, x.dtype), (shape, int64)
    return rule


def _broadcast(a, b):
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b)
    return tuple([n if m == 1 else m for n, m in pairs])


def _matmul(op, inputs, params):
    a, b = inputs[0]._shape, inputs[1]._shape
    return (*_broadcast(a[:-2], b[:-2]), a[-2], b[-1]), inputs[0].dtype


def _sized(op, inputs, params):
    """As the first, with another size along a dimension."""
    shape, dim = inputs[0]._shape, params["dim"]
    return (*shape[:dim], params["size"], *shape[dim + 1:]), inputs[0].dtype


def _index_select(op, inputs, params):
    shape, dim = inputs[0]._shape, params["dim"]
    return (*shape[:dim], inputs[1]._size, *shape[dim + 1:]), inputs[0].dtype


def _cat(op, inputs, params):
    shape, dim = inputs[0]._shape, params["dim"]
    return (*shape[:dim], sum(x._shape[dim] for x in inputs), *shape[dim + 1:]), inputs[0].dtype


def _convolution(op, inputs, params):
    x, weight = inputs[0]._shape, inputs[1]._shape
    outs = [(n + 2 * pad - d * (k - 1) - 1) // step + 1
            for n, k, pad, d, step in zip(x[2:], weight[2:], params["padding"], params["dilation"], params["stride"])]
    return (x[0], weight[0], *outs), inputs[0].dtype


def _convolution_input(op, inputs, params):
    size = params["size"] if "size" in params else (params["height"], params["width"])
    return (inputs[0]._shape[0], inputs[1]._shape[1] * params["groups"], *size), inputs[0].dtype


def _convolution_weight(op, inputs, params):
    return (inputs[0]._shape[1], inputs[1]._shape[1] // params["groups"], *params["kernel"]), inputs[0].dtype


def _windows(op, inputs, params):
    shape = (*inputs[0]._shape[:2], *params["size"]), inputs[0].dtype
    return (shape, (shape[0], int64)) if op.name == "max_pool" else shape


def _batch_norm(op, inputs, params):
    x = inputs[0]
    return (x._shape, x.dtype), (x._shape[1:2], x.dtype), (x._shape[1:2], x.dtype)


def _row_norm(op, inputs, params):
    x = inputs[0]
    rows = (x._size // params["length"],)
    return (x._shape, x.dtype), (rows, x.dtype), (rows, x.dtype)


def _attention(op, inputs, params):
    q, k, v = (x._shape for x in inputs[:3])
    return ((*q[:3], v[3]), inputs[0].dtype), ((*q[:3], 2), inputs[0].dtype)


def _cross_entropy(op, inputs, params):
    loss = inputs[0]._shape[:1], inputs[0].dtype
    return (loss, (inputs[0]._shape, inputs[0].dtype)) if op.name.endswith("softmax") else loss


def _attention_slopes(op, inputs, params):
    return (*inputs[1]._shape[:3], inputs[2]._shape[2]), inputs[1].dtype


def _nll(op, inputs, params):
    shape = inputs[1]._shape if params["reduction"] == "none" else ()
    return (shape, inputs[0].dtype), ((1 if params["reduction"] == "mean" else 0,), inputs[0].dtype)


def _distances(x1, x2):
    batch, n = x1._shape[:2]
    return (batch, n * (n - 1) // 2) if x2 is None else (batch, n, x2._shape[1])


_RULES: dict[str, Callable] = {
    **dict.fromkeys(("contiguous", "clone", "softmax", "log_softmax", "triangle", "dropout", "softmax_grad", "log_softmax_grad",
                     "scatter_sum", "index_sum", "scatter_reduce", "logcumsumexp", "scale_gradient", "logsigmoid", "cross", "roll",
                     "uncounted", "batch_norm_given", "recurrence", "matrix_exp", "matrix_exp_grad", "cofactor", "cholesky_solve"), _alike),
    **dict.fromkeys(("inv", "cholesky"), lambda op, x, params: ((x[0]._shape, x[0].dtype), (x[0]._shape[:-2], int32))),
    "solve": lambda op, x, params: ((x[1]._shape, x[1].dtype), (x[0]._shape[:-2], int32), (x[0]._shape, x[0].dtype),
                                    (x[0]._shape[:-1], int32)),
    **dict.fromkeys(("triangular", "solve_again"), lambda op, x, params: (
        (*_broadcast(x[0]._shape[:-2], x[1]._shape[:-2]), *x[1]._shape[-2:]), x[1].dtype)),
    "det": lambda op, x, params: ((x[0]._shape[:-2], x[0].dtype), (x[0]._shape, x[0].dtype), (x[0]._shape[:-1], int32)),
    "slogdet": lambda op, x, params: (*((x[0]._shape[:-2], x[0].dtype),) * 2, (x[0]._shape, x[0].dtype), (x[0]._shape[:-1], int32)),
    "ctc": lambda op, x, params: ((x[0]._shape[1:2], x[0].dtype), ((x[0]._shape[1], x[0]._shape[0], 2 * x[1]._shape[1] + 1), x[0].dtype)),
    "ctc_grad": lambda op, x, params: (x[1]._shape, x[1].dtype),
    "pinv": lambda op, x, params: ((*x[0]._shape[:-2], *x[0]._shape[:-3:-1]), x[0].dtype),
    "searchsorted": lambda op, x, params: (x[1]._shape, int64),
    **dict.fromkeys(("cumsum", "cumprod"), _summed), "cast": _cast,
    **dict.fromkeys(("mean", "amax", "amin", "norm2", "logsumexp"), _reduced()),
    **dict.fromkeys(("sum", "prod"), _reduced(sums=True)), **dict.fromkeys(("any", "all"), _reduced(bool_)),
    **dict.fromkeys(("argmax", "argmin"), _reduced(int64)), "var": _var,
    "sort": _places(lambda params, size: size if params.get("count") is None else params["count"]),
    "median_all": lambda op, x, params: ((), x[0].dtype),
    "middle": _places(lambda params, size: 1), **dict.fromkeys(("cummax", "cummin"), _places(lambda params, size: size)),
    "matmul": _matmul, "linear": lambda op, x, params: ((x[0]._shape[0], x[1]._shape[0]), x[0].dtype),
    "dot": lambda op, x, params: ((), x[0].dtype), "gather": lambda op, x, params: (x[1]._shape, x[0].dtype),
    **dict.fromkeys(("index_add", "scatter_add", "scatter_unique"), _sized), "index_select": _index_select, "cat": _cat,
    "place": lambda op, x, params: (tuple(params["shape"]), x[0].dtype),
    "extend": lambda op, x, params: ((x[0]._shape[0], *params["outs"][-(x[0].ndim - 1):]), x[0].dtype),
    **dict.fromkeys(("conv2d", "conv3d"), _convolution), **dict.fromkeys(("conv2d_grad_input", "conv3d_grad_input"), _convolution_input),
    **dict.fromkeys(("conv2d_grad_weight", "conv3d_grad_weight"), _convolution_weight),
    "fractional_max_pool": lambda op, x, params: tuple([((x[0]._shape[0], *params["size"]), kind) for kind in (x[0].dtype, int64)]),
    **dict.fromkeys(("max_pool", "max_pool_values", "max_pool_grad", "avg_pool", "avg_pool_grad"), _windows),
    **dict.fromkeys(("batch_norm", "batch_norm_grad", "batch_norm_given_grad"), _batch_norm),
    "attention_slopes": _attention_slopes, "total_norm": lambda op, x, params: ((), x[0].dtype),
    "row_norm": _row_norm, "row_norm_grad": _each_alike(1, 2, 2),
    "attention": _attention, "attention_grad": _each_alike(1, 2, 3),
    **dict.fromkeys(("cross_entropy", "cross_entropy_softmax"), _cross_entropy), "nll": _nll,
    "cross_entropy_grad": lambda op, x, params: (x[1]._shape, x[1].dtype),
    "nll_grad": lambda op, x, params: (tuple(params["shape"]), x[0].dtype),
    **dict.fromkeys(("resample", "resample_grad", "extend_grad"), lambda op, x, params: (
        (*x[0]._shape[:x[0].ndim - len(params["size"])], *params["size"]), x[0].dtype)),
    "fold": lambda op, x, params: ((x[0]._shape[0], x[0]._shape[1] // math.prod(params["kernel"]), *params["size"]), x[0].dtype),
    "grid_sample": lambda op, x, params: ((*x[0]._shape[:2], *x[1]._shape[1:-1]), x[0].dtype),
    "grid_sample_input": lambda op, x, params: ((*x[0]._shape[:2], *params["size"]), x[0].dtype),
    "bag_sum": lambda op, x, params: ((params["bags"], x[0]._shape[1]), x[0].dtype),
    "longest_run": lambda op, x, params: (
        (*x[0]._shape[:params["dim"]], 1, *x[0]._shape[params["dim"] + 1:]) if x[0]._shape else (), int64),
    "bag_max": lambda op, x, params: (((params["bags"], x[0]._shape[1]), x[0].dtype), ((params["bags"], x[0]._shape[1]), int64)),
    "distances": lambda op, x, params: (_distances(*x), x[0].dtype), "distances_grad": _each_of(1),
    "grid_sample_grid": _each_of(2), "recurrent": _recurrent, "recurrent_grad": _recurrent_grad,
    # of nothing
    **dict.fromkeys(("uniform", "normal", "randint", "shuffled"), lambda op, x, params: (x[0], params["dtype"])),
    "empty": lambda op, x, params: (x[0], params["dtype"]), "full": lambda op, x, params: (x[0], params["dtype"]),
    "arange": lambda op, x, params: ((x[2],), params["dtype"]),
    "upload": lambda op, x, params: (x[0].shape, x[1]),
}


class _Kernel:
    """What is called for a record."""

    def __init__(self, op: Any) -> None:
        self.op = op

    def into(self, out: Any, *inputs: Any) -> Any:
        """There is nothing to write into."""
        return out

    def __call__(self, *inputs: Any, **params: Any) -> Any:
        op = self.op
        if op.name == "download":
            return NOTHING.values
        if op.is_view:
            return op.cpu(*inputs, **params)
        if op.writes:
            return None
        rule = _RULES.get(op.name) or (_elementwise if op.promotion else None)
        if rule is None and op.reference is not None:
            return op.reference(*inputs, **params)
        if rule is None:
            raise DeviceError(f"{op.name}: there is no rule for tensors without data ('meta'); call it with tensors that have some")
        found = rule(op, inputs, params)
        if found and isinstance(found[0], tuple) and len(found[0]) == 2 and isinstance(found[0][0], tuple):
            return tuple([empty(shape, dtype) for shape, dtype in found])
        return empty(*found)


_kernels: dict[str, _Kernel] = {}


def kernel_of(op: Any) -> _Kernel:
    """The kernel of a record."""
    found = _kernels.get(op.name)
    if found is None or found.op is not op:
        found = _kernels[op.name] = _Kernel(op)
    return found


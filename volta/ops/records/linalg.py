"""Records of the matrix products: `matmul` of two operands of at least 2 dimensions, `dot` of two vectors, and `linear` with its bias."""
from __future__ import annotations

import numpy as np

from volta.dtypes import HALVES, float32
from volta.ops.records.copy import cast
from volta.ops.records.reduce import sum_op, sum_to
from volta.ops.records.view import permute_op
from volta.ops.table import case, register


def turned(x):
    """The last two dimensions exchanged."""
    n = len(x.shape)
    return permute_op(x, dims=(1, 0) if n == 2 else (*range(n - 2), n - 1, n - 2))


def _batch_sum(a, b, shape):
    """a @ b, summed down to `shape` where that was broadcast: in float32, since a float16 or bfloat16 would be rounded before the sum.
    A column by a row is an elementwise product."""
    if a.ndim == b.ndim == 2 and a.shape[-1] == 1:
        return a * b
    if a.dtype not in HALVES or max(a.ndim, b.ndim) == len(shape) and a.shape[:-2] == b.shape[:-2] == shape[:-2]:
        return matmul_op(a, b)
    return cast(sum_to(matmul_op(cast(a, float32), cast(b, float32)), shape), a.dtype)


matmul_op = register(
    "matmul", ("a", "b"), names=("input", "other"), family="linalg", takes="fi", numpy=np.matmul, kinds="fi", rtol=1e-4,
    vjp=(lambda g, b, a_shape: _batch_sum(g, turned(b), a_shape),
         lambda g, a, b_shape: _batch_sum(turned(a), g, b_shape)),
    cases=(case((3, 4), (4, 5)), case((2, 3, 4), (2, 4, 5)), case((2, 1, 3, 4), (5, 4, 2)), case((1, 1), (1, 1)), case((0, 3), (3, 2)),
           case((2, 0), (0, 3)), case((33, 65), (65, 17)), case((1, 70), (70, 5)), case((2, 0, 1, 3), (2, 0, 3, 2)),
           case((2, 1, 5), (1, 5, 3))))
dot_op = register(
    "dot", ("a", "b"), names=("input", "tensor"), family="linalg", takes="fi", numpy=np.dot, kinds="fi", rtol=1e-4,
    vjp=(lambda g, b: g * b, lambda g, a: g * a),
    cases=(case((4,), (4,)), case((0,), (0,)), case((1,), (1,)), case((700,), (700,)), case((20001,), (20001,))))
cross_op = register(
    "cross", ("a", "b"), family="linalg", takes={"a": "fi", "b": "=a"}, kinds="fi", rtol=1e-4,
    numpy=lambda a, b, dim: np.cross(a, b, axis=dim),
    vjp=(lambda g, b, dim: cross_op(b, g, dim=dim), lambda g, a, dim: cross_op(g, a, dim=dim)),
    cases=(case((5, 3), (5, 3), dim=1), case((2, 3, 4), (2, 3, 4), dim=1), case((3, 700), (3, 700), dim=0), case((0, 3), (0, 3), dim=1)))
linear_op = register(
    "linear", ("x", "weight", "bias"), names=("input", "weight", "bias"), family="linalg", rtol=1e-4,
    takes={"x": "f", "weight": "=x", "bias": "=x?"},
    numpy=lambda x, weight, bias: x @ weight.T + (0 if bias is None else bias),
    vjp=(lambda g, weight: matmul_op(g, weight), lambda g, x: matmul_op(turned(g), x),
         lambda g: sum_op(g, dim=(0,), keepdim=False)),
    cases=(case((3, 4), (5, 4), (5,)), case((3, 4), (5, 4), None), case((0, 4), (2, 4), (2,)), case((40, 33), (18, 33), (18,))))

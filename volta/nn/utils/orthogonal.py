"""Matrices that stay orthogonal while they are trained. Source: Lezcano-Casado, Trivializations for Gradient-Based Optimization on
Manifolds."""
from __future__ import annotations

import math
from typing import Literal, TypeVar

from volta.autograd import no_grad
from volta.dtypes import finfo
from volta.errors import ArgumentError, ShapeError
from volta.nn.module import Module
from volta.nn.utils.parametrize import register_parametrization
from volta.ops.creation import empty, eye, zeros_like
from volta.ops.decomposition import linalg_qr
from volta.ops.factor import geqrf
from volta.ops.inverse import matrix_exp, solve
from volta.ops.join import cat
from volta.tensor import Tensor

__all__ = ["orthogonal"]

M = TypeVar("M", bound=Module)
Map = Literal["matrix_exp", "cayley", "householder"]


def _made_orthogonal(a):
    """The orthogonal factor of tall matrices, with the signs of a positive diagonal."""
    q, r = linalg_qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _is_orthogonal(q):
    """Whether columns are orthogonal, as far as their dtype can tell."""
    error = (q.mT @ q - eye(q.shape[-1], dtype=q.dtype, device=q.device)).abs().amax().item()
    return error < 10 * q.shape[-2] * finfo(q.dtype).eps * math.sqrt(q.shape[-1])


def _reflected(vectors, unit):
    """The first columns of the product of the reflections at these vectors, by its compact form I - V T V^T."""
    products = vectors.mT @ vectors
    inverse = products.triu(1) + (products.diagonal(dim1=-2, dim2=-1) / 2).diag_embed()
    return unit - vectors @ solve(inverse, vectors[..., :vectors.shape[-1], :].mT)


class _Orthogonal(Module):
    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: Map, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map, self.use_trivialization = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)
        else:
            self.base = None

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        X = X.mT if wide else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            unit = eye(n, k, dtype=X.dtype, device=X.device)
            Q = _reflected(X.tril(-1) + unit, unit) * X.detach().diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = cat([X, X.new_zeros(*X.shape[:-2], n, n - k)], -1)
            A = X - X.mT
            unit = eye(n, dtype=A.dtype, device=A.device)
            Q = (matrix_exp(A) if self.orthogonal_map == "matrix_exp" else solve(unit - A / 2, unit + A / 2))[..., :k]
        if self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """What stands for these matrices, which are made orthogonal. Raises: ShapeError; NotImplementedError without a base, but for
        "householder"."""
        if Q.shape != self.shape:
            raise ShapeError(f"orthogonal: needs matrices of shape {self.shape}, got {Q.shape}")
        given, wide = Q, Q.shape[-2] < Q.shape[-1]
        Q = Q.mT if wide else Q
        n, k = Q.shape[-2:]
        if not self.use_trivialization:
            if self.orthogonal_map != "householder":
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                                          "use_trivialization=False.")
            A, tau = geqrf(Q)
            diagonal = A.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(diagonal.sign() * (1 - 2 * (tau == 0).to(A.dtype)))
            return A.mT if wide else A
        if n != k:
            Q = cat([Q, empty(*Q.shape[:-1], n - k, dtype=Q.dtype, device=Q.device).normal_()], -1)
        self.base = Q.clone() if n == k and _is_orthogonal(Q) else _made_orthogonal(Q)
        result = zeros_like(given)
        result.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return result


def orthogonal(module: M, name: str = "weight", orthogonal_map: Map | None = None, *, use_trivialization: bool = True) -> M:
    """Keep the matrix `name`, or each of a batch, orthogonal: columns if it is tall, rows if it is wide. `orthogonal_map` says how it is
    computed from what is trained: None is "matrix_exp" for square matrices, "householder" for others. `use_trivialization` computes it
    from where it began.

    Raises: ArgumentError where there is no such parameter or map, or it is no matrix; on a GPU, which solves no equations, DeviceError
    (under `set_gpu_gaps("warn")` they are solved on the CPU).

    >>> w = volta.nn.utils.parametrizations.orthogonal(volta.nn.Linear(3, 5)).weight
    >>> volta.allclose(w.T @ w, volta.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"orthogonal: {type(module).__name__} has no parameter or buffer {name!r}")
    if weight.ndim < 2:
        raise ArgumentError(f"orthogonal: needs a matrix or batch of matrices, got a tensor of {weight.ndim} dimensions")
    chosen = orthogonal_map or ("matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder")
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ArgumentError(f"orthogonal: orthogonal_map must be 'matrix_exp', 'cayley' or 'householder', got {orthogonal_map!r}")
    return register_parametrization(module, name, _Orthogonal(weight, chosen, use_trivialization), unsafe=True)

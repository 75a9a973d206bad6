"""torch.nn.utils._per_sample_grad: gradients of parameters for each sample of a batch, left in `parameter.grad_sample`."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from volta.autograd import Function
from volta.batching import vmap
from volta.compat.pytree import tree_leaves, tree_map
from volta.func import functional_call
from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["call_for_per_sample_grads"]


def call_for_per_sample_grads(module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum",
                              batch_first: bool = True) -> Callable[..., Any]:
    """A function that calls the module sample by sample. After `backward`, `grad_sample` of each parameter holds what each sample adds to
    its gradient, times the batch size where the loss is their mean; `grad` stays as it was.

    Raises: RuntimeError for an option that is none, for parameters that have a `grad_sample` already, and where the size of the batch
    cannot be told from the arguments.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    if any(getattr(weight, "grad_sample", None) is not None for weight in module.parameters()):
        raise RuntimeError("call_for_per_sample_grads: a parameter has gradients of another call in grad_sample; set it to None first")
    dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def call(*args, **kwargs):
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        sizes = {x.shape[dim] for x in given} if batch_size is None else {batch_size}
        if len(sizes) != 1:
            raise RuntimeError(f"call_for_per_sample_grads: the tensors need one batch size, got {sorted(sizes)}; give batch_size")
        size, = sizes
        scale = size if loss_reduction == "mean" else 1
        parameters = {name: _Expanded.apply(p, size, scale) for name, p in module.named_parameters() if p.requires_grad}
        whole = tree_map(lambda x: x.unsqueeze(dim + 1) if isinstance(x, Tensor) else x, (args, kwargs))
        mapped = tree_map(lambda x: dim if isinstance(x, Tensor) else None, (args, kwargs))
        out = vmap(lambda own, args, kwargs: functional_call(module, own, args, kwargs), (0, *mapped), dim)(parameters, *whole)
        return tree_map(lambda x: x.squeeze(dim + 1), out)
    return call


class _Expanded(Function):
    """A parameter once for each sample. The gradients stay apart: they go to `grad_sample`."""

    @staticmethod
    def forward(ctx, p, size, scale):
        ctx.parameter, ctx.scale = p, scale
        return p.detach().expand(size, *p.shape)

    @staticmethod
    def backward(ctx, g):
        found, p = g * ctx.scale, ctx.parameter
        p.grad_sample = found if getattr(p, "grad_sample", None) is None else p.grad_sample + found
        return None, None, None

"""torch._C._functorch and torch._functorch.vmap: what packages ask of `vmap` from inside, whether a tensor is a sample and of what."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volta.batching import vmap
from volta.batching_rules import Call, Sample, running, sample
from volta.compat.pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from volta.ops.view import movedim
from volta.tensor import Tensor

__all__ = ["Tensor", "_broadcast_to_and_flatten", "get_unwrapped", "is_batchedtensor", "maybe_get_level", "tree_flatten", "tree_unflatten"]


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a `vmap` that runs gave the tensor to its function."""
    return isinstance(tensor, Sample)


def get_unwrapped(tensor: Tensor) -> Tensor:
    """The tensor of all samples, the batch in front; any other tensor as it is."""
    return tensor.physical if isinstance(tensor, Sample) else tensor


def maybe_get_level(tensor: Tensor) -> int:
    """How many `vmap`s there are around a sample, its own counted; -1 for any other tensor."""
    return running().index(tensor.level) + 1 if isinstance(tensor, Sample) else -1


def _add_batch_dim(x: Tensor, in_dim: int, level: int) -> Tensor:
    """The sample, at this level, of a tensor of samples."""
    return sample(movedim(x, in_dim, 0), running()[level - 1])


def _remove_batch_dim(x: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """The tensor of all samples at this level."""
    return movedim(Call(running()[level - 1]).of(x), 0, out_dim)


def _maybe_remove_batch_dim(name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None) -> Any:
    """The tensor of all samples where the result is a tensor and is mapped."""
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(f"vmap: {name} must give tensors where out_dims is not None, got {type(batched_output).__name__}")
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False) -> Callable[..., Any]:
    """`vmap`, under the name that it had."""
    return vmap(func, in_dims, out_dims)


def _get_name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))

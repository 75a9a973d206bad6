"""torch._utils: many tensors as one vector, which packages send, sum or step as a whole, and back."""
from __future__ import annotations

from collections.abc import Sequence

from volta.ops.join import cat
from volta.tensor import Tensor


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in order as one vector; of a single tensor a view where its layout allows one."""
    return tensors[0].reshape(-1) if len(tensors) == 1 else cat([each.reshape(-1) for each in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of such a vector in the shapes of `tensors`."""
    return tuple(part.view(each.shape) for part, each in zip(flat.split([each.numel() for each in tensors]), tensors, strict=True))

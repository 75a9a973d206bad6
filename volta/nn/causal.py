"""torch.nn.attention.bias: masks that let each position see the ones before it, for `scaled_dot_product_attention`."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.ops.creation import ones
from volta.tensor import Tensor

__all__ = ["causal_lower_right", "causal_upper_left"]


def _mask(name: str, sizes: tuple[int, ...], diagonal: int) -> Tensor:
    if len(sizes) != 2:
        raise ArgumentError(f"{name}: needs the number of queries and of keys, got {sizes}")
    return ones(*sizes, dtype="bool").tril(diagonal)


def causal_upper_left(*size: int) -> Tensor:
    """True where a key is not behind the query: the first query sees the first key. PyTorch gives a mask of a class of its own.

    >>> causal_upper_left(2, 3).int().tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    return _mask("causal_upper_left", size, 0)


def causal_lower_right(*size: int) -> Tensor:
    """True where a key is not behind the query: the last query sees the last key.

    >>> causal_lower_right(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return _mask("causal_lower_right", size, size[-1] - size[0] if len(size) == 2 else 0)

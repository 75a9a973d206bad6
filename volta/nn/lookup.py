"""Embedding and EmbeddingBag."""
from __future__ import annotations

from volta.errors import ArgumentError, AssertedError, AssertedShapeError
from volta.nn import functional, init
from volta.nn.linear import sizes
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import empty
from volta.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class _Lookup(Module):
    """A table of rows, normal at the start; the row of padding_idx is 0 and stays."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, max_norm: float | None, norm_type: float,
                 scale_grad_by_freq: bool, sparse: bool, weight: Tensor | None, device, dtype) -> None:
        super().__init__()
        name = type(self).__name__
        self.num_embeddings, self.embedding_dim = sizes(name, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None:
            if not -self.num_embeddings <= padding_idx < self.num_embeddings:
                raise AssertedError(f"{name}: padding_idx must be within the {num_embeddings} rows, got {padding_idx}")
            padding_idx %= self.num_embeddings
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if weight is None:
            self.weight = Parameter(empty(self.num_embeddings, self.embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        elif tuple(weight.shape) != (self.num_embeddings, self.embedding_dim):
            raise AssertedShapeError(f"{name}: the weight must have shape {(self.num_embeddings, self.embedding_dim)}, got {weight.shape}")
        else:
            self.weight = weight if isinstance(weight, Parameter) else Parameter(weight)

    def reset_parameters(self) -> None:
        """Draw the rows anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    @classmethod
    def _from(cls, embeddings, freeze, **options):
        if embeddings.ndim != 2:
            raise AssertedShapeError(f"{cls.__name__}.from_pretrained: embeddings must be a matrix, got shape {embeddings.shape}")
        out = cls(*embeddings.shape, _weight=embeddings, **options)
        out.weight.requires_grad_(not freeze)
        return out

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, default in (("padding_idx", None), ("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class Embedding(_Lookup):
    """The rows of a table that the input numbers.

    Shape: (...) of integers -> (..., embedding_dim).
    Raises: ArgumentError for sizes below 0, a padding_idx that is no row; IndexRangeError for a number that is no row.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
                 _freeze: bool = False, device=None, dtype=None) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device,
                         dtype)
        self.weight.requires_grad_(not _freeze)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
                        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Embedding:
        """A layer whose table is this matrix, which `freeze` keeps from being trained."""
        return cls._from(embeddings, freeze, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type,
                         scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)

    def forward(self, input: Tensor) -> Tensor:
        return functional.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                                    self.sparse)

    def extra_repr(self) -> str:
        return super().extra_repr() + (", sparse=True" if self.sparse else "")


class EmbeddingBag(_Lookup):
    """Sums, means or maxima of the rows of a table that each bag of the input numbers.

    Shape: (bags, n), or (n,) with offsets -> (bags, embedding_dim).
    Raises: as Embedding; ArgumentError for another mode.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
                 include_last_offset: bool = False, padding_idx: int | None = None, device=None, dtype=None) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device,
                         dtype)
        if mode not in ("sum", "mean", "max"):
            raise ArgumentError(f"EmbeddingBag: mode must be sum, mean or max, got {mode!r}")
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
                        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
                        padding_idx: int | None = None) -> EmbeddingBag:
        """A layer whose table is this matrix, which `freeze` keeps from being trained."""
        return cls._from(embeddings, freeze, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode,
                         sparse=sparse, include_last_offset=include_last_offset, padding_idx=padding_idx)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return functional.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
                                        self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        row = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{super().extra_repr().replace(row, '', 1)}, mode={self.mode!r}{row}"

"""Sequences of several lengths: padded to one tensor, or packed, step by step without gaps, for the recurrent layers."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from volta._kernels import core
from volta.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from volta.ops.from_data import tensor
from volta.ops.join import cat, pad, stack
from volta.tensor import Tensor

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
           "unpack_sequence", "unpad_sequence"]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """The elements of all sequences, step by step, `batch_sizes` (on the CPU) of them each; the sequences stand in the order
    `sorted_indices` of the batch, and `unsorted_indices` leads back. Made by pack_padded_sequence and pack_sequence.

    Raises: DeviceError for batch_sizes on another device than the CPU.
    """

    def __new__(cls, data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
                unsorted_indices: Tensor | None = None) -> PackedSequence:
        if batch_sizes is None:
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise DeviceError("PackedSequence: batch_sizes should always be on the CPU; make packed sequences by pack_sequence or "
                              "pack_padded_sequence")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, convert: Callable[[Tensor], Tensor]) -> PackedSequence:
        """The sequence with data converted, and the order where that lies then; itself where nothing changes."""
        data = convert(self.data)
        if data is self.data:
            return self
        return type(self)(data, self.batch_sizes, *[t if t is None else t.to(data.device) for t in self[2:]])

    def to(self, *args: object, **kwargs: object) -> PackedSequence:
        """The sequence with data.to(...); itself where nothing changes."""
        return self._with(lambda t: t.to(*args, **kwargs))

    def cuda(self, *args: object, **kwargs: object) -> PackedSequence:
        """The sequence on a GPU."""
        return self._with(lambda t: t.cuda(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """The sequence in host memory."""
        return self._with(lambda t: t.cpu())

    def double(self) -> PackedSequence:
        """The sequence in float64."""
        return self._with(lambda t: t.double())

    def float(self) -> PackedSequence:
        """The sequence in float32."""
        return self._with(lambda t: t.float())

    def half(self) -> PackedSequence:
        """The sequence in float16."""
        return self._with(lambda t: t.half())

    def long(self) -> PackedSequence:
        """The sequence in int64."""
        return self._with(lambda t: t.long())

    def int(self) -> PackedSequence:
        """The sequence in int32."""
        return self._with(lambda t: t.int())

    def char(self) -> PackedSequence:
        """The sequence in int8."""
        return self._with(lambda t: t.char())

    def short(self) -> PackedSequence:
        """The sequence in int16."""
        return self._with(lambda t: t.short())

    def byte(self) -> PackedSequence:
        """The sequence in uint8."""
        return self._with(lambda t: t.byte())

    def pin_memory(self) -> PackedSequence:
        """The sequence itself: transfers take any memory."""
        return self._with(lambda t: t.pin_memory())

    def is_pinned(self) -> bool:
        """False: no memory is page-locked."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether the data lies on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that leads back; None of None."""
    return None if permutation is None else permutation.argsort()


def _host(name: str, values: Tensor | Sequence[int]) -> np.ndarray:
    """Lengths as an array; of other numbers the whole part, as in PyTorch. Raises: DeviceError, ShapeError."""
    if isinstance(values, core.TensorBase) and values.device.type != "cpu":
        raise DeviceError(f"{name}: lengths must be on the CPU, got a tensor on {values.device}; move it with .cpu()")
    found = values.detach().numpy() if isinstance(values, core.TensorBase) else np.asarray(values, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iufb":
        raise ShapeError(f"{name}: lengths must be a vector of numbers, got {found.dtype} of shape {found.shape}")
    return found.astype(np.int64)


def pack_padded_sequence(input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """The elements of padded sequences, (T, N, ...), that are within the `lengths`. With enforce_sorted these must fall.

    Raises: ShapeError, ArgumentError for lengths that do not fit; DeviceError for lengths on a GPU.
    """
    name = "pack_padded_sequence"
    x, found, order = input.transpose(0, 1) if batch_first else input, _host(name, lengths), None
    if not x._size:
        raise ShapeError(f"{name}: cannot pack empty tensors, got shape {input.shape}")
    if len(found) != x.shape[1]:
        raise ShapeError(f"{name}: expected len(lengths) to be equal to batch_size, but got {len(found)} (batch_size={x.shape[1]})")
    if found.min() <= 0 or found.max() > x.shape[0]:
        raise ArgumentError(f"{name}: length of all samples has to be greater than 0, and at most {x.shape[0]}, got {found.tolist()}")
    if not enforce_sorted:
        at = np.argsort(-found, kind="stable")
        found, order = found[at], tensor(at, device=x.device)
        x = x.index_select(1, order)
    elif (np.diff(found) > 0).any():
        raise ArgumentError(f"{name}: lengths must be sorted in decreasing order when enforce_sorted is True, got {found.tolist()}; pass "
                            "enforce_sorted=False where the order does not matter")
    sizes = (found[None, :] > np.arange(found[0])[:, None]).sum(1)
    data = cat([x[start:stop, :size].flatten(0, 1) for start, stop, size in _runs(sizes)])
    return PackedSequence(data, tensor(sizes, device="cpu"), order)


def _runs(sizes):
    """(start, stop, size) of neighbouring steps with equal sizes."""
    start = 0
    for size, equal in groupby(np.asarray(sizes).tolist()):
        stop = start + len(list(equal))
        yield start, stop, size
        start = stop


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """(padded, lengths): the sequences side by side, (T, N, ...), in the order that they had, and their lengths on the CPU.

    Raises: ArgumentError for a total_length below that of the longest sequence.
    """
    data, sizes = sequence.data, sequence.batch_sizes.numpy()
    batch, length = int(sizes[0]), len(sizes)
    if total_length is not None and total_length < length:
        raise ArgumentError(f"pad_packed_sequence: expected total_length to be at least the length of the longest sequence, {length}, "
                            f"but got {total_length}")
    parts, first, behind = [], 0, (0, 0) * (data.ndim - 1)
    for start, stop, size in _runs(sizes):
        rows = (stop - start) * size
        part = data[first:first + rows].reshape(stop - start, size, *data.shape[1:])
        parts.append(pad(part, (*behind, 0, batch - size), value=padding_value) if size < batch else part)
        first += rows
    out = cat(parts)
    if total_length is not None and total_length > length:
        out = pad(out, (*behind, 0, 0, 0, total_length - length), value=padding_value)
    lengths = (sizes[:, None] > np.arange(batch)[None, :]).sum(0)
    out = out.transpose(0, 1) if batch_first else out
    if sequence.unsorted_indices is not None:
        out = out.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.numpy()]
    return out, tensor(lengths, device="cpu")


def pad_sequence(sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    """Sequences, (L, ...) each, side by side as (T, N, ...), with padding behind ("right") or before them.

    Raises: DTypeError for what is no sequence of tensors; ArgumentError for none, and for another side.
    """
    if not isinstance(sequences, Iterable):
        raise DTypeError(f"pad_sequence: expected iterable for input sequences, but got {type(sequences).__name__}")
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r}")
    found = list(sequences)
    if not found:
        raise ArgumentError("pad_sequence: received an empty list of sequences")
    length = max(len(s) for s in found)

    def padded(s):
        more = (0, length - len(s)) if padding_side == "right" else (length - len(s), 0)
        return pad(s, ((0, 0) * (s.ndim - 1) + more), value=padding_value) if any(more) else s
    return stack([padded(s) for s in found], 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, each (length, ...)."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [s[:n].clone() for s, n in zip(x, _host("unpad_sequence", lengths).tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """A packed sequence of tensors, (L, ...) each. With enforce_sorted their lengths must fall."""
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one, in the order that they had."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)

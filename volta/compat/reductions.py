"""torch.nn._reduction: names of reductions as numbers, and what two older options stand for, which losses of packages ask."""
from __future__ import annotations

import warnings

from volta.errors import ArgumentError

__all__: list[str] = []
_ENUM = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction. Raises: ArgumentError for another word."""
    if reduction not in _ENUM:
        raise ArgumentError(f"{reduction} is not a valid value for reduction")
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated; write reduction='mean'", stacklevel=2)
    return _ENUM[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the options of older losses mean, None being True."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(f"size_average and reduce are deprecated; write reduction={reduction!r}", stacklevel=2)
    return reduction


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The same as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))

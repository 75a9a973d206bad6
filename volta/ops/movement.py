"""The names of this module before views, copies and joins had files of their own; goes as soon as nothing imports it."""
# ruff: noqa: F401, I001
from volta.ops.records.copy import (
    cast_op as _cast, cat_op as _cat, copy_into_op as _copy_into, download as _download, fill_into_op as _fill_into, from_array,
    transfer as _transfer, upload as _upload,
)
from volta.ops.records.view import (
    contiguous_op as contiguous_, expand_kernel as _expand_kernel, expand_op as _expand, permute_op as permute_primitive, place as _place,
    reshape_op as _reshape, slice_op as slice_primitive,
)
from volta.ops.records.reduce import sum_to
from volta.ops.copy import cast, clone, contiguous, copy_into, fill_into, flip, in_float32, promoted, repeat, replace, to, widened
from volta.ops.join import cat, result_dtype, stack
from volta.ops.view import (
    broadcast_to, chunk, expand, flatten, listed, narrow, permute, reshape, shrink, slice_view, split, squeeze, stride_op, t,
    transpose, unbind, unsqueeze, view,
)

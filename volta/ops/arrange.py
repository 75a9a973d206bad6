"""The names of this module before views, copies and joins had files of their own; goes as soon as nothing imports it."""
# ruff: noqa: F401, I001
from volta.ops.copy import diag, fliplr, flipud, repeat_interleave, tile, trace
from volta.ops.join import hstack, roll, vstack
from volta.ops.view import (
    broadcast_tensors, diagonal, meshgrid, movedim, ravel, select, swapaxes, swapdims, tensor_split, unflatten, unfold,
)

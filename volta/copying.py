"""What copies of tensors, and those that are sent to other processes, are made of."""
from __future__ import annotations

from volta._kernels import core
from volta.dtypes import bfloat16, float32
from volta.ops import copy as copies
from volta.ops.arrange import as_strided
from volta.ops.from_data import tensor
from volta.storage import width


def for_numpy(t):
    """The values as an array; of bfloat16, which NumPy has not, as float32."""
    return (copies.cast(t.detach(), float32) if t.dtype is bfloat16 else t.detach()).numpy()


def copied(x, memo):
    """A copy of the same strides. What shares memory does so when it is copied, too: the memory is copied once, whole."""
    storage = x.storage
    if not (x.device.is_gpu or x.device is core.CPU) or storage.nbytes % width(x) or core.stands_in(x):
        return core.alias(x).clone()
    key = "memory", id(storage.root or storage), x.dtype
    if key not in memo:
        memo[key] = whole(x).clone()
    return core.view(memo[key], x.shape, x._strides, x.offset)


def whole(x):
    """All of a tensor's memory as a line of elements."""
    return core.view(x, (x.storage.nbytes // width(x),), (1,), 0)


def parts(x):
    """What `rebuild` makes a tensor of the same strides of: the memory from its first to its last element as an array, and where these lie
    in it. (PyTorch takes all of the memory, however little of it a view shows.)"""
    reach = [(n - 1) * step for n, step in zip(x._shape, x._strides)] if x._size else []
    first = sum(min(each, 0) for each in reach)
    line = core.view(x, (sum(map(abs, reach)) + 1 if x._size else 0,), (1,), x.offset + first)
    return for_numpy(line), x.dtype, str(x.device), x.requires_grad, (x._shape, x._strides, -first)


def rebuild(array, dtype, device, requires_grad, place, kind=None):
    """A tensor of the class `kind` that shows these elements at a `place`: shape, strides, offset."""
    found = tensor(array, dtype=dtype, device=device)
    place = as_strided(found, *place)           # raises for what a damaged file says, elements that are not there
    found = core.view(found, place.shape, place._strides, place.offset)
    if kind is not None:
        found.__class__ = kind
    return found.requires_grad_(requires_grad)

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""When composed functions may leave the graph out: short calls are made of little else than its steps. Knows no op."""
from volta._kernels.core.base cimport DType, TensorBase, is_half, make_tensor
from volta._kernels.core.call cimport watching
from volta._kernels.core.graph cimport grad_mode, wants


cdef inline bint _unseen(TensorBase x) except -1:
    return not (watching or x.storage.version < 0 or x.storage.device.is_gpu or x.storage.tangent is not None)


cdef inline bint _bare(TensorBase x) except -1:
    return _unseen(x) and (not grad_mode() or not wants(x))


def bare(TensorBase x not None, TensorBase y=None):
    """Whether a function of these may call kernels and make views by itself: they lie on the host, and nobody records or watches."""
    return _bare(x) and (y is None or _bare(y))


def unseen(TensorBase x not None, TensorBase y not None):
    """Whether a function of these may call kernels by itself if it hangs a node on what they give: the same, whoever records."""
    return _unseen(x) and _unseen(y)


def unwatched():
    """Whether nobody watches calls."""
    return not watching


def all_bare(tuple tensors not None):
    """The same of some."""
    for x in tensors:
        if not _bare(<TensorBase?>x):
            return False
    return True


def as_columns(tuple tensors not None):
    """Each with one dimension more, the last, of size 1."""
    cdef TensorBase x
    cdef list shown = []
    for x in tensors:
        shown.append(make_tensor(x.storage, x.shape + (1,), x._strides + (1,), x.offset, x.dtype))
    return tuple(shown)


def of_one_dtype(tuple tensors not None, bint halves):
    """Whether the first is a tensor of at least 32 bits, or with `halves` of 16 while nothing is recorded, and all tensors have its dtype."""
    cdef DType first = (<TensorBase>tensors[0]).dtype if len(tensors) and isinstance(tensors[0], TensorBase) else None
    cdef bint half = first is not None and is_half(first.code)
    if first is None or half and not halves:
        return False
    for x in tensors:
        if isinstance(x, TensorBase) and ((<TensorBase>x).dtype is not first or half and grad_mode() and wants(<TensorBase>x)):
            return False
    return True

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Strided views; basic indexing, `x[key]` with integers, slices, None and `...`, in one step; and the range of an index tensor.

Knows geometry only: what a view is to the graph is `graph.pyx`'s, indexing by tensors is `ops/index.py`'s.
"""
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE

from volta._kernels.core.base cimport INT32, INT64, MAX_RANK, TensorBase, address, make_tensor
from volta._kernels.core.views cimport packed

cdef extern from "Python.h":
    int PySlice_Unpack(object slice, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t length, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)
    bint PySlice_Check(object)
    bint PyLong_CheckExact(object)
    Py_ssize_t PyLong_AsSsize_t(object) except? -1


def slice_view(TensorBase x not None, *, tuple starts, tuple sizes, tuple steps, tuple axes=None):
    """Every steps[i]-th of sizes[i] elements of dimension i from starts[i] on. `axes` names the dimensions that stay, in order, with
    -1 for a new one of size 1; dimensions that go have size 1."""
    cdef Py_ssize_t i, n = len(x.shape), offset = x.offset
    cdef tuple old = x._strides
    if 0 not in sizes:                  # of nothing, the start may lie outside the storage
        for i in range(n):
            offset += <Py_ssize_t>starts[i] * <Py_ssize_t>old[i]
    strides = tuple([<Py_ssize_t>steps[i] * <Py_ssize_t>old[i] for i in range(n)])
    if axes is None:
        return make_tensor(x.storage, sizes, strides, offset, x.dtype)
    return make_tensor(x.storage, tuple([1 if i < 0 else sizes[i] for i in axes]), tuple([0 if i < 0 else strides[i] for i in axes]),
                       offset, x.dtype)


def permute_view(TensorBase x not None, *, tuple dims):
    """Dimensions in another order."""
    return make_tensor(x.storage, tuple([x.shape[i] for i in dims]), tuple([x._strides[i] for i in dims]), x.offset, x.dtype)


cdef fused Integer:
    unsigned char
    int
    long long


cdef void _extremes(const Integer* x, Py_ssize_t n, long long* found) noexcept nogil:
    cdef Integer low = x[0], high = x[0]
    cdef Py_ssize_t i
    for i in range(1, n):
        low = min(low, x[i])
        high = max(high, x[i])
    found[0], found[1] = low, high


def extremes(TensorBase t not None):
    """(least, largest) of a host tensor of integers, which must not be empty."""
    cdef long long found[2]
    t = packed(t)
    if t.dtype.code == INT64:
        _extremes(<long long*>address(t), t.size, found)
    elif t.dtype.code == INT32:
        _extremes(<int*>address(t), t.size, found)
    else:
        _extremes(<unsigned char*>address(t), t.size, found)
    return found[0], found[1]


cdef bint _plain(object bound):
    return bound is None or PyLong_CheckExact(bound)


def basic(TensorBase x not None, key):
    """The parameters of `slice_view` that x[key] stands for; None where the key is not basic or not valid."""
    cdef Py_ssize_t rank = len(x.shape), count, used = 0, d = 0, i, k, at, stop, step, size
    cdef bint moved = False, dots = False
    cdef object item
    cdef tuple items = <tuple>key if PyTuple_CheckExact(key) else (key,)
    count = PyTuple_GET_SIZE(items)
    for i in range(count):
        item = <object>items[i]
        if PyLong_CheckExact(item) or PySlice_Check(item):
            used += 1
        elif item is Ellipsis and not dots:
            dots = True
        elif item is not None:
            return None
    if used > rank or rank + count > MAX_RANK:
        return None
    cdef list starts = [0] * rank, sizes = list(x.shape), steps = [1] * rank, axes = []
    for i in range(count):
        item = <object>items[i]
        if item is None:
            axes.append(-1)
            moved = True
        elif item is Ellipsis:
            for k in range(rank - used):
                axes.append(d)
                d += 1
        elif PyLong_CheckExact(item):
            size = x.shape[d]
            if not -size <= item < size:
                return None
            at = PyLong_AsSsize_t(item)
            starts[d] = at + size if at < 0 else at
            sizes[d] = 1
            moved = True
            d += 1
        else:
            if not (_plain(item.start) and _plain(item.stop) and _plain(item.step)) or item.step == 0:
                return None
            PySlice_Unpack(item, &at, &stop, &step)
            sizes[d] = PySlice_AdjustIndices(x.shape[d], &at, &stop, step)
            starts[d], steps[d] = at, step
            axes.append(d)
            d += 1
    for k in range(d, rank):
        axes.append(k)
    if moved:
        return {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps), "axes": tuple(axes)}
    return {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)}

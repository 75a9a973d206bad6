# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Few elements combined with those of a host tensor at the places that an index names along a dimension, whatever the sizes beside it:
what the kernels of `cpu/scatter.pyx` take many steps to come to. Knows no op."""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from volta._kernels import core as _core
from volta._kernels.core.base cimport FLOAT32, FLOAT64, INT32, INT64, MAX_RANK, TensorBase, address, empty_host_like, same_bytes
from volta._kernels.core.direct cimport bare_one, unseen_one

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef long long INFERRED = _core.INFERRED

cdef enum:
    FEW = 1024                  # elements that are combined
    SMALL = 65536               # of what is copied first

cdef enum How:
    LAST
    SUM
    PROD
    MOST
    LEAST
    MEAN

cdef tuple _ENDS = (float("inf"), float("-inf"))
cdef dict _HOW = {"last": LAST, "sum": SUM, "prod": PROD, "amax": MOST, "amin": LEAST, "mean": MEAN}

ctypedef fused number:
    int32_t
    int64_t
    float
    double

cdef struct Walk:
    int rank, dim
    Py_ssize_t sizes[MAX_RANK]              # of what is combined
    Py_ssize_t to[MAX_RANK]                 # strides, in elements, of the result,
    Py_ssize_t at[MAX_RANK]                 # the index
    Py_ssize_t source[MAX_RANK]             # and the source
    Py_ssize_t size                         # of the result along the dimension


cdef union Number:
    double real
    float single
    int64_t whole
    int32_t narrow


cdef void _combine(const Walk* w, number* out, const int64_t* index, const number* source, int how) noexcept nogil:
    cdef Py_ssize_t place[MAX_RANK]
    cdef Py_ssize_t i, to = 0, at = 0, of = 0, stride = w.to[w.dim]
    cdef number v
    cdef number* there
    for i in range(w.rank):
        place[i] = 0
    while True:
        there, v = out + to + index[at] * stride, source[of]
        if how == LAST:
            there[0] = v
        elif how == SUM:
            there[0] += v
        elif how == PROD:
            there[0] *= v
        elif how == MOST:
            there[0] = v if v > there[0] or v != v else there[0]
        else:
            there[0] = v if v < there[0] or v != v else there[0]
        i = w.rank - 1
        while True:
            to += w.to[i] if i != w.dim else 0
            at += w.at[i]
            of += w.source[i]
            place[i] += 1
            if place[i] < w.sizes[i]:
                break
            to -= w.to[i] * w.sizes[i] if i != w.dim else 0
            at -= w.at[i] * w.sizes[i]
            of -= w.source[i] * w.sizes[i]
            place[i] = 0
            i -= 1
            if i < 0:
                return


cdef bint _named(const Walk* w, const int64_t* index, int i) noexcept nogil:
    """Whether all places lie within the result."""
    cdef Py_ssize_t k
    for k in range(w.sizes[i] if w.at[i] else 1):
        if i + 1 < w.rank:
            if not _named(w, index + k * w.at[i], i + 1):
                return False
        elif not 0 <= index[k * w.at[i]] < w.size:
            return False
    return True


cdef int _average(const Walk* w, number* out, Py_ssize_t size, const int64_t* index, const number* source, bint alone) except -1:
    """The sums, as `_combine` makes them, divided by how many elements they are of. IN: size elements of out; alone: what is there is none
    of them."""
    cdef Walk counting = w[0]
    cdef int32_t one = 1
    cdef int64_t of
    cdef Py_ssize_t i
    cdef int32_t* counts = <int32_t*>calloc(size, sizeof(int32_t))
    if counts == NULL:
        raise MemoryError()
    for i in range(w.rank):
        counting.source[i] = 0
    _combine(&counting, counts, index, <const int32_t*>&one, SUM)
    if alone:
        for i in range(size):
            out[i] = 0 if counts[i] else out[i]
    _combine(w, out, index, source, SUM)
    for i in range(size):
        of = counts[i] + (0 if alone else 1)
        if of > 1:
            if number is float or number is double:
                out[i] /= <number>of
            else:
                out[i] = <number>(out[i] // of - (1 if out[i] % of < 0 else 0))        # C cuts off, a mean is rounded down
    free(counts)
    return 0


cdef int _apply(const Walk* w, number* out, Py_ssize_t size, const int64_t* index, const number* source, int how, bint alone) except -1:
    if how == MEAN:
        return _average(w, out, size, index, source, alone)
    _combine(w, out, index, source, how)
    return 0


cdef bint _laid_out(Walk* w, TensorBase x, Py_ssize_t dim, TensorBase at, bint slices):
    """Fill `w` in, but for the source; false where the index does not fit, or names many elements."""
    cdef int i
    cdef Py_ssize_t count = 1
    w.rank = max(<int>len(x.shape), 1)
    w.dim = <int>(dim + w.rank if dim < 0 else dim)
    if not -w.rank <= dim < w.rank or (len(at.shape) > 1 if slices else max(<int>len(at.shape), 1) != w.rank):
        return False
    for i in range(w.rank):
        w.to[i] = x._strides[i] if len(x.shape) else 1
        w.at[i] = w.source[i] = 0
        w.sizes[i] = x.shape[i] if len(x.shape) else 1
    w.size = w.sizes[w.dim]
    if slices:
        w.sizes[w.dim] = at.size
        w.at[w.dim] = at._strides[0] if len(at.shape) else 0
    else:
        for i in range(<int>len(at.shape)):
            if i != w.dim and <Py_ssize_t>at.shape[i] > w.sizes[i]:
                return False
            w.sizes[i], w.at[i] = at.shape[i], at._strides[i]
        w.sizes[0] = w.sizes[0] if len(at.shape) else 1
    for i in range(w.rank):
        count *= w.sizes[i]
    return count <= FEW


cdef bint _reads(Walk* w, TensorBase x, TensorBase source, bint slices, bint inside) except -1:
    """Fill in how the source is walked through; false where it does not fit."""
    cdef int i
    if source.dtype is not x.dtype or not bare_one(source) or max(<int>len(source.shape), 1) != w.rank or (
            inside and same_bytes(x.storage, source.storage)):
        return False
    for i in range(<int>len(source.shape)):
        if <Py_ssize_t>source.shape[i] < w.sizes[i] or slices and <Py_ssize_t>source.shape[i] != w.sizes[i]:
            return False
        w.source[i] = source._strides[i]
    return not (len(source.shape) == 0 and w.sizes[0] != 1 or slices and len(source.shape) != len(x.shape))


cdef bint _written(object source, int code, Number* out) except -1:
    """Write a Python number as one of a dtype; false for what that does not hold, or not as PyTorch has it."""
    cdef int beyond
    cdef long long whole
    if code == FLOAT32 or code == FLOAT64:
        if not (type(source) is float and (-65504.0 <= source <= 65504.0 or source in _ENDS) or type(source) is int and (
                -1 << 24 <= source <= 1 << 24)):
            return False
        if code == FLOAT64:
            out.real = source
        else:
            out.single = <float><double>source
        return True
    if type(source) is not int:
        return False
    whole = PyLong_AsLongLongAndOverflow(source, &beyond)
    if beyond or code == INT32 and <int32_t>whole != whole:
        return False
    if code == INT64:
        out.whole = whole
    else:
        out.narrow = <int32_t>whole
    return True


def combined(TensorBase x not None, Py_ssize_t dim, index, source, str reduce not None, bint inside, bint slices, bint number=False,
             bint alone=False):
    """x, or without `inside` a copy of it, whose elements are combined ("last", "sum", "prod", "amax", "amin", "mean") with those of the
    source that the index sends to them along dim; of equal places one after the other. With `slices` the index is a vector, or one number,
    that names a slice for each of the source's; with `number` the source may be one; means may be of what comes `alone`. None where this is
    not for it: on a GPU, recorded or watched, many elements, other dtypes than the commonest, and what does not fit or lies outside."""
    cdef TensorBase at, out
    cdef Walk w
    cdef Number one
    cdef int code = x.dtype.code
    cdef const char* data = <const char*>&one
    if not isinstance(index, TensorBase) or code not in (FLOAT32, FLOAT64, INT64, INT32) or not x.contiguous or x.size == 0:
        return None
    at = <TensorBase>index
    if at.dtype.code != INT64 or at.size == 0 or at.size > FEW or not bare_one(x) or not unseen_one(at) or (
            (not inside or reduce == "mean") and x.size > SMALL or x.storage.version >= INFERRED
            or inside and same_bytes(x.storage, at.storage)):
        return None
    if not _laid_out(&w, x, dim, at, slices):
        return None
    if isinstance(source, TensorBase):
        if not _reads(&w, x, <TensorBase>source, slices, inside):
            return None
        data = address(<TensorBase>source)
    elif not number or not _written(source, code, &one):
        return None
    if not _named(&w, <const int64_t*>address(at), 0):
        return None
    out = x
    if not inside:
        out = empty_host_like(x, x.dtype)
        memcpy(address(out), address(x), x.size * x.dtype.itemsize)
    else:
        x.storage.version += 1
    cdef int how = _HOW[reduce]
    if code == FLOAT32:
        _apply(&w, <float*>address(out), out.size, <const int64_t*>address(at), <const float*>data, how, alone)
    elif code == FLOAT64:
        _apply(&w, <double*>address(out), out.size, <const int64_t*>address(at), <const double*>data, how, alone)
    elif code == INT64:
        _apply(&w, <int64_t*>address(out), out.size, <const int64_t*>address(at), <const int64_t*>data, how, alone)
    else:
        _apply(&w, <int32_t*>address(out), out.size, <const int64_t*>address(at), <const int32_t*>data, how, alone)
    return out

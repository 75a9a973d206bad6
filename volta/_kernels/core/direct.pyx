# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""When composed functions may leave the graph out: short calls are made of little else than its steps. Knows no op. And tensors of lists."""
from volta._kernels.core.base cimport FLOAT32, INT64, DType, TensorBase, address, dtype_of, empty_host, is_half, make_tensor
from volta._kernels.core.call cimport watching
from volta._kernels.core.graph cimport grad_mode, wants

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    double PyFloat_AS_DOUBLE(object)

cdef inline bint _bare(TensorBase x) except -1:
    if watching or x.storage.version < 0 or x.storage.device.is_gpu or x.storage.tangent is not None:
        return False
    return not grad_mode() or not wants(x)


def bare(TensorBase x not None, TensorBase y=None):
    """Whether a function of these may call kernels and make views by itself: they lie on the host, and nobody records or watches."""
    return _bare(x) and (y is None or _bare(y))


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


cdef Py_ssize_t _fill(list data, TensorBase out, Py_ssize_t dim, Py_ssize_t at) except -2:
    """The numbers of nested lists of the shape of `out` from the element `at` on; gives the one behind them, -1 for other shapes and types."""
    cdef Py_ssize_t n = len(data), last = len(out.shape) - 1
    cdef int code = out.dtype.code, overflow = 0
    cdef object x
    if n != <Py_ssize_t>out.shape[dim]:
        return -1
    for x in data:
        if dim < last:
            if type(x) is not list:
                return -1
            at = _fill(<list>x, out, dim + 1, at)
            if at < 0:
                return -1
            continue
        if code == INT64:
            if type(x) is not int:
                return -1
            (<long long*>address(out))[at] = PyLong_AsLongLongAndOverflow(x, &overflow)
            if overflow:
                return -1
        elif type(x) is not float:
            return -1
        elif code == FLOAT32:
            (<float*>address(out))[at] = <float>PyFloat_AS_DOUBLE(x)
        else:
            (<double*>address(out))[at] = PyFloat_AS_DOUBLE(x)
        at += 1
    return at


def of_numbers(list data not None, DType floating not None):
    """A host tensor of nested lists that hold floats alone, or ints that fit into int64; None for others. IN: floating, float32 or float64."""
    cdef object x = data
    cdef tuple shape = ()
    cdef TensorBase out
    while type(x) is list:
        if not len(<list>x) or len(shape) == 8:
            return None
        shape += (len(<list>x),)
        x = (<list>x)[0]
    if type(x) is not float and type(x) is not int:
        return None
    out = empty_host(shape, floating if type(x) is float else dtype_of(INT64))
    return None if _fill(data, out, 0, 0) < 0 else out

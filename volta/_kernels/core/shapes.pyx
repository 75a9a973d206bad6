# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Arithmetic of shapes, dimensions and strides that every call of a view needs: in C, since it would take longer than the view itself.

Knows tuples only; `volta.shapes` is where the rest of Volta takes it from.
"""
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE

import operator

from volta._kernels.core.base cimport MAX_RANK
from volta._kernels.core.size cimport plain
from volta.errors import ArgumentError, CallError, DTypeError, IndexRangeError, ShapeError

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    bint PyIndex_Check(object)
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject*) except? -1       # with NULL, a number out of range gives the nearest in range


cpdef tuple listed(str op, object sizes, object named=None):
    """The sizes or dimensions of `f(x, 1, 2)`, `f(x, (1, 2))` or `f(x, name=(1, 2))`."""
    cdef tuple given = plain(sizes)
    if named is not None:
        if PyTuple_GET_SIZE(given):
            raise ArgumentError(f"{op}: the sizes were given twice, as {given} and by name as {named!r}")
        given = (named,)
    if PyTuple_GET_SIZE(given) == 0:
        raise CallError(f"{op}: needs sizes or dimensions; for none of them, give ()")
    if PyTuple_GET_SIZE(given) != 1 or PyIndex_Check(given[0]):
        return given
    try:
        return tuple(given[0])
    except TypeError:
        raise DTypeError(f"{op}: sizes must be integers, got {given[0]!r}") from None


cpdef tuple listed_sizes(str op, object given, object named=None):
    """Sizes as ints, negative ones too, in the forms of `listed`.

    Raises: DTypeError for what is no integer.
    """
    cdef tuple sizes = listed(op, given, named)
    for size in sizes:
        if not PyLong_CheckExact(size):
            try:
                return tuple(map(operator.index, sizes))
            except TypeError:
                raise DTypeError(f"{op}: sizes must be integers, got {given if named is None else named!r}") from None
    return sizes


cpdef Py_ssize_t as_dim(str op, object dim, Py_ssize_t rank) except -1:
    """A dimension as a non-negative number; a tensor of rank 0 has dimensions -1 and 0.

    Raises: IndexRangeError outside [-rank, rank); DTypeError for what is no integer.
    """
    cdef Py_ssize_t low = max(rank, 1), d
    if not PyIndex_Check(dim) or isinstance(dim, bool):
        raise DTypeError(f"{op}: dim must be an integer, got {dim!r}")
    d = PyNumber_AsSsize_t(dim, NULL)
    if not -low <= d < low:
        raise IndexRangeError(f"{op}: dim {dim} is out of range for a tensor of rank {rank}; use {-low} to {low - 1}")
    return d + low if d < 0 else d


def as_dims(str op not None, dim, Py_ssize_t rank):
    """Sorted unique dimensions from None (all), an int or a sequence.

    Raises: ArgumentError for a dimension given twice.
    """
    cdef unsigned long long seen = 0
    cdef Py_ssize_t d
    if PyIndex_Check(dim):
        d = as_dim(op, dim, rank)
        return (d,) if rank else ()
    if dim is not None and not isinstance(dim, (tuple, list)):
        raise DTypeError(f"{op}: dim must be an integer or a tuple of them, got {dim!r}")
    if dim is None or len(dim) == 0:
        return tuple([d for d in range(rank)])
    for each in dim:
        d = as_dim(op, each, rank)
        if seen >> d & 1:
            raise ArgumentError(f"{op}: dim {tuple(dim)} names a dimension twice")
        seen |= 1ull << d
    return tuple([d for d in range(rank) if seen >> d & 1])


def as_order(str op not None, tuple dims not None, Py_ssize_t rank):
    """Every dimension once, as non-negative numbers.

    Raises: ArgumentError where one is missing or given twice.
    """
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(dims)
    cdef unsigned long long seen = 0
    cdef list order = [as_dim(op, d, rank) for d in dims]
    for i in range(n):
        seen |= 1ull << <Py_ssize_t>order[i]
    if n != rank or seen + 1 != 1ull << rank:
        raise ArgumentError(f"{op}: dims {dims} must name each of the {rank} dimensions once")
    return tuple(order)


cpdef tuple exchanged(str op, Py_ssize_t rank, object dim0, object dim1):
    """The order of dimensions in which two have changed places."""
    cdef Py_ssize_t a = as_dim(op, dim0, rank), b = as_dim(op, dim1, rank), i
    return tuple([b if i == a else a if i == b else i for i in range(rank)])


cpdef tuple infer(str op, Py_ssize_t size, object sizes):
    """A shape with a -1 replaced so that it holds `size` elements.

    Raises: ShapeError where no shape fits.
    """
    cdef tuple shape = plain(sizes)
    cdef Py_ssize_t i, length, open = -1, n = PyTuple_GET_SIZE(shape), left = size
    cdef bint empty = False, fits = True
    for i in range(n):
        length = PyNumber_AsSsize_t(shape[i], NULL)
        if length == -1:
            if open >= 0:
                raise ShapeError(f"{op}: only one size may be -1, got {shape}")
            open = i
        elif length == 0:
            empty = True
        elif length < 0:
            fits = False
        elif fits:
            fits = left % length == 0
            left //= length
    fits = fits and (not empty or size == 0 and open < 0)
    if open < 0:
        if not fits or not empty and left != 1:
            raise ShapeError(f"{op}: {size} elements do not fit shape {shape}")
        return shape
    if not fits:
        raise ShapeError(f"{op}: {size} elements do not fit shape {shape}")
    return shape[:open] + (left,) + shape[open + 1:]


cpdef tuple view_strides(object sizes, object steps, object new_sizes):
    """Strides that show the same elements under another shape, or None where only a copy can: PyTorch's, also of dimensions of size 1."""
    cdef tuple shape = plain(sizes), strides = plain(steps), new = plain(new_sizes)
    cdef Py_ssize_t n = PyTuple_GET_SIZE(shape), m = PyTuple_GET_SIZE(new), i, k = m - 1
    cdef Py_ssize_t held = 1, shown = 1, step = 1       # elements of a run of dimensions that lie as one, and of what shows them
    cdef list out
    if n > MAX_RANK or m > MAX_RANK or PyTuple_GET_SIZE(strides) != n:
        return None
    if n:
        step = strides[n - 1]
    out = [1] * m
    for i in range(n - 1, -1, -1):
        if <Py_ssize_t>shape[i] == 0:
            return None
        held *= <Py_ssize_t>shape[i]
        if i and (<Py_ssize_t>shape[i - 1] == 1 or <Py_ssize_t>strides[i - 1] == held * step):
            continue
        while k >= 0 and (shown < held or <Py_ssize_t>new[k] == 1):
            out[k] = shown * step
            shown *= <Py_ssize_t>new[k]
            k -= 1
        if shown != held:
            return None
        if i:
            step, held, shown = strides[i - 1], 1, 1
    return tuple(out) if k < 0 or not n else None


cpdef tuple expanded(object sizes, object wanted):
    """The shape that `expand` to `wanted` has, where -1 stands for the size that is there.

    Raises: ShapeError where a size other than 1 would change.
    """
    cdef tuple shape = plain(sizes), given = plain(wanted)
    cdef Py_ssize_t n = PyTuple_GET_SIZE(shape), m = PyTuple_GET_SIZE(given), lead = m - n, i, old, new
    cdef list out = list(given)
    if lead < 0:
        raise ShapeError(f"expand: shape {given} has fewer dimensions than the tensor's {shape}")
    for i in range(m):
        new = PyNumber_AsSsize_t(given[i], NULL)
        if i >= lead:
            old = shape[i - lead]
            if new == -1:
                out[i] = new = old
            if new != old and old != 1:
                raise ShapeError(f"expand: {shape} cannot become {given}: size {old} at dimension {i - lead} is not 1")
        if new < 0:
            raise ShapeError(f"expand: sizes must not be negative, got {given}; -1 may stand only for an existing dimension")
    return tuple(out)


cpdef tuple expand_strides(object sizes, object steps, object new_sizes):
    """Strides of a tensor seen under a larger shape, along whose enlarged dimensions the same elements lie again; a new dimension of
    size 1 lies around what follows it, as in PyTorch."""
    cdef tuple shape = plain(sizes), strides = plain(steps), new = plain(new_sizes)
    cdef Py_ssize_t m = PyTuple_GET_SIZE(new), lead = m - PyTuple_GET_SIZE(shape), i, length, step
    cdef Py_ssize_t around = m > lead       # the step of a new dimension; around a single element it is 0
    cdef list out = [0] * m
    for i in range(m - 1, -1, -1):
        length = 1 if i < lead else <Py_ssize_t>shape[i - lead]
        step = around if i < lead else <Py_ssize_t>strides[i - lead]
        if length != <Py_ssize_t>new[i]:
            step = 0
        out[i] = step
        around = step * <Py_ssize_t>new[i]
    return tuple(out)


def squeezed(sizes, dims=None):
    """A shape without its sizes of 1, or those of them that lie at `dims`."""
    cdef tuple shape = plain(sizes)
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(shape)
    return tuple([shape[i] for i in range(n) if <Py_ssize_t>shape[i] != 1 or dims is not None and i not in dims])


def moved_one(str op not None, source, destination, Py_ssize_t rank):
    """The order of dimensions in which one of them is at another place, and the others are in their order."""
    cdef Py_ssize_t a = as_dim(op, source, rank), b = as_dim(op, destination, rank)
    cdef list order = [i for i in range(rank) if i != a]
    if rank:
        order.insert(b, a)
    return tuple(order)


def moved(tuple sources not None, tuple places not None, Py_ssize_t rank):
    """The order of dimensions in which each of `sources` is at its place, and the others are where room is left, in their order."""
    cdef Py_ssize_t i
    cdef list order = [None] * rank
    cdef set taken = set(sources)
    for i in range(PyTuple_GET_SIZE(sources)):
        order[places[i]] = sources[i]
    rest = iter([i for i in range(rank) if i not in taken])
    return tuple([next(rest) if d is None else d for d in order])


cdef bint fits(tuple shape, tuple into):
    """Whether a shape broadcasts to another."""
    cdef Py_ssize_t i, more = PyTuple_GET_SIZE(into) - PyTuple_GET_SIZE(shape)
    if more < 0:
        return False
    for i in range(PyTuple_GET_SIZE(shape)):
        if <Py_ssize_t>shape[i] != 1 and <Py_ssize_t>shape[i] != <Py_ssize_t>into[i + more]:
            return False
    return True

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What strided views are made by; the one parser of subscripts, `x[key]`; and index tensors of the host as positions.

Knows geometry only: what a view is to the graph is `graph.pyx`'s, what is done at the positions is `ops/positions.py`'s.
"""
import warnings

from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE, PyTuple_New

from volta._kernels.core.base import dtype_from_code, host_sees
from volta._kernels.core.base cimport BOOL, INT8, INT16, INT32, INT64, MAX_RANK, UINT8, TensorBase, address, empty_host, make_tensor
from volta._kernels.core.shapes cimport put
from volta._kernels.core.size cimport plain
from volta.errors import IndexRangeError

cdef extern from "Python.h":
    int PySlice_Unpack(object slice, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t length, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)
    bint PySlice_Check(object)
    bint PySequence_Check(object)
    bint PyList_CheckExact(object)
    bint PyLong_CheckExact(object)
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject*) except? -1       # with NULL, a number out of range gives the nearest in range
    ctypedef struct PySliceObject:
        PyObject* start
        PyObject* stop
        PyObject* step


def unsqueezed(TensorBase x not None, Py_ssize_t d):
    """What `slice_view` is given for a new dimension before dimension d."""
    cdef Py_ssize_t n = len(x.shape)
    return {"starts": (0,) * n, "sizes": x.shape, "steps": (1,) * n, "axes": (*range(d), -1 - d, *range(d, n))}


def squeezed(TensorBase x not None, dims):
    """What `slice_view` is given for x without its dimensions of size 1, or those of `dims` that have it."""
    cdef Py_ssize_t n = len(x.shape), i
    cdef tuple axes = tuple([i for i in range(n) if <Py_ssize_t>x.shape[i] != 1 or dims is not None and i not in dims])
    return {"starts": (0,) * n, "sizes": x.shape, "steps": (1,) * n, "axes": axes}


cdef tuple _with(tuple values, Py_ssize_t place, object value):
    """The values with another one at a place."""
    return values[:place] + (value,) + values[place + 1:]


def part(TensorBase x not None, Py_ssize_t dim, Py_ssize_t start, Py_ssize_t length):
    """What `slice_view` is given for `length` elements of a dimension from `start` on."""
    cdef Py_ssize_t n = len(x.shape), i
    cdef tuple starts = PyTuple_New(n), sizes = PyTuple_New(n), steps = PyTuple_New(n)
    for i in range(n):
        put(starts, i, start if i == dim else 0)
        put(sizes, i, length if i == dim else x.shape[i])
        put(steps, i, 1)
    return {"starts": starts, "sizes": sizes, "steps": steps}


def parts(TensorBase x not None, Py_ssize_t dim, Py_ssize_t size):
    """`part` for one after another of `size` elements of a dimension, of which the last may have fewer; one where it is empty."""
    cdef Py_ssize_t n = len(x.shape), length = x.shape[dim], start = 0
    cdef tuple sizes = _with(x.shape, dim, size), steps = (1,) * n, none = (0,) * n
    cdef list found = []
    while start < length or not found:
        if length - start < size:
            sizes = _with(x.shape, dim, length - start)
        found.append({"starts": _with(none, dim, start), "sizes": sizes, "steps": steps})
        start += max(size, <Py_ssize_t>1)
    return found


def at(TensorBase x not None, Py_ssize_t dim, Py_ssize_t place):
    """What `slice_view` is given for the slice at a place of a dimension, without that dimension."""
    return _at(x, dim, place)


cdef dict _at(TensorBase x, Py_ssize_t dim, Py_ssize_t place):
    cdef Py_ssize_t n = len(x.shape), i
    cdef tuple starts = PyTuple_New(n), sizes = PyTuple_New(n), steps = PyTuple_New(n), axes = PyTuple_New(n - 1)
    for i in range(n):
        put(starts, i, place if i == dim else 0)
        put(sizes, i, 1 if i == dim else x.shape[i])
        put(steps, i, 1)
        if i != dim:
            put(axes, i - (i > dim), i)
    return {"starts": starts, "sizes": sizes, "steps": steps, "axes": axes}


def every(TensorBase x not None, Py_ssize_t dim):
    """`at` for all places of a dimension, in order."""
    cdef Py_ssize_t n = len(x.shape), i
    cdef tuple sizes = _with(x.shape, dim, 1), steps = (1,) * n, none = (0,) * n, axes = tuple([i for i in range(n) if i != dim])
    return [{"starts": _with(none, dim, i), "sizes": sizes, "steps": steps, "axes": axes} for i in range(x.shape[dim])]


def reversed_along(TensorBase x not None, tuple dims not None):
    """What `slice_view` is given for the tensor with these dimensions from their ends on. IN: it has elements."""
    cdef Py_ssize_t n = len(x.shape), d
    cdef list starts = [0] * n, steps = [1] * n
    for d in dims:
        starts[d], steps[d] = <Py_ssize_t>x.shape[d] - 1, -1
    return {"starts": tuple(starts), "sizes": x.shape, "steps": tuple(steps)}


def reversed_view(TensorBase x not None, tuple dims not None):
    """The tensor with these dimensions from their ends on, without a graph. IN: it has elements."""
    cdef Py_ssize_t d, offset = x.offset
    cdef list strides = list(x._strides)
    for d in dims:
        offset += (<Py_ssize_t>x.shape[d] - 1) * <Py_ssize_t>x._strides[d]
        strides[d] = -<Py_ssize_t>x._strides[d]
    return make_tensor(x.storage, x.shape, tuple(strides), offset, x.dtype)


def strided(TensorBase x not None, tuple size not None, tuple stride not None, Py_ssize_t offset):
    """Whether ints of these say which elements of the storage `as_strided` shows, none of which lies outside; False for what is to be
    refused, and where this can't tell."""
    cdef Py_ssize_t i, n, s, count = 1, last = offset, held = x.storage.nbytes // x.dtype.itemsize
    if len(size) != len(stride) or len(size) > 8 or offset < 0 or offset >= held or x.storage.device.is_gpu:
        return False
    for i in range(len(size)):
        if not PyLong_CheckExact(<object>size[i]) or not PyLong_CheckExact(<object>stride[i]):
            return False
        n, s = PyNumber_AsSsize_t(<object>size[i], NULL), PyNumber_AsSsize_t(<object>stride[i], NULL)
        if n < 1 or n > 1 << 20 or s < 0 or s and n - 1 > (held - 1 - last) // s:
            return False
        last += (n - 1) * s
        count *= n
        if count > <Py_ssize_t>1 << 40:
            return False
    return True


cdef fused Integer:
    unsigned char
    signed char
    short
    int
    long long


cdef void _extremes(const Integer* x, Py_ssize_t n, long long* found) noexcept nogil:
    """Four of each side by side, so that comparisons need not wait for one another."""
    cdef Integer[4] low, high
    cdef Py_ssize_t i, k
    for k in range(4):
        low[k] = high[k] = x[0]
    for i in range(0, n - 3, 4):
        for k in range(4):
            low[k] = min(low[k], x[i + k])
            high[k] = max(high[k], x[i + k])
    for i in range(n // 4 * 4, n):
        low[0], high[0] = min(low[0], x[i]), max(high[0], x[i])
    found[0], found[1] = min(min(low[0], low[1]), min(low[2], low[3])), max(max(high[0], high[1]), max(high[2], high[3]))


cdef bint _all_within(const long long* x, Py_ssize_t n, long long length) noexcept nogil:
    """Whether all are in [0, length)."""
    cdef Py_ssize_t i
    cdef long long outside = 0
    for i in range(n):
        outside |= x[i] | (length - 1 - x[i])                   # either is negative
    return outside >= 0


def all_within(TensorBase t not None, long long length):
    """Whether a host tensor holds integers of [0, length) alone; False where this can't tell: unless it is contiguous and int64."""
    return t.dtype.code == INT64 and t.contiguous and _all_within(<long long*>address(t), t.size, length)


def extremes(TensorBase t not None):
    """(least, largest) of a contiguous host tensor of integers, which must not be empty."""
    cdef long long found[2]
    if t.dtype.code == INT64:
        _extremes(<long long*>address(t), t.size, found)
    elif t.dtype.code == INT32:
        _extremes(<int*>address(t), t.size, found)
    elif t.dtype.code == INT16:
        _extremes(<short*>address(t), t.size, found)
    elif t.dtype.code == INT8:
        _extremes(<signed char*>address(t), t.size, found)
    else:
        _extremes(<unsigned char*>address(t), t.size, found)
    return found[0], found[1]


# ---------------------------------------------------------------- subscripts

cdef object _as_index = None, _device_rows = None, _joined = None


def configure(as_index, device_rows, joined):
    """Set what makes an int, slice, bool or tensor of any other object in a subscript, `as_index(item, x)`; what makes `rows` of index
    tensors that the host does not see, `device_rows(indices, lengths, shape, x)`; and the record that joins two of them."""
    global _as_index, _device_rows, _joined
    _as_index, _device_rows, _joined = as_index, device_rows, joined


cdef inline bint _plain(PyObject* bound):
    return <object>bound is None or PyLong_CheckExact(<object>bound)


cdef inline bint _is_plain(object item):
    """Whether an item of a subscript is what the parser reads as it is."""
    cdef PySliceObject* bounds
    if PyLong_CheckExact(item) or item is None or item is Ellipsis:
        return True
    if PySlice_Check(item):
        bounds = <PySliceObject*>item
        return _plain(bounds.start) and _plain(bounds.stop) and (
            <object>bounds.step is None or PyLong_CheckExact(<object>bounds.step) and <object>bounds.step != 0)
    return isinstance(item, TensorBase) and len((<TensorBase>item).shape) > 0 and (<TensorBase>item).dtype.code != UINT8


cdef bint _stands_for_tuple(list key):
    """Whether a list is read as the tuple of its items, as in PyTorch, which has that from old NumPy."""
    if len(key) >= 32:
        return False
    for item in key:
        if item is None or item is Ellipsis or PySlice_Check(item) or isinstance(item, TensorBase) or PySequence_Check(item):
            return True
    return False


cdef tuple _items(TensorBase x, object key):
    """A subscript as the tuple of its items, which are ints, slices, None, ..., bools and tensors."""
    cdef object item
    if not PyTuple_CheckExact(key):
        if isinstance(key, list) and _stands_for_tuple(<list>key):
            warnings.warn("indexing: a list with sequences, slices or tensors is read as a tuple, which is deprecated; write x[tuple(key)]",
                          UserWarning, 3)
            key = tuple(key)
        key = tuple(key) if isinstance(key, tuple) else (key,)
    for item in <tuple>key:
        if not _is_plain(item):
            return tuple([item if _is_plain(item) else _as_index(item, x) for item in <tuple>key])
    return <tuple>key


cdef Py_ssize_t _covered(object item):
    """How many dimensions an item of a subscript takes."""
    if isinstance(item, TensorBase) and (<TensorBase>item).dtype.code == BOOL:
        return len((<TensorBase>item).shape)
    return 0 if item is None or item is True or item is False else 1


cdef inline Py_ssize_t _place(TensorBase x, Py_ssize_t d, object index) except -1:
    """An index of dimension d as a place from its start on."""
    cdef Py_ssize_t size = x.shape[d], place = PyNumber_AsSsize_t(index, NULL)
    if place < -size or place >= size:
        raise IndexRangeError(f"indexing: index {index} is out of range for dimension {d} of size {size}")
    return place + size if place < 0 else place


def parse(TensorBase x not None, key, bint quick=False):
    """The parameters of `slice_view` that x[key] stands for; where tensors or bools are part of the key, a pair of them and of what stands
    at which dimensions of that view: [(first dimension, index tensor, mask or bool), ...]. None where the key is one index tensor. With
    `quick`, what `neighbours` gives, if that is anything.

    Raises: IndexRangeError; ArgumentError for what is no index.
    """
    cdef Py_ssize_t rank = len(x.shape), count, used = 0, d = 0, i, k, begin, stop, step, dots = 0
    cdef bint moved = False
    cdef object item
    cdef list places = None
    if rank and PyLong_CheckExact(key):
        return _at(x, 0, _place(x, 0, key))
    if quick and PyTuple_CheckExact(key):
        for i in range(PyTuple_GET_SIZE(key)):
            if isinstance(<object>(<tuple>key)[i], TensorBase):
                found = neighbours(x, <tuple>key)
                if found is not None:
                    return found
                break
    if (rank and isinstance(key, TensorBase) and (<TensorBase>key).dtype.code != BOOL and (<TensorBase>key).dtype.code != UINT8
            and len((<TensorBase>key).shape)):
        return None
    cdef tuple items = _items(x, key)
    count = PyTuple_GET_SIZE(items)
    for i in range(count):
        item = <object>items[i]
        if PyLong_CheckExact(item) or PySlice_Check(item):
            used += 1
        elif item is Ellipsis:
            dots += 1
        else:
            used += _covered(item)
    while dots > 1 and <object>items[count - 1] is Ellipsis:                # as in PyTorch: one at the end stands for what is left
        count -= 1
        dots -= 1
    if used > rank or dots > 1:
        raise IndexRangeError(f"indexing: {f'{used} indices' if dots < 2 else 'more than one ...'} for a tensor of shape {x.shape}")
    cdef list starts = [0] * rank, sizes = list(x.shape), steps = [1] * rank, axes = []
    for i in range(count):
        item = <object>items[i]
        if item is None:
            axes.append(-1 - d)
            moved = True
        elif item is Ellipsis:
            for k in range(rank - used):
                axes.append(d)
                d += 1
        elif PyLong_CheckExact(item):
            starts[d], sizes[d] = _place(x, d, item), 1
            moved = True
            d += 1
        elif PySlice_Check(item):
            PySlice_Unpack(item, &begin, &stop, &step)
            sizes[d] = PySlice_AdjustIndices(x.shape[d], &begin, &stop, step)
            starts[d], steps[d] = begin, step if sizes[d] > 1 or 0 < step < 1 << 31 else 1         # that of a single element may be huge
            axes.append(d)
            d += 1
        else:
            places = [] if places is None else places
            places.append((len(axes), item))
            k = _covered(item)
            if item is True or item is False:
                axes.append(-1 - d)
                moved = True
            elif (<TensorBase>item).dtype.code == BOOL and (<TensorBase>item).shape != x.shape[d:d + k]:
                raise IndexRangeError(f"indexing: a mask of shape {(<TensorBase>item).shape} does not fit {x.shape} at dimension {d}")
            for stop in range(k):
                axes.append(d)
                d += 1
    for k in range(d, rank):
        axes.append(k)
    cdef dict view = {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)}
    if moved:
        view["axes"] = tuple(axes)
    return view if places is None else (view, places)


# ---------------------------------------------------------------- index tensors

cdef long long _integer(const char* data, int code) noexcept nogil:
    return (<const long long*>data)[0] if code == INT64 else (<const int*>data)[0] if code == INT32 else (<const unsigned char*>data)[0]


cdef inline bint _row(const char* data, int code, Py_ssize_t step, Py_ssize_t n, long long length, bint first,
                      long long* out) noexcept nogil:
    """The same of n indices `step` bytes apart: whether all are within."""
    cdef Py_ssize_t i
    cdef long long value
    cdef bint outside = False
    if code == INT64 and step == sizeof(long long):             # a step that the compiler knows
        for i in range(n):
            value = (<const long long*>data)[i]
            outside |= (value < -length) | (value >= length)
            out[i] = (0 if first else out[i] * length) + value + (length if value < 0 else 0)
        return not outside
    for i in range(n):
        value = _integer(data + i * step, code)
        outside |= (value < -length) | (value >= length)
        out[i] = (0 if first else out[i] * length) + value + (length if value < 0 else 0)
    return not outside


cdef bint _rows(TensorBase index, tuple shape, Py_ssize_t length, bint first, long long* out, long long* wrong) except -1:
    """out = out * length + index, broadcast to `shape`; whether all are within [-length, length), else `wrong` is one that is not."""
    cdef Py_ssize_t sizes[MAX_RANK]
    cdef Py_ssize_t strides[MAX_RANK]
    cdef Py_ssize_t position[MAX_RANK]
    cdef int rank = len(shape), lead = rank - len(index.shape), code = index.dtype.code, d
    cdef Py_ssize_t i, n, row, count = 1, width = index.dtype.itemsize
    cdef const char* data = address(index)
    for d in range(rank):
        sizes[d], position[d] = shape[d], 0
        strides[d] = 0 if d < lead or index.shape[d - lead] == 1 else index._strides[d - lead] * width
        count *= sizes[d]
    n = sizes[rank - 1] if rank else 1
    with nogil:
        for row in range(count // n if n else 0):
            if not _row(data, code, strides[rank - 1] if rank else 0, n, length, first, out + row * n):
                for i in range(n):
                    wrong[0] = _integer(data + i * (strides[rank - 1] if rank else 0), code)
                    if wrong[0] < -length or wrong[0] >= length:
                        break
                return False
            for d in range(rank - 2, -1, -1):
                data += strides[d]
                position[d] += 1
                if position[d] < sizes[d]:
                    break
                data -= strides[d] * sizes[d]
                position[d] = 0
    return True


def rows(list indices, lengths, shape):
    """Host index tensors, broadcast to `shape`, as positions int64[n] in the joined dimensions of these lengths; a negative index counts
    from the end. An index tensor that is such already is used as it is.

    Raises: IndexRangeError.
    """
    lengths = plain(lengths)
    shape = plain(shape)
    cdef TensorBase index = indices[0], out
    cdef long long wrong = 0
    cdef Py_ssize_t k, length = lengths[0]
    if len(indices) == 1 and index.dtype.code == INT64 and index.contiguous and index.size:
        if _all_within(<long long*>address(index), index.size, length):
            return index if len(index.shape) == 1 else make_tensor(index.storage, (index.size,), (1,), index.offset, index.dtype)
    cdef Py_ssize_t count = 1
    for k in range(len(shape)):
        count *= <Py_ssize_t>shape[k]
    out = empty_host((count,), dtype_from_code(INT64))
    for k in range(len(indices)):
        index, length = indices[k], lengths[k]
        if not _rows(index, shape, length, k == 0, <long long*>address(out), &wrong):
            raise IndexRangeError(f"indexing: index {wrong} is out of range for a dimension of size {length}")
    return out


cdef inline bint _whole(object item):
    cdef PySliceObject* bounds = <PySliceObject*>item
    return <object>bounds.start is None and <object>bounds.stop is None and <object>bounds.step is None


cdef bint _known_within(TensorBase index, Py_ssize_t length):
    """Whether an index on a GPU, as it was uploaded, is known to be a position in [0, length) throughout."""
    cdef object bounds = index.storage.bounds
    return (bounds is not None and index.dtype.code == INT64 and index.storage.version == 0 and index.offset == 0
            and 4 * index.size == index.storage.nbytes and bounds[0] >= 0 and bounds[1] < length)


cdef tuple _common(tuple a, tuple b):
    """The shape that two broadcast to; None where they do not."""
    cdef Py_ssize_t i, m, n, rank = max(len(a), len(b)), before_a = rank - len(a), before_b = rank - len(b)
    cdef list shape = []
    for i in range(rank):
        m = a[i - before_a] if i >= before_a else 1
        n = b[i - before_b] if i >= before_b else 1
        if m != n and m != 1 and n != 1:
            return None
        shape.append(n if m == 1 else m)
    return tuple(shape)


def neighbours(TensorBase x not None, tuple key):
    """(positions, first dimension, how many dimensions, shape of the index) of a subscript of the commonest kind: row-major int64 or int32
    tensors of shapes that broadcast at dimensions side by side, all else whole, on the host, or of one shape and all row-major on a GPU;
    None for any other.

    Raises: IndexRangeError.
    """
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(key), first = -1
    cdef TensorBase index, other = None
    cdef list indices = []
    cdef object item
    cdef tuple shape = None
    cdef bint seen = host_sees(x)
    if n > len(x.shape) or x.storage.version < 0 or not seen and not (x.storage.device.is_gpu and x.contiguous):
        return None
    for i in range(n):
        item = <object>key[i]
        if isinstance(item, TensorBase):
            index = <TensorBase>item
            if index.dtype.code != INT64 and index.dtype.code != INT32 or not index.contiguous or not index.shape or (
                    index.storage.version < 0 or index.storage.device is not x.storage.device or seen and not host_sees(index)):
                return None
            if other is None:
                first, other, shape = i, index, index.shape
            elif first + len(indices) != i:
                return None
            elif index.shape != shape:
                shape = _common(shape, index.shape) if seen else None
                if shape is None:
                    return None
            indices.append(index)
        elif not PySlice_Check(item) or not _whole(item):
            return None
    if other is None:
        return None
    n = len(indices)
    if seen:
        return rows(indices, x.shape[first:first + n], shape), first, n, shape
    cdef TensorBase flat = <TensorBase>indices[0]
    cdef Py_ssize_t below = 1
    for i in range(n):
        if not _known_within(<TensorBase>indices[i], <Py_ssize_t>x.shape[first + i]):
            return _device_rows(indices, x.shape[first:first + n], other.shape, x), first, n, other.shape
    for i in range(1, n):
        below *= <Py_ssize_t>x.shape[first + i - 1]
        flat = <TensorBase>_joined(flat, below, indices[i], x.shape[first + i])
    if len(flat.shape) != 1:
        flat = make_tensor(flat.storage, (flat.size,), (1,), flat.offset, flat.dtype)
    return flat, first, n, other.shape

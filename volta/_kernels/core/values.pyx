# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What host code reads of host tensors: their values as Python's numbers, whether two are equal, where elements are other than 0; the
places of triangles; what lists of Python's numbers become, and which integers have 64 bits. Of what it writes, elements by a mask."""
import struct

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from cython cimport floating
from volta._kernels.core.base cimport (
    BFLOAT16, BOOL, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, MAX_RANK, UINT8, DType, TensorBase, address, check_read, dtype_of,
    empty_host, make_tensor)
from volta._kernels.core.size cimport plain
from volta.errors import ArgumentError, DTypeError, NumberError

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0
    double PyFloat_AS_DOUBLE(object)

cdef enum:
    BLOCK = 1024                # elements that are compared before it is asked whether all were equal
    CHUNK = 256                 # elements whose places are found at once, without branches

ctypedef fused number:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double


cdef object _value(const char* data, int code):
    cdef unsigned int bits
    if code == FLOAT32:
        return (<const float*>data)[0]
    if code == FLOAT64:
        return (<const double*>data)[0]
    if code == INT64:
        return (<const long long*>data)[0]
    if code == INT32:
        return (<const int*>data)[0]
    if code == BOOL:
        return (<const unsigned char*>data)[0] != 0
    if code == UINT8:
        return (<const unsigned char*>data)[0]
    if code == INT8:
        return (<const signed char*>data)[0]
    if code == INT16:
        return (<const short*>data)[0]
    if code == BFLOAT16:
        bits = <unsigned int>(<const unsigned short*>data)[0] << 16
        return (<float*>&bits)[0]
    return struct.unpack("e", data[:2])[0]


cdef object _nested(TensorBase t, const char* data, Py_ssize_t dim):
    """The values from dimension `dim` on as nested lists."""
    if dim == len(t.shape):
        return _value(data, t.dtype.code)
    cdef Py_ssize_t step = <Py_ssize_t>t._strides[dim] * t.dtype.itemsize, i
    cdef list out = []
    for i in range(<Py_ssize_t>t.shape[dim]):
        out.append(_nested(t, data + i * step, dim + 1))
    return out


def read_scalar(TensorBase t not None):
    """The value of a one-element host tensor as a Python number."""
    check_read(t)
    return _value(address(t), t.dtype.code)


def to_list(TensorBase t not None):
    """The values of a host tensor as nested lists of Python numbers; of a 0-d tensor the number."""
    check_read(t)
    return _nested(t, address(t), 0)


cdef bint _same(const number* a, const number* b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, start
    cdef int differ = 0
    for i in range((n + BLOCK - 1) // BLOCK):
        for start in range(i * BLOCK, min((i + 1) * BLOCK, n)):
            differ |= a[start] != b[start]
        if differ:
            return False
    return True


def same_values(TensorBase a not None, TensorBase b not None):
    """Whether two host tensors hold equal numbers, of which NaN equals none; None where this can't tell: unless they are contiguous, of
    one dtype and size, and for 16-bit floats."""
    cdef int code = a.dtype.code
    cdef char* x = address(a)
    cdef char* y = address(b)
    if b.dtype.code != code or b.size != a.size or not (a.contiguous and b.contiguous):
        return None
    check_read(a)
    check_read(b)
    if code == FLOAT32:
        return _same(<const float*>x, <const float*>y, a.size)
    if code == FLOAT64:
        return _same(<const double*>x, <const double*>y, a.size)
    if code == INT64:
        return _same(<const int64_t*>x, <const int64_t*>y, a.size)
    if code == INT32:
        return _same(<const int32_t*>x, <const int32_t*>y, a.size)
    if code == INT16:
        return _same(<const int16_t*>x, <const int16_t*>y, a.size)
    if code == INT8 or code == UINT8 or code == BOOL:
        return _same(<const uint8_t*>x, <const uint8_t*>y, a.size)
    return None


def all_between(TensorBase t not None, double low, double high):
    """Whether all elements of a contiguous host tensor of float32 or float64 are from low to high; False where this can't tell."""
    cdef Py_ssize_t i
    cdef const float* single = <const float*>address(t)
    cdef const double* wide = <const double*>address(t)
    cdef bint within = t.contiguous
    check_read(t)
    if not within or t.dtype.code != FLOAT32 and t.dtype.code != FLOAT64:
        return False
    if t.dtype.code == FLOAT32:
        for i in range(t.size):
            within &= (single[i] >= low) & (single[i] <= high)
    else:
        for i in range(t.size):
            within &= (wide[i] >= low) & (wide[i] <= high)
    return within


# ---------------------------------------------------------------- runs of equal elements

cdef TensorBase _first(TensorBase x, Py_ssize_t n):
    """The first n elements of a new vector: a copy where it is much longer."""
    cdef TensorBase out
    if 2 * n >= x.size:
        return make_tensor(x.storage, (n,), (1,), 0, x.dtype)
    out = empty_host((n,), x.dtype)
    memcpy(address(out), address(x), n * x.dtype.itemsize)
    return out


cdef tuple _runs(const number* x, TensorBase t, shape, bint inverse, bint counts):
    cdef Py_ssize_t i, k = 0, n = t.size
    cdef TensorBase values = empty_host((n,), t.dtype), runs = None, lengths = None
    cdef number* value = <number*>address(values)
    cdef int64_t* run = NULL
    cdef int64_t* length = NULL
    cdef number head = x[0]                     # of a run, which equal zeros may differ from
    value[0] = head
    if inverse:
        runs = empty_host(plain(shape), dtype_of(INT64))
        run = <int64_t*>address(runs)
        run[0] = 0
    if counts:
        lengths = empty_host((n,), dtype_of(INT64))
        length = <int64_t*>address(lengths)
        length[0] = 0                           # where each begins
    if not inverse and not counts:              # without branches, as the other loops
        for i in range(1, n):
            k += x[i] != x[i - 1]
            head = x[i] if x[i] != x[i - 1] else head
            value[k] = head
    elif not counts:
        for i in range(1, n):
            k += x[i] != x[i - 1]
            head = x[i] if x[i] != x[i - 1] else head
            value[k], run[i] = head, k
    else:
        for i in range(1, n):
            length[k + 1] = i
            k += x[i] != x[i - 1]
            if run != NULL:
                run[i] = k
        for i in range(k + 1):
            value[i] = x[length[i]]
            length[i] = (length[i + 1] if i < k else n) - length[i]
    values = _first(values, k + 1)
    if counts:
        lengths = _first(lengths, k + 1)
    return tuple([each for each in (values, runs, lengths) if each is not None])


def consecutive(TensorBase x not None, shape, bint inverse, bint counts):
    """(values of the runs of equal elements of a contiguous vector, the run of each element in this shape, their lengths), the last two
    where they are asked for; NaN equals none. None of 16-bit floats, and where the vector is not contiguous. IN: it has elements."""
    cdef int code = x.dtype.code
    if not x.contiguous or x.dtype.category == 2 and code != FLOAT32 and code != FLOAT64:
        return None
    check_read(x)
    cdef char* a = address(x)
    if code == FLOAT32:
        return _runs(<const float*>a, x, shape, inverse, counts)
    if code == FLOAT64:
        return _runs(<const double*>a, x, shape, inverse, counts)
    if x.dtype.itemsize == 8:
        return _runs(<const int64_t*>a, x, shape, inverse, counts)
    if x.dtype.itemsize == 4:
        return _runs(<const int32_t*>a, x, shape, inverse, counts)
    if x.dtype.itemsize == 2:
        return _runs(<const int16_t*>a, x, shape, inverse, counts)
    return _runs(<const uint8_t*>a, x, shape, inverse, counts)


# ---------------------------------------------------------------- where elements are not 0

cdef inline uint64_t _eight(const number* x) noexcept nogil:
    """Eight bytes as one word."""
    cdef uint64_t word
    memcpy(&word, x, 8)
    return word


cdef Py_ssize_t _count(const number* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, found = 0, done = 0
    cdef uint64_t word
    if number is uint8_t:
        for i in range(n // 8):                 # the highest bit of each byte that is not 0, and their sum in the highest byte
            word = _eight(x + 8 * i)
            word = ((((word & <uint64_t>0x7F7F7F7F7F7F7F7F) + <uint64_t>0x7F7F7F7F7F7F7F7F) | word) & <uint64_t>0x8080808080808080) >> 7
            found += <Py_ssize_t>((word * <uint64_t>0x0101010101010101) >> 56)
        done = n // 8 * 8
    for i in range(done, n):
        found += x[i] != 0
    return found


cdef Py_ssize_t _find(const number* x, Py_ssize_t size, const Py_ssize_t* sizes, int rank, int64_t* out, Py_ssize_t count) noexcept nogil:
    """Per dimension a row of out[rank, count]; gives how many there were. Another thread may change x meanwhile: then there may be fewer,
    or more, of which those beyond `count` are left out."""
    cdef int64_t[CHUNK] found
    cdef Py_ssize_t[MAX_RANK] at
    cdef Py_ssize_t length = sizes[rank - 1], left = size, start, end, i, j, n, k = 0
    cdef int d
    for d in range(rank):
        at[d] = 0
    while k < count and left > 0:
        left -= length
        for i in range((length + CHUNK - 1) // CHUNK):
            start, n = i * CHUNK, 0
            j, end = start, min(start + CHUNK, length)
            if number is uint8_t:
                while j + 8 <= end:
                    if _eight(x + j) == 0:      # as most are of few
                        j += 8
                        continue
                    for d in range(8):
                        found[n] = j
                        n += x[j] != 0
                        j += 1
            for j in range(j, end):
                found[n] = j
                n += x[j] != 0
            n = min(n, count - k)
            for d in range(rank - 1):
                for j in range(k, k + n):
                    out[d * count + j] = at[d]
            memcpy(out + (rank - 1) * count + k, found, n * sizeof(int64_t))
            k += n
        x += length
        d = rank - 2
        while d >= 0:
            at[d] += 1
            if at[d] < sizes[d]:
                break
            at[d] = 0
            d -= 1
    return k


cdef TensorBase _places(const number* x, TensorBase t):
    cdef Py_ssize_t[MAX_RANK] sizes
    cdef int rank = len(t.shape), d
    cdef Py_ssize_t count, found = 0
    cdef TensorBase out
    cdef int64_t* target
    if not t.contiguous:
        raise ArgumentError("true_places: needs a contiguous tensor; call contiguous() on it")
    for d in range(rank):
        sizes[d] = t.shape[d]
    with nogil:
        count = _count(x, t.size)
    out = empty_host((rank, count), dtype_of(INT64))
    target = <int64_t*>address(out)
    if count and rank:
        with nogil:
            found = _find(x, t.size, sizes, rank, target, count)
        if found < count:
            raise ArgumentError("nonzero: the tensor was changed by another thread while its elements were being looked for")
    return out


def true_places(TensorBase t not None):
    """(rank, count) int64: per dimension a row of where the elements of a contiguous host tensor are not 0, in their order.

    Raises: DTypeError for 16-bit floats; ArgumentError for what is not contiguous and where another thread changes it meanwhile.
    """
    cdef int code = t.dtype.code
    check_read(t)
    if code == BOOL or code == UINT8:
        return _places(<const uint8_t*>address(t), t)
    if code == FLOAT32:
        return _places(<const float*>address(t), t)
    if code == INT64:
        return _places(<const int64_t*>address(t), t)
    if code == FLOAT64:
        return _places(<const double*>address(t), t)
    if code == INT32:
        return _places(<const int32_t*>address(t), t)
    if code == INT16:
        return _places(<const int16_t*>address(t), t)
    if code == INT8:
        return _places(<const int8_t*>address(t), t)
    raise DTypeError(f"true_places: compare {t.dtype} with 0 first")


ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef void _put(word* out, const uint8_t* mask, const word* source, Py_ssize_t n, Py_ssize_t count) noexcept nogil:
    """Without branches, which random masks would mislead. IN: count, of the elements of source that are needed, none of them behind it."""
    cdef Py_ssize_t i = 0, k = 0
    while k < count and i < n:
        out[i] ^= (out[i] ^ source[k]) & -<word>(mask[i] != 0)
        k += mask[i] != 0
        i += 1


def put_where(TensorBase out not None, TensorBase mask not None, TensorBase source not None):
    """Let the elements of `source`, in their order, take the places of those of `out` where `mask` holds; gives how often it does. Where
    that is more often than source has elements, nothing is written. IN: contiguous host tensors, out and mask of one size, out and source
    of one dtype, which share no memory."""
    cdef Py_ssize_t n = out.size, count
    cdef int width = out.dtype.itemsize
    cdef void* target = address(out)
    cdef const void* values = address(source)
    cdef const uint8_t* marks = <const uint8_t*>address(mask)
    if (mask.dtype.code != BOOL or mask.size != n or source.dtype is not out.dtype
            or not (out.contiguous and mask.contiguous and source.contiguous)):
        raise ArgumentError("put_where: needs contiguous tensors, a mask of as many elements, and a source of the same dtype")
    check_read(out)
    check_read(mask)
    check_read(source)
    with nogil:
        count = _count(marks, n)
        if count <= source.size:
            if width == 1:
                _put(<uint8_t*>target, marks, <const uint8_t*>values, n, count)
            elif width == 2:
                _put(<uint16_t*>target, marks, <const uint16_t*>values, n, count)
            elif width == 4:
                _put(<uint32_t*>target, marks, <const uint32_t*>values, n, count)
            else:
                _put(<uint64_t*>target, marks, <const uint64_t*>values, n, count)
    if count <= source.size:
        out.storage.version += 1
    return count


def triangle_places(Py_ssize_t first, Py_ssize_t last, Py_ssize_t columns, Py_ssize_t offset, bint upper, Py_ssize_t count):
    """(2, count) int64: row and column of each place of a matrix on or above the diagonal `offset`, or on or below it, row by row. IN: the
    rows from `first` to before `last`, each of which has some; count, of all of them."""
    cdef TensorBase out = empty_host((2, count), dtype_of(INT64))
    cdef int64_t* at = <int64_t*>address(out)
    cdef Py_ssize_t row, column, begin = 0, end = columns
    with nogil:
        for row in range(first, last):
            if upper:
                begin = max(row + offset, 0)
            else:
                end = min(row + offset + 1, columns)
            for column in range(begin, end):
                at[column - begin] = row
                at[count + column - begin] = column
            at += end - begin
    return out


# ---------------------------------------------------------------- histograms

cdef void _tally(const floating* x, Py_ssize_t n, floating* edge, Py_ssize_t bins, bint given, floating low, floating high,
                 floating* found) noexcept nogil:
    cdef Py_ssize_t i, at, left, half
    cdef floating step = (high - low) / <floating>bins
    for i in range(0 if given else bins + 1):
        edge[i] = low + step * <floating>i if i < (bins + 1) // 2 else high - step * <floating>(bins - i)
    memset(found, 0, bins * sizeof(floating))
    for i in range(n):
        at, left = 0, bins
        while left > 1:                         # without branches
            half = left // 2
            at += half & -<Py_ssize_t>(x[i] >= edge[at + half])
            left -= half
        found[at] += (x[i] >= edge[at]) & (x[i] <= edge[bins])


def tallied(TensorBase x not None, TensorBase edges, Py_ssize_t bins, double low, double high):
    """(how many elements lie between two edges each, of which the last has both; the edges) of host tensors: those given, in order, or of
    so many equal parts. IN: contiguous tensors of float32 or float64, at most 2**24 elements, one part at least."""
    cdef bint single = x.dtype.code == FLOAT32, given = edges is not None
    check_read(x)
    if given:
        check_read(edges)
        bins = edges.size - 1
    else:
        edges = empty_host((bins + 1,), x.dtype)
    cdef TensorBase found = empty_host((bins,), x.dtype)
    if bins < 1 or edges.dtype is not x.dtype or not (x.contiguous and edges.contiguous) or not single and x.dtype.code != FLOAT64:
        raise ArgumentError("tallied: needs contiguous tensors of float32 or float64, and edges of the same dtype")
    if single:
        _tally(<const float*>address(x), x.size, <float*>address(edges), bins, given, <float>low, <float>high, <float*>address(found))
    else:
        _tally(<const double*>address(x), x.size, <double*>address(edges), bins, given, low, high, <double*>address(found))
    return found, edges


# ---------------------------------------------------------------- Python's numbers

cdef long long word_of(str name, object n) except? -1:
    """The 64 bits of an integer, with or without a sign, for `name`, which is given it.

    Raises: NumberError for one that has more.
    """
    cdef int beyond = 0
    cdef long long word = PyLong_AsLongLongAndOverflow(n, &beyond)
    if not beyond:
        return word
    if beyond < 0 or n >= 1 << 64:
        raise NumberError(f"{name}: {n} is beyond 64 bits; give a float")
    return <long long>PyLong_AsUnsignedLongLongMask(n)


def check_word(str name not None, n):
    """The same for Python: whether it raises."""
    word_of(name, n)


cdef Py_ssize_t _fill(list data, TensorBase out, Py_ssize_t dim, Py_ssize_t at) except -2:
    """The numbers of nested lists of `out`'s shape from the element `at` on; gives the one behind them, -1 for other shapes and types."""
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
        elif code == BOOL:
            if type(x) is not bool:
                return -1
            (<char*>address(out))[at] = x is True
        elif type(x) is not float:
            return -1
        elif code == FLOAT32:
            (<float*>address(out))[at] = <float>PyFloat_AS_DOUBLE(x)
        else:
            (<double*>address(out))[at] = PyFloat_AS_DOUBLE(x)
        at += 1
    return at


def of_numbers(list data not None, DType floating not None):
    """A host tensor of nested lists that hold floats alone, ints that fit into int64, or bools; None for others. IN: floating, float32 or
    float64."""
    cdef object x = data
    cdef tuple shape = ()
    cdef TensorBase out
    while type(x) is list:
        if not len(<list>x) or len(shape) == 8:
            return None
        shape += (len(<list>x),)
        x = (<list>x)[0]
    if type(x) is not float and type(x) is not int and type(x) is not bool:
        return None
    out = empty_host(shape, floating if type(x) is float else dtype_of(INT64 if type(x) is int else BOOL))
    return None if _fill(data, out, 0, 0) < 0 else out

# Products of tensors: `matmul`, `linear`, `dot`, and cross products.
#
# Layout: any strides; gemm.pyx packs what it reads, integers.pxd multiplies integers.
# Threads: gemm's; those of `dot` take parts of PART elements, whose sums are added in order. Sizes: the front end.

import numpy

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from volta._kernels.core.base cimport (
    BFLOAT16, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, Storage, TensorBase, address, dtype_of, empty_host, host_storage, is_half,
    make_tensor,
)
from volta._kernels.cpu.bfloat_product cimport bfloat_pays, multiply_bfloats
from volta._kernels.cpu.copy cimport contiguous_copy, copy_data, packed
from volta._kernels.cpu.elementwise_driver cimport broadcast_shape
from volta._kernels.cpu.gemm cimport gemm
from volta._kernels.cpu.gemm_plan cimport Plan, Products, plan_products
from volta._kernels.cpu.integers cimport INTEGER_ROWS, integer_tasks, integers_turned, whole, wide
from volta._kernels.cpu.lines cimport inner_product
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.small cimport small_pays, small_products
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport pointer, same_type

from volta.errors import DTypeError

cdef enum:
    PART = 8192                 # elements of vectors that are summed apart
    FEW = 64                    # rows up to which a large matrix of float16 or bfloat16 is widened by portions
    PORTION = 131072            # of so many elements

cdef object new_array = numpy.ndarray
cdef list element_types = [numpy.dtype(name) for name in
                           ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")]

cdef object as_array(TensorBase t, tuple shape, tuple strides):
    """NumPy array over a tensor's memory. IN: strides in elements."""
    cdef Py_ssize_t itemsize = t.dtype.itemsize
    if t.size == 0:                         # its strides and offset may lead outside the storage
        return new_array(shape, element_types[t.dtype.code])
    return new_array(shape, element_types[t.dtype.code], t.storage, t.offset * itemsize, tuple([step * itemsize for step in strides]))


cdef bint is_trivial(TensorBase out, TensorBase a, TensorBase b):
    """Whether there is nothing to multiply; then `out` is zeros. (NumPy refuses some strides of empty arrays.)"""
    if out.size and a.size and b.size:
        return False
    memset(address(out), 0, out.size * out.dtype.itemsize)
    return True


cdef TensorBase place_for(tuple shape, TensorBase like, TensorBase out):
    """A new tensor, or `out`, which is given for the result.

    Raises: DTypeError where it cannot be that.
    """
    if out is None:
        return empty_host(shape, like.dtype)
    if out.shape != shape or out.dtype is not like.dtype or not out.contiguous:
        raise DTypeError(f"a product of shape {shape} and {like.dtype.name} does not fit into out of shape {out.shape} and "
                         f"{out.dtype.name}")
    return out


cdef void describe(Products* p, tuple batch, TensorBase a, TensorBase b):
    """Fill in the geometry of a @ b."""
    cdef int i, j, na = <int>len(a.shape), nb = <int>len(b.shape)
    p.m, p.k, p.n = a.shape[na - 2], a.shape[na - 1], b.shape[nb - 1]
    p.a_row, p.a_column = a._strides[na - 2], a._strides[na - 1]
    p.b_row, p.b_column = b._strides[nb - 2], b._strides[nb - 1]
    p.rank, p.count = <int>len(batch), 1
    for i in range(p.rank):
        p.shape[i] = batch[i]
        p.count *= p.shape[i]
        j = i - p.rank + na - 2
        p.a_strides[i] = a._strides[j] if j >= 0 and a.shape[j] != 1 else 0
        j = i - p.rank + nb - 2
        p.b_strides[i] = b._strides[j] if j >= 0 and b.shape[j] != 1 else 0


cdef void multiply(Products* p, const real* a, const real* b, const real* bias, real* out):
    """All products."""
    cdef Plan plan
    cdef Products q
    if bias == NULL and small_pays(p, &q, out):
        multiply_small(p, &q, a, b, out)
        return
    plan_products(&plan, p, out)
    cdef Storage space = host_storage((plan.partial + plan.threads * plan.own) * sizeof(real))
    with nogil:
        gemm(&plan, p, a, b, bias, out, <real*>space.data)


cdef void multiply_small(const Products* p, const Products* q, const real* a, const real* b, real* out):
    """All products of a batch, small ones."""
    cdef int threads = threads_for(p.count * (q.m * q.n * q.k // 8 + q.m + q.k + 8)), t
    cdef Py_ssize_t count = p.count
    with nogil:
        if threads == 1:
            small_products(p, q, 0, count, a, b, out)
            return
        for t in prange(threads, num_threads=threads, schedule="static"):
            small_products(p, q, count * t // threads, count * (t + 1) // threads, a, b, out)


cdef run(Products* p, TensorBase a, TensorBase b, TensorBase bias, TensorBase out):
    if out.dtype.code == FLOAT32:
        multiply(p, <const float*>address(a), <const float*>address(b), <const float*>pointer(bias), <float*>address(out))
    else:
        multiply(p, <const double*>address(a), <const double*>address(b), <const double*>pointer(bias), <double*>address(out))


cdef void multiply_integers(Products* p, const whole* a, const whole* b, whole* out):
    """All products, of integers."""
    cdef Py_ssize_t strips, tasks, row_blocks = 1, own = (p.k * max(wide(out), <Py_ssize_t>INTEGER_ROWS) + 63) // 64 * 64
    cdef bint turned = integers_turned(p, out)
    cdef int threads = threads_for(p.count * p.m * p.n * (p.k + 1) // 4), t
    strips = p.count * (((p.m if turned else p.n) + wide(out) - 1) // wide(out))
    if threads > 1 and strips < 4 * threads:
        row_blocks = max(1, min(threads, (p.n if turned else p.m) // INTEGER_ROWS))
    tasks = strips * row_blocks
    cdef Storage space = host_storage(threads * own * sizeof(whole))
    cdef whole* rooms = <whole*>space.data
    with nogil:
        if threads == 1:
            integer_tasks(p, 0, tasks, row_blocks, a, b, out, rooms)
        else:
            for t in prange(threads, num_threads=threads, schedule="static"):
                integer_tasks(p, tasks * t // threads, tasks * (t + 1) // threads, row_blocks, a, b, out, rooms + t * own)


# ---------------------------------------------------------------- float16 and bfloat16

cdef TensorBase turned_over(TensorBase x):
    """The last two dimensions exchanged."""
    cdef int last = <int>len(x.shape) - 1
    return make_tensor(x.storage, x.shape[:last - 1] + (x.shape[last], x.shape[last - 1]),
                       x._strides[:last - 1] + (x._strides[last], x._strides[last - 1]), x.offset, x.dtype)


cdef TensorBase as_floats(TensorBase x):
    """x in float32: of what repeats one, and of matrices that lie column by column such again."""
    cdef int d, rank
    cdef TensorBase out
    if x is None:
        return None
    rank = <int>len(x.shape)
    if not x.contiguous and x.size:
        for d in range(rank - 2):
            if <Py_ssize_t>x._strides[d] == 0 and <Py_ssize_t>x.shape[d] > 1:
                out = as_floats(make_tensor(x.storage, x.shape[:d] + (1,) + x.shape[d + 1:], x._strides, x.offset, x.dtype))
                return make_tensor(out.storage, x.shape, out._strides[:d] + (0,) + out._strides[d + 1:], 0, out.dtype)
        if rank > 1 and <Py_ssize_t>x._strides[rank - 2] == 1:
            out = turned_over(x)
            return turned_over(as_floats(out if out.contiguous else contiguous_copy(out)))
    out = empty_host(x.shape, dtype_of(FLOAT32))
    copy_data(out, x)
    return out


cdef TensorBase product_of_floats(TensorBase a, TensorBase b, TensorBase bias):
    cdef Products p
    cdef tuple left = a.shape, right = b.shape, batch = ()
    if len(left) > 2 or len(right) > 2:
        batch = broadcast_shape("matmul", left[:len(left) - 2], right[:len(right) - 2])
    cdef TensorBase out = empty_host(batch + (left[len(left) - 2], right[len(right) - 1]), a.dtype)
    if is_trivial(out, a, b):
        return out if bias is None or not out.size else spread_bias(out, bias)
    describe(&p, batch, a, b)
    run(&p, a, b, bias, out)
    return out


cdef void add_floats(float* x, const float* y, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i
    for i in range(n):
        x[i] += y[i]


cdef inline TensorBase some_of(TensorBase x, Py_ssize_t first, Py_ssize_t rows, Py_ssize_t begin, Py_ssize_t columns):
    """Rows and columns of a matrix, as a view."""
    return make_tensor(x.storage, (rows, columns), x._strides,
                       x.offset + first * <Py_ssize_t>x._strides[0] + begin * <Py_ssize_t>x._strides[1], x.dtype)


cdef int portions(TensorBase a, TensorBase b, TensorBase bias, TensorBase out) except -1:
    """a @ b + bias into out, of matrices one of which is large and meets few rows or columns: as much of it at a time as a cache holds."""
    cdef Py_ssize_t m = a.shape[0], k = b.shape[0], n = b.shape[1], first = 0, step, some
    cdef TensorBase part, sums = None
    if b.size <= 2 * PORTION:                           # rows of a
        b, step = as_floats(b), max(<Py_ssize_t>64, PORTION // k // 64 * 64)
        while first < m:
            some = min(step, m - first)
            copy_data(some_of(out, first, some, 0, n), product_of_floats(as_floats(some_of(a, first, some, 0, k)), b, bias))
            first += step
        return 0
    a = as_floats(a)
    if b._strides[1] == 1 != b._strides[0]:             # rows of b
        step = max(<Py_ssize_t>64, PORTION // n // 64 * 64)
        while first < k:
            some = min(step, k - first)
            part = product_of_floats(some_of(a, 0, m, first, some), as_floats(some_of(b, first, some, 0, n)), bias if first == 0 else None)
            if first == 0:
                sums = part
            else:
                add_floats(<float*>address(sums), <const float*>address(part), m * n)
            first += step
        return copy_data(out, sums)
    step = max(<Py_ssize_t>64, PORTION // k // 64 * 64)
    while first < n:                                    # columns of b
        some = min(step, n - first)
        part = None if bias is None else make_tensor(bias.storage, (some,), (1,), bias.offset + first, bias.dtype)
        copy_data(some_of(out, 0, m, first, some), product_of_floats(a, as_floats(some_of(b, 0, k, first, some)), part))
        first += step
    return 0


cdef TensorBase product_of_bfloats(TensorBase a, TensorBase b, TensorBase bias):
    """a @ b + bias of bfloat16 as it is; None where the processor cannot, or it does not pay. IN: bias in float32."""
    cdef Products p
    cdef tuple left = a.shape, right = b.shape, batch = ()
    if a.size == 0 or b.size == 0:
        return None
    if len(left) > 2 or len(right) > 2:
        batch = broadcast_shape("matmul", left[:len(left) - 2], right[:len(right) - 2])
    describe(&p, batch, a, b)
    if not bfloat_pays(&p):
        return None
    cdef TensorBase out = empty_host(batch + (p.m, p.n), a.dtype)
    multiply_bfloats(&p, <const uint16_t*>address(a), <const uint16_t*>address(b), <const float*>pointer(bias), <uint16_t*>address(out))
    return out


cdef TensorBase product_of_halves(TensorBase a, TensorBase b, TensorBase bias):
    """a @ b + bias, computed in float32 and rounded once."""
    cdef TensorBase out = None, sums
    if bias is not None:
        bias = as_floats(packed(bias))
    if a.dtype.code == BFLOAT16:
        out = product_of_bfloats(a, b, bias)
    if out is not None:
        return out
    if len(a.shape) == 2 == len(b.shape) and (a.shape[0] <= FEW and b.size > 2 * PORTION or b.shape[1] <= FEW and a.size > 2 * PORTION):
        out = empty_host((a.shape[0], b.shape[1]), a.dtype)
        if out.size:
            portions(a, b, bias, out)
        return out
    sums = product_of_floats(as_floats(a), as_floats(b), bias)
    out = empty_host(sums.shape, a.dtype)
    copy_data(out, sums)
    return out


# ---------------------------------------------------------------- products

def matmul(TensorBase a not None, TensorBase b not None, TensorBase out=None):
    """a[..., M, K] @ b[..., K, N]; batch dimensions broadcast. IN: out None, or of at least 32 bits and in memory of its own."""
    cdef Products p
    cdef tuple left = a.shape, right = b.shape, batch = ()
    same_type("matmul", a, b)
    if is_half(a.dtype.code):
        return product_of_halves(a, b, None)
    if len(left) > 2 or len(right) > 2:
        batch = broadcast_shape("matmul", left[:len(left) - 2], right[:len(right) - 2])
    out = place_for(batch + (left[len(left) - 2], right[len(right) - 1]), a, out)
    if is_trivial(out, a, b):
        return out
    describe(&p, batch, a, b)
    if out.dtype.code == INT64:
        multiply_integers(&p, <const uint64_t*>address(a), <const uint64_t*>address(b), <uint64_t*>address(out))
    elif out.dtype.code == INT32:
        multiply_integers(&p, <const uint32_t*>address(a), <const uint32_t*>address(b), <uint32_t*>address(out))
    elif out.dtype.code == UINT8 or out.dtype.code == INT8:                   # sums wrap around alike
        multiply_integers(&p, <const uint8_t*>address(a), <const uint8_t*>address(b), <uint8_t*>address(out))
    else:
        run(&p, a, b, None, out)
    return out


def linear(TensorBase x not None, TensorBase weight not None, TensorBase bias, TensorBase out=None):
    """x[R, K] @ weight[N, K].T + bias[N]. IN: out as in `matmul`."""
    cdef Products p
    same_type("linear", x, weight)
    same_type("linear", x, bias)
    if is_half(x.dtype.code):
        return product_of_halves(x, turned_over(weight), bias)
    out = place_for((x.shape[0], weight.shape[0]), x, out)
    if out.dtype.category != 2:
        raise DTypeError(f"linear: needs float32 or float64, got {x.dtype.name}; cast it with .float()")
    bias = packed(bias)
    if out.size == 0:
        return out
    p.m, p.k, p.n, p.rank, p.count = x.shape[0], x.shape[1], weight.shape[0], 0, 1
    if p.k == 0:
        return spread_bias(out, bias)
    p.a_row, p.a_column = x._strides[0], x._strides[1]
    p.b_row, p.b_column = weight._strides[1], weight._strides[0]
    run(&p, x, weight, bias, out)
    return out


cdef TensorBase spread_bias(TensorBase out, TensorBase bias):
    """out with the bias, or zeros, in every row: a product without anything to add up."""
    array = as_array(out, out.shape, out._strides)
    array[...] = 0 if bias is None else as_array(bias, bias.shape, bias._strides)
    return out


# ---------------------------------------------------------------- vectors

cdef real part_of_dot(Py_ssize_t i, Py_ssize_t n, const real* x, const real* y) noexcept nogil:
    return inner_product(min(<Py_ssize_t>PART, n - i * PART), x + i * PART, y + i * PART)


cdef void long_dot(Py_ssize_t n, const real* x, const real* y, real* out, real* sums, int threads) noexcept nogil:
    """OUT: out; sums, of each part."""
    cdef Py_ssize_t parts = (n + PART - 1) // PART, i
    cdef double total = 0
    if threads == 1:
        for i in range(parts):
            sums[i] = part_of_dot(i, n, x, y)
    else:
        for i in prange(parts, num_threads=threads, schedule="static"):
            sums[i] = part_of_dot(i, n, x, y)
    for i in range(parts):
        total += sums[i]
    out[0] = <real>total


cdef void dot_of(Py_ssize_t n, const real* x, const real* y, real* out):
    cdef int threads
    cdef Storage space
    if n <= PART:
        out[0] = inner_product(n, x, y)
        return
    threads = threads_for(n // 2)
    space = host_storage((n + PART - 1) // PART * sizeof(real))
    with nogil:
        long_dot(n, x, y, out, <real*>space.data, threads)


cdef whole dot_of_integers(Py_ssize_t n, const whole* x, const whole* y) noexcept:
    cdef whole total = 0
    cdef Py_ssize_t i
    for i in range(n):
        total += x[i] * y[i]
    return total


def dot(TensorBase a not None, TensorBase b not None):
    """Sum of a[K] * b[K]."""
    same_type("dot", a, b)
    cdef TensorBase out = empty_host((), a.dtype)
    if is_trivial(out, a, b):
        return out
    a, b = packed(a), packed(b)
    if out.dtype.code == INT64:
        (<uint64_t*>address(out))[0] = dot_of_integers(a.size, <const uint64_t*>address(a), <const uint64_t*>address(b))
    elif out.dtype.code == INT32:
        (<uint32_t*>address(out))[0] = dot_of_integers(a.size, <const uint32_t*>address(a), <const uint32_t*>address(b))
    elif out.dtype.code == UINT8 or out.dtype.code == INT8:
        (<uint8_t*>address(out))[0] = dot_of_integers(a.size, <const uint8_t*>address(a), <const uint8_t*>address(b))
    elif out.dtype.code == FLOAT32:
        dot_of(a.size, <const float*>address(a), <const float*>address(b), <float*>address(out))
    else:
        dot_of(a.size, <const double*>address(a), <const double*>address(b), <double*>address(out))
    return out


# ---------------------------------------------------------------- cross products

ctypedef fused number:
    unsigned char
    int
    int64_t
    float
    double


cdef void cross_lines(const number* a, const number* b, number* out, Py_ssize_t outer, Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t line, i, x, y, z
    for line in range(outer):
        for i in range(inner):
            x = 3 * line * inner + i
            y, z = x + inner, x + 2 * inner
            out[x] = a[y] * b[z] - a[z] * b[y]
            out[y] = a[z] * b[x] - a[x] * b[z]
            out[z] = a[x] * b[y] - a[y] * b[x]


def cross(TensorBase a not None, TensorBase b not None, *, Py_ssize_t dim):
    """a x b of the vectors of 3 elements along dim."""
    cdef TensorBase out = empty_host(a.shape, a.dtype)
    cdef Py_ssize_t outer = 1, inner = 1, d
    for d in range(len(a.shape)):
        if d < dim:
            outer *= <Py_ssize_t>a.shape[d]
        elif d > dim:
            inner *= <Py_ssize_t>a.shape[d]
    a, b = packed(a), packed(b)
    cdef char* x = address(a)
    cdef char* y = address(b)
    cdef char* to = address(out)
    cdef int code = out.dtype.code
    with nogil:
        if code == FLOAT32:
            cross_lines(<float*>x, <float*>y, <float*>to, outer, inner)
        elif code == FLOAT64:
            cross_lines(<double*>x, <double*>y, <double*>to, outer, inner)
        elif code == INT64:
            cross_lines(<int64_t*>x, <int64_t*>y, <int64_t*>to, outer, inner)
        elif code == INT32:
            cross_lines(<int*>x, <int*>y, <int*>to, outer, inner)
        elif code == UINT8:
            cross_lines(<unsigned char*>x, <unsigned char*>y, <unsigned char*>to, outer, inner)
    return out


KERNELS = {"matmul": matmul, "linear": linear, "dot": dot, "cross": cross}

# The gated linear unit, the first half of a dimension times the sigmoid of the second, and its gradient in one pass.
#
# Layout: x seen as [outer, 2, n], made contiguous, n elements being half of the dimension with what lies within; in blocks, of which a
# thread keeps the sigmoids. Threads: over blocks. Sizes: here.

from cython.parallel cimport prange

from volta.errors import ShapeError

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, empty_host, empty_host_like
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code, same_type, split_at
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.doubles cimport sigmoid_f64
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.scalar cimport sigmoid_f32
from volta._kernels.cpu.vectors cimport gated_line, sigmoid_line

cdef enum:
    SHORT = 64                  # elements of a half up to which several are worked at once
    BLOCK = 512                # elements whose sigmoids are kept
    COST = 4                    # of one, against an element of a cheap loop


cdef inline void sigmoids(real* out, const real* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i = 0
    if real is float:
        i = sigmoid_line(out, x, n)
    for i in range(i, n):
        if real is float:
            out[i] = sigmoid_f32(x[i])
        else:
            out[i] = sigmoid_f64(x[i])


cdef inline void glu_line(const real* x, const real* gate, real* out, Py_ssize_t n) noexcept nogil:
    """A long row, whose sigmoids are not kept."""
    cdef Py_ssize_t i = 0
    if real is float:
        i = gated_line(out, gate, x, n)
        for i in range(i, n):
            out[i] = x[i] * sigmoid_f32(gate[i])
    else:
        for i in range(n):
            out[i] = x[i] * sigmoid_f64(gate[i])


cdef inline void glu_row(const real* x, const real* s, real* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = x[i] * s[i]


cdef inline void grad_row(const real* g, const real* x, const real* s, real* out, real* gate, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = g[i] * s[i]
        gate[i] = g[i] * x[i] * (1 - s[i]) * s[i]


cdef void one_block(const real* g, const real* x, real* out, Py_ssize_t rows, Py_ssize_t width, Py_ssize_t n) noexcept nogil:
    """`width` columns of rows whose halves have n. IN: g, NULL for the function itself."""
    cdef real s[BLOCK]
    cdef Py_ssize_t r, i
    if rows == 1 and g == NULL:
        glu_line(x, x + n, out, width)
        return
    if rows == 1:
        sigmoids(s, x + n, width)
    else:
        for r in range(rows):
            for i in range(width):
                s[r * width + i] = x[(2 * r + 1) * n + i]
        sigmoids(s, <const real*>s, rows * width)
    for r in range(rows):
        if g == NULL:
            glu_row(x + 2 * r * n, s + r * width, out + r * n, width)
        else:
            grad_row(g + r * n, x + 2 * r * n, s + r * width, out + 2 * r * n, out + (2 * r + 1) * n, width)


cdef void some_blocks(const real* g, const real* x, real* out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t first,
                      Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t rows = BLOCK // n if n < SHORT else 1, parts = (n + BLOCK - 1) // BLOCK, k, row, at
    for k in range(first, last):
        row, at = k // parts * rows, k % parts * BLOCK
        one_block(<const real*>NULL if g == NULL else g + row * n + at, x + 2 * row * n + at,
                  out + row * n * (1 if g == NULL else 2) + at, min(rows, outer - row), min(<Py_ssize_t>BLOCK, n - at), n)


cdef void all_blocks(const real* g, const real* x, real* out, Py_ssize_t outer, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t rows = BLOCK // n if n < SHORT else 1, blocks = (outer + rows - 1) // rows * ((n + BLOCK - 1) // BLOCK)
    cdef int threads = threads_for(outer * n * COST * <Py_ssize_t>(sizeof(real) // 4)), t
    if threads == 1:
        some_blocks(g, x, out, outer, n, 0, blocks)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        some_blocks(g, x, out, outer, n, blocks * t // threads, blocks * (t + 1) // threads)


cdef TensorBase halved(str name, TensorBase x, Py_ssize_t dim, Py_ssize_t* outer, Py_ssize_t* n):
    """x, contiguous. OUT: what [outer, 2, n] of it are."""
    cdef Py_ssize_t length = 0, inner = 0
    x = packed(x)
    split_at(x.shape, dim, outer, &length, &inner)
    if not x.shape or length % 2:
        raise ShapeError(f"{name}: needs an even size along dimension {dim}, got shape {x.shape}")
    n[0] = length // 2 * inner
    return x


def glu(TensorBase x not None, Py_ssize_t dim):
    cdef Py_ssize_t outer = 0, n = 0
    cdef int code = float_code("glu", x)
    x = halved("glu", x, dim, &outer, &n)
    cdef TensorBase out = empty_host(x.shape[:dim] + (x.shape[dim] // 2,) + x.shape[dim + 1:], x.dtype)
    cdef void* source = address(x)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_blocks(<const float*>NULL, <const float*>source, <float*>target, outer, n)
            else:
                all_blocks(<const double*>NULL, <const double*>source, <double*>target, outer, n)
    return out


def glu_grad(TensorBase g not None, TensorBase x not None, Py_ssize_t dim):
    cdef Py_ssize_t outer = 0, n = 0
    cdef int code = float_code("glu_grad", x)
    same_type("glu_grad", x, g)
    g, x = packed(g), halved("glu_grad", x, dim, &outer, &n)
    if 2 * g.size != x.size:
        raise ShapeError(f"glu_grad: the gradient of {x.shape} has half of its elements, got shape {g.shape}")
    cdef TensorBase out = empty_host_like(x, x.dtype)
    cdef void* gradient = address(g)
    cdef void* source = address(x)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_blocks(<const float*>gradient, <const float*>source, <float*>target, outer, n)
            else:
                all_blocks(<const double*>gradient, <const double*>source, <double*>target, outer, n)
    return out


KERNELS = {"glu": glu, "glu_grad": glu_grad}

# The windows of images, one a column, added where they were.
#
# Layout: columns[N, C, kh, kw, windows down, windows across] and images[N, C, H, W], contiguous.
# Threads: over planes, each of whose elements is added to in the order of the kernel. Sizes: the front end.

from cython.parallel cimport prange
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.real cimport real

from volta._kernels.core.base import reshaped, view
from volta._kernels.cpu.copy import contiguous, place

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    /* out[j * stride] += x[j] */
    #define VOLTA_ADD_APART(S, T)                                                                                   \\
    static void volta_add_apart_##S(const T* VOLTA_RESTRICT x, Py_ssize_t n, Py_ssize_t stride, T* VOLTA_RESTRICT out) { \\
        Py_ssize_t j;                                                                                               \\
        if (stride == 1) for (j = 0; j < n; j++) out[j] += x[j];                                                    \\
        else if (stride == 2) for (j = 0; j < n; j++) out[2 * j] += x[j];                                           \\
        else for (j = 0; j < n; j++) out[j * stride] += x[j];                                                       \\
    }
    VOLTA_ADD_APART(32, float)
    VOLTA_ADD_APART(64, double)
    """
    void volta_add_apart_32(const float* x, Py_ssize_t n, Py_ssize_t stride, float* out) noexcept nogil
    void volta_add_apart_64(const double* x, Py_ssize_t n, Py_ssize_t stride, double* out) noexcept nogil

cdef struct Windows:
    Py_ssize_t size[2]                              # of the images
    Py_ssize_t kernel[2]
    Py_ssize_t stride[2]
    Py_ssize_t padding[2]
    Py_ssize_t dilation[2]
    Py_ssize_t count[2]


cdef void inside(Windows* p, int d, Py_ssize_t k, Py_ssize_t* first, Py_ssize_t* stop, Py_ssize_t* at) noexcept nogil:
    """The windows whose element k lies in the image, and where that of the first one lies."""
    cdef Py_ssize_t place = k * p.dilation[d] - p.padding[d], s = p.stride[d]
    first[0] = 0 if place >= 0 else (-place + s - 1) // s
    stop[0] = min(p.count[d], (p.size[d] - place + s - 1) // s) if place < p.size[d] else 0
    at[0] = place + first[0] * s


cdef void fold_planes(Windows* p, const real* x, Py_ssize_t start, Py_ssize_t stop, real* out) noexcept nogil:
    cdef Py_ssize_t plane, i, j, row, top, bottom, left, right, y, c, size = p.size[0] * p.size[1]
    cdef const real* source
    cdef real* target
    memset(out + start * size, 0, (stop - start) * size * sizeof(real))
    for plane in range(start, stop):
        for i in range(p.kernel[0]):
            inside(p, 0, i, &top, &bottom, &y)
            for j in range(p.kernel[1]):
                inside(p, 1, j, &left, &right, &c)
                for row in range(top, bottom):
                    source = x + (((plane * p.kernel[0] + i) * p.kernel[1] + j) * p.count[0] + row) * p.count[1] + left
                    target = out + plane * size + (y + (row - top) * p.stride[0]) * p.size[1] + c
                    if left < right:
                        if real is float:
                            volta_add_apart_32(source, right - left, p.stride[1], target)
                        else:
                            volta_add_apart_64(source, right - left, p.stride[1], target)


def fold(TensorBase x not None, size, tuple kernel, tuple stride, tuple padding, tuple dilation):
    """Images [N, C, *size] from the columns x[N, C * kh * kw, windows] of their windows."""
    cdef Windows p
    cdef int code = float_code("fold", x), d, t, threads
    cdef Py_ssize_t planes = x.shape[0] * (<Py_ssize_t>x.shape[1] // (<Py_ssize_t>kernel[0] * <Py_ssize_t>kernel[1]))
    cdef TensorBase out
    x, size = packed(x), plain(size)
    for d in range(2):
        p.size[d], p.kernel[d], p.stride[d], p.padding[d], p.dilation[d] = size[d], kernel[d], stride[d], padding[d], dilation[d]
        p.count[d] = (p.size[d] + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1) // p.stride[d] + 1
    out = empty_host((x.shape[0], <Py_ssize_t>x.shape[1] // (p.kernel[0] * p.kernel[1]), *size), x.dtype)
    if not out.size:
        return out
    cdef void* source = address(x)
    cdef void* target = address(out)
    threads = threads_for(x.size)
    with nogil:
        for t in prange(threads, num_threads=threads, schedule="static"):
            if code == FLOAT32:
                fold_planes(&p, <const float*>source, planes * t // threads, planes * (t + 1) // threads, <float*>target)
            else:
                fold_planes(&p, <const double*>source, planes * t // threads, planes * (t + 1) // threads, <double*>target)
    return out


def columns(TensorBase x not None, tuple kernel, tuple stride, tuple padding, tuple dilation):
    """The windows of images x[N, C, H, W], padded by zeros, as columns [N, C * kh * kw, windows]: a copy."""
    cdef Py_ssize_t count = 1, reach, d
    cdef list sizes = list(x.shape[:2]), strides, windows = []
    if any(padding):
        x = place(x, (*x.shape[:2], *[n + 2 * p for n, p in zip(x.shape[2:], padding)]), (0, 0, *padding), (1, 1, 1, 1), 0.0)
    for d in range(2):
        reach = <Py_ssize_t>dilation[d] * (<Py_ssize_t>kernel[d] - 1) + 1
        windows.append((<Py_ssize_t>x.shape[2 + d] - reach) // <Py_ssize_t>stride[d] + 1)
        count *= <Py_ssize_t>kernel[d]
    strides = [*x._strides[:2], *[s * n for s, n in zip(x._strides[2:], dilation)], *[s * n for s, n in zip(x._strides[2:], stride)]]
    found = contiguous(view(x, (*sizes, *kernel, *windows), tuple(strides), x.offset))
    return reshaped(found, (sizes[0], sizes[1] * count, windows[0] * windows[1]))


KERNELS = {"fold": fold, "columns": columns}

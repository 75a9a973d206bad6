# Variance and mean over a run of dimensions, and norms.
#
# Layout: x seen as [outer, length, inner], made contiguous. inner == 1: a line is a row; else lines are columns, and blocks of
#   neighbouring columns are worked together so that loops run along memory.
# Sums: a line is cut into pieces of PIECE elements (rows) or of a share that depends on the sizes alone (columns); in each the mean is
#   summed in float32 lanes or in double, the deviations are a second pass, and pieces are merged in order by Chan's formula, in double.
# Threads: over pieces, so that results do not depend on their number. Sizes: the front end; there is at least one element.

from volta._kernels.cpu.elementwise import KERNELS as elementwise
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.reduce import sum

from cython.parallel cimport prange
from libc.math cimport INFINITY, NAN, fabs, isfinite, sqrt
from libc.stdlib cimport free, malloc

from libc.stdint cimport uint16_t
from volta._kernels.core.base cimport (
    BFLOAT16, FLOAT32, FLOAT64, Storage, TensorBase, address, dtype_of, empty_host, host_storage, is_half)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport copy_data, packed
from volta._kernels.cpu.scalar cimport brain_to_float, half_to_float, volta_to_brain, volta_to_half
from volta._kernels.cpu.short_lines cimport SHORT, short_norms
from volta._kernels.cpu.sums cimport line_away, line_squares

cdef enum:
    PIECE = 16384
    COLUMNS = 128               # columns worked together
    PIECES = 16                 # of columns at most
    STAGE = 1024                # elements that are widened at a time: a line's sum is cut there
    SHORT_WIDE = 16             # elements of a line of float64 up to which it is summed one after the other

cdef struct Moments:
    double count, mean, rest    # rest: the sum of squared deviations

cdef struct Lines:
    Py_ssize_t outer, length, inner, blocks, pieces


cdef void merge(Moments* a, const Moments* b) noexcept nogil:
    cdef double count = a.count + b.count, apart = b.mean - a.mean
    a.rest += b.rest + apart * apart * a.count * b.count / count
    a.mean += apart * b.count / count
    a.count = count


cdef void welford(const real* x, Py_ssize_t n, Py_ssize_t stride, Moments* out) noexcept nogil:
    """One element after the other: of numbers whose sums or squares are beyond the others' range, too."""
    cdef double mean = 0, rest = 0, away
    cdef Py_ssize_t i
    for i in range(n):
        away = x[i * stride] - mean
        mean += away / <double>(i + 1)
        rest += away * (x[i * stride] - mean)
    out.count, out.mean, out.rest = <double>n, mean, rest


cdef void row_piece(const real* x, Py_ssize_t n, Moments* out) noexcept nogil:
    out.count, out.mean = <double>n, x[0] + line_away(x, x[0], n) / <double>n
    out.rest = line_squares(x, <real>out.mean, n)
    out.rest -= (out.mean - <double><real>out.mean) * (out.mean - <double><real>out.mean) * <double>n
    if out.rest < 0:            # rounded
        out.rest = 0
    if not (isfinite(out.mean) and isfinite(out.rest)):
        welford(x, n, 1, out)


cdef void column_piece(const real* x, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns, Moments* out) noexcept nogil:
    """n elements of each of `columns` neighbouring columns."""
    cdef double total[COLUMNS]
    cdef double mean[COLUMNS]
    cdef Py_ssize_t i, j
    for j in range(columns):
        total[j] = 0
    for i in range(n):
        for j in range(columns):
            total[j] += x[i * stride + j]
    for j in range(columns):
        mean[j] = total[j] / <double>n
        total[j] = 0
    for i in range(n):
        for j in range(columns):
            total[j] += (x[i * stride + j] - mean[j]) * (x[i * stride + j] - mean[j])
    for j in range(columns):
        out[j].count, out[j].mean, out[j].rest = <double>n, mean[j], total[j]
        if not (isfinite(mean[j]) and isfinite(total[j])):
            welford(x + j, n, stride, out + j)


cdef void pieces(Lines* p, const real* x, Py_ssize_t first, Py_ssize_t last, Moments* out) noexcept nogil:
    """Pieces first .. last. OUT: out[piece, line]."""
    cdef Py_ssize_t task, piece, block, line, start, stop, columns
    for task in range(first, last):
        piece, block = task % p.pieces, task // p.pieces
        start, stop = p.length * piece // p.pieces, p.length * (piece + 1) // p.pieces
        line = block // p.blocks * p.inner + block % p.blocks * COLUMNS
        if p.inner == 1:
            row_piece(x + block * p.length + start, stop - start, out + piece * p.outer + block)
            continue
        columns = min(COLUMNS, p.inner - block % p.blocks * COLUMNS)
        column_piece(x + (block // p.blocks * p.length + start) * p.inner + block % p.blocks * COLUMNS, stop - start, p.inner, columns,
                     out + piece * p.outer * p.inner + line)


cdef void moments(Lines* p, const real* x, Moments* found, double correction, real* out, real* mean) noexcept nogil:
    cdef Py_ssize_t tasks = p.outer * p.blocks * p.pieces, lines = p.outer * p.inner, i, piece
    cdef int threads = threads_for(p.outer * p.length * p.inner * 2), t
    cdef double divisor = <double>p.length - correction
    for t in prange(threads, num_threads=threads, schedule="static"):
        pieces(p, x, tasks * t // threads, tasks * (t + 1) // threads, found)
    for i in range(lines):
        for piece in range(1, p.pieces):
            merge(found + i, found + piece * lines + i)
        mean[i] = <real>found[i].mean if isfinite(found[i].mean) else NAN      # infinite elements leave either, by their order
        out[i] = <real>(found[i].rest / divisor if divisor > 0 else found[i].rest * INFINITY)


def var(TensorBase x not None, tuple dim not None, bint keepdim, double correction):
    """(variance, mean) over neighbouring dimensions; the divisor is the count less the correction."""
    cdef Lines p
    cdef int code = float_code("var", x)
    cdef Py_ssize_t i, first = dim[0], last = dim[len(dim) - 1]
    cdef list shape = []
    p.outer = p.length = p.inner = 1
    for i in range(len(x.shape)):
        if i < first:
            p.outer *= <Py_ssize_t>x.shape[i]
        elif i <= last:
            p.length *= <Py_ssize_t>x.shape[i]
        else:
            p.inner *= <Py_ssize_t>x.shape[i]
        if keepdim or i < first or i > last:
            shape.append(1 if first <= i <= last else x.shape[i])
    p.blocks = (p.inner + COLUMNS - 1) // COLUMNS
    p.pieces = (p.length + PIECE - 1) // PIECE
    if p.inner > 1:
        p.pieces = max(<Py_ssize_t>1, min(PIECES // (p.outer * p.blocks), p.length * p.inner // PIECE))
    x = packed(x)
    cdef TensorBase out = empty_host(tuple(shape), x.dtype), mean = empty_host(out.shape, x.dtype)
    cdef Moments* found = <Moments*>malloc(p.pieces * p.outer * p.inner * sizeof(Moments))
    if found == NULL:
        raise MemoryError(f"var: no memory for {p.pieces * p.outer * p.inner} partial results")
    cdef void* source = address(x)
    cdef void* target = address(out)
    cdef void* means = address(mean)
    with nogil:
        if code == FLOAT32:
            moments(&p, <const float*>source, found, correction, <float*>target, <float*>means)
        else:
            moments(&p, <const double*>source, found, correction, <double*>target, <double*>means)
    free(found)
    return out, mean


cdef void norm_pieces(const real* x, Py_ssize_t length, Py_ssize_t pieces, Py_ssize_t first, Py_ssize_t last, double* sums) noexcept nogil:
    """Sums of squares of the pieces first .. last of all lines."""
    cdef Py_ssize_t task, start
    for task in range(first, last):
        start = length * (task % pieces) // pieces
        sums[task] = line_squares(x + task // pieces * length + start, <real>0, length * (task % pieces + 1) // pieces - start)


cdef void stored_pieces(const uint16_t* x, bint brain, Py_ssize_t length, Py_ssize_t pieces, Py_ssize_t first, Py_ssize_t last,
                        double* sums) noexcept nogil:
    """The same of what is stored in 16 bits: bfloat16 if `brain`, else float16; in the order that float32 has them summed in."""
    cdef float wide[STAGE]
    cdef Py_ssize_t task, at, stop, n
    for task in range(first, last):
        at, stop = length * (task % pieces) // pieces, length * (task % pieces + 1) // pieces
        sums[task] = 0
        while at < stop:
            n = min(stop - at, <Py_ssize_t>STAGE)
            if brain:
                brain_to_float(wide, x + task // pieces * length + at, n)
            else:
                half_to_float(wide, x + task // pieces * length + at, n)
            sums[task] += line_squares(<const float*>wide, <float>0, n)
            at += n


cdef void norm_stored(const uint16_t* x, bint brain, Py_ssize_t lines, Py_ssize_t length, Py_ssize_t pieces, double* sums,
                      uint16_t* out) noexcept nogil:
    cdef int threads = threads_for(lines * length), t
    cdef Py_ssize_t tasks = lines * pieces, i, k
    cdef double total
    if threads == 1:
        stored_pieces(x, brain, length, pieces, 0, tasks, sums)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            stored_pieces(x, brain, length, pieces, tasks * t // threads, tasks * (t + 1) // threads, sums)
    for i in range(lines):
        total = 0
        for k in range(pieces):
            total += sums[i * pieces + k]
        out[i] = volta_to_brain(<float>sqrt(total)) if brain else volta_to_half(<float>sqrt(total))


cdef Py_ssize_t norm_each(const real* x, Py_ssize_t lines, Py_ssize_t length, real* out) noexcept nogil:
    """How many it has done: of float32 by columns."""
    cdef Py_ssize_t i, k
    cdef real total
    if real is float:
        return short_norms(out, x, lines, length)
    else:
        for i in range(lines):
            total = 0
            for k in range(length):
                total += x[k] * x[k]
            out[i] = total
            x += length
        for i in range(lines):
            out[i] = sqrt(out[i])
        return lines


cdef bint norm_short(const real* x, Py_ssize_t lines, Py_ssize_t length, real* out) noexcept nogil:
    """Whether it has done them."""
    cdef int threads = threads_for(lines * length), t
    cdef Py_ssize_t done = 0
    if length == 1:             # the size of one number, whose square may be beyond all numbers
        for done in range(lines):
            out[done] = <real>fabs(x[done])
        return True
    if real is float:
        if length > SHORT:
            return False
    elif length > SHORT_WIDE:
        return False
    if threads == 1:
        return norm_each(x, lines, length, out) > 0
    for t in prange(threads, num_threads=threads, schedule="static"):
        done += norm_each(x + lines * t // threads * length, lines * (t + 1) // threads - lines * t // threads, length,
                          out + lines * t // threads)
    return done > 0


cdef void norm_lines(const real* x, Py_ssize_t lines, Py_ssize_t length, Py_ssize_t pieces, double* sums, real* out) noexcept nogil:
    cdef int threads = threads_for(lines * length), t
    cdef Py_ssize_t tasks = lines * pieces, i, k
    cdef double total
    if threads == 1:                                # a region of one thread takes half a microsecond too
        norm_pieces(x, length, pieces, 0, tasks, sums)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            norm_pieces(x, length, pieces, tasks * t // threads, tasks * (t + 1) // threads, sums)
    for i in range(lines):
        total = 0
        for k in range(pieces):
            total += sums[i * pieces + k]
        out[i] = <real>sqrt(total)


def norm2(TensorBase x not None, tuple dim not None, bint keepdim):
    """The square root of the sum of squares."""
    cdef Py_ssize_t rank = len(x.shape), kept = rank - len(dim), length = 1, lines = 1, i, pieces
    cdef Storage memory
    cdef TensorBase out, wide
    cdef bint whole = x.contiguous and dim == tuple(range(kept, rank)) and x.dtype.category == 2
    for i in range(rank):
        if i < kept:
            lines *= <Py_ssize_t>x.shape[i]
        else:
            length *= <Py_ssize_t>x.shape[i]
    if is_half(x.dtype.code):
        if whole and lines and length > SHORT:
            out = empty_host(x.shape[:kept] + ((1,) * (rank - kept) if keepdim else ()), x.dtype)
            pieces = (length + PIECE - 1) // PIECE
            memory = host_storage(lines * pieces * sizeof(double))
            norm_stored(<const uint16_t*>address(x), x.dtype.code == BFLOAT16, lines, length, pieces, <double*>memory.data,
                        <uint16_t*>address(out))
            return out
        wide = empty_host(x.shape, dtype_of(FLOAT32))
        copy_data(wide, x)
        wide = norm2(wide, dim, keepdim)
        out = empty_host(wide.shape, x.dtype)
        copy_data(out, wide)
        return out
    if whole and x.dtype.itemsize >= 4 and lines and length:
        out = empty_host(x.shape[:kept] + ((1,) * (rank - kept) if keepdim else ()), x.dtype)
        if x.dtype.code == FLOAT32 and norm_short(<const float*>address(x), lines, length, <float*>address(out)):
            return out
        if x.dtype.code == FLOAT64 and norm_short(<const double*>address(x), lines, length, <double*>address(out)):
            return out
        pieces = (length + PIECE - 1) // PIECE
        memory = host_storage(lines * pieces * sizeof(double))
        if x.dtype.code == FLOAT32:
            norm_lines(<const float*>address(x), lines, length, pieces, <double*>memory.data, <float*>address(out))
        else:
            norm_lines(<const double*>address(x), lines, length, pieces, <double*>memory.data, <double*>address(out))
        return out
    return elementwise["sqrt"](sum(elementwise["mul"](x, x), dim, keepdim))


KERNELS = {"var": var, "norm2": norm2}

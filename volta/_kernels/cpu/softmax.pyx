# Softmax, log-softmax and logsumexp along one dimension, and gradients.
#
# Layout: x seen as [outer, length, inner], made contiguous. inner == 1: a line is a row; else lines are columns, and
#   blocks of neighbouring columns are worked together so that loops run along memory.
# float16 and bfloat16 are computed in float32, lines of a task by lines of a task, in a thread's own room (but for logsumexp).
# Threads: over rows, or over blocks of columns; of logsumexp also over parts of a line. Sizes: the front end. A line of -inf gives NaN, as
#   0 / 0 does; its logsumexp is -inf.

from cython.parallel cimport prange
from libc.stdint cimport uint16_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, empty_host
from volta._kernels.core.threads cimport PARALLEL_SIZE, threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.fetch cimport fetch      # part of a row each: what comes next lies far away
from volta._kernels.cpu.half_softmax cimport HALF_SOFTMAX, half_softmax_grad
from volta._kernels.cpu.iteration cimport BRAIN, WHOLE, narrow_line, staged, stored_as
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.short_lines cimport SHORT, short_softmax, short_softmax_grad
from volta._kernels.cpu.sums cimport (
    line_away_twice, line_dot, line_exp, line_exp_each, line_exp_sum, line_max, line_sum, line_times, log_of)
from volta._kernels.core.views cimport float_code, pointer, same_type, split_at

cdef enum:
    ROWS = 16                   # most rows of a task, but for those of SHORT elements, of which tasks take multiples,
    ROW_WORK = 4096             # and elements of them, unless it is one
    PART = 16384                # elements of a part of a long line; of columns 1 / ROWS as many
    COLUMNS = 128               # most columns worked together,
    FEWEST = 32                 # and fewest, where there is work for threads
    BLOCKS = 64                 # blocks of columns or rows that there should be then
    HALVES = 16384              # most elements of columns in 16 bits that are widened together, unless they are FEWEST,
    HALF_ROWS = 2048            # and of rows, of which the nearest cache then holds all
    LONG = 256                  # fewest elements of a row in 16 bits whose gradient stays in registers
    EXP_COST = 4                # one exp against one element of a cheap loop
    ROW_COST = 16               # a row's sums and largest element, in exps


cdef enum Kind:
    SOFTMAX, LOG_SOFTMAX, LOGSUMEXP


cdef inline real finite(real v) noexcept nogil:
    """v, or the number next to an infinity: x - v is 0 or infinite then, and no NaN."""
    cdef real most = <real>(3.4028234663852886e38 if real is float else 1.7976931348623157e308)
    return most if v > most else -most if v < -most else v


# ---------------------------------------------------------------- rows

cdef void softmax_rows(const real* x, real* out, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n, Kind kind) noexcept nogil:
    """Up to ROWS of them, `step` apart, so that their logarithms are computed side by side. OUT: rows, or of LOGSUMEXP numbers."""
    cdef Py_ssize_t r
    cdef real top[ROWS]
    cdef real total[ROWS]
    if real is float:
        if n <= SHORT and step == n and short_softmax(out, x, rows, n, kind):
            return
    for r in range(rows):
        top[r] = line_max(x + r * step, n)
        if kind == LOGSUMEXP:
            total[r], top[r] = top[r], finite(top[r])
            if total[r] > top[r]:               # infinite, as its logarithm is
                continue
        total[r] = <real>line_exp_sum(out + r * step if kind == SOFTMAX else NULL, x + r * step, top[r], n)
    for r in range(rows):
        total[r] = 1 / total[r] if kind == SOFTMAX else log_of[real](total[r])
    for r in range(rows):
        if kind == LOGSUMEXP:
            out[r] = total[r] + top[r]
        elif kind == LOG_SOFTMAX:
            line_away_twice(out + r * step, x + r * step, top[r], total[r], n)
        else:
            line_times(out + r * step, total[r], n)


cdef void softmax_grad_row(const real* g, const real* y, real* out, Py_ssize_t n, bint logarithm) noexcept nogil:
    cdef Py_ssize_t i
    cdef real total
    if logarithm:
        total = <real>line_sum(g, n)
        line_exp(out, y, <real>0, n)
        for i in range(n):
            out[i] = g[i] - out[i] * total
        return
    total = <real>line_dot(g, y, <real>0, n)
    for i in range(n):
        out[i] = y[i] * (g[i] - total)


# ---------------------------------------------------------------- columns

cdef void softmax_columns(const real* x, real* out, Py_ssize_t length, Py_ssize_t stride, Py_ssize_t n, Kind kind) noexcept nogil:
    """n neighbouring columns. IN: stride from one element of a column to the next. OUT: columns, or of LOGSUMEXP numbers."""
    cdef real top[COLUMNS]
    cdef real total[COLUMNS]
    cdef real line[COLUMNS]
    cdef real* to = &line[0]
    cdef Py_ssize_t i, j, at
    memset(top, 0, sizeof(top))                 # behind the last column, too: what lies there may be slow to compute with
    for j in range(n):
        top[j] = x[j]
        total[j] = 0
    for i in range(1, length):
        at = i * stride
        for j in range(n):
            top[j] = x[at + j] if x[at + j] > top[j] else top[j]
    for j in range(n if kind == LOGSUMEXP else 0):
        top[j] = finite(top[j])
    for i in range(length):
        at = i * stride
        if kind == SOFTMAX:
            to = out + at
        fetch(x + at + stride, n)
        line_exp_each(to, x + at, <const real*>top, n)
        for j in range(n):
            total[j] += to[j]
    for j in range(n):
        total[j] = 1 / total[j] if kind == SOFTMAX else log_of[real](total[j])
    for i in range(0 if kind == LOGSUMEXP else length):
        at = i * stride
        if kind == LOG_SOFTMAX:
            for j in range(n):
                out[at + j] = x[at + j] - top[j] - total[j]
        else:
            for j in range(n):
                out[at + j] *= total[j]
    for j in range(n if kind == LOGSUMEXP else 0):
        out[j] = top[j] + total[j]


cdef void softmax_grad_columns(const real* g, const real* y, real* out, Py_ssize_t length, Py_ssize_t stride,
                               Py_ssize_t n, bint logarithm) noexcept nogil:
    cdef real total[COLUMNS]
    cdef Py_ssize_t i, j, at
    for j in range(n):
        total[j] = 0
    for i in range(length):
        at = i * stride
        for j in range(n):
            total[j] += g[at + j] if logarithm else g[at + j] * y[at + j]
    for i in range(length):
        at = i * stride
        if logarithm:
            fetch(y + at + stride, n)
            fetch(g + at + stride, n)
            line_exp(out + at, y + at, <real>0, n)
            for j in range(n):
                out[at + j] = g[at + j] - out[at + j] * total[j]
        else:
            for j in range(n):
                out[at + j] = y[at + j] * (g[at + j] - total[j])


# ---------------------------------------------------------------- both

cdef struct Lines:
    Py_ssize_t outer, length, inner
    Py_ssize_t width                            # lines of a task: rows where inner is 1, else columns
    Py_ssize_t parts, part                      # of a line, tasks of their own (LOGSUMEXP), and the length of one
    Kind kind
    int half                                    # how elements lie in memory (iteration.pxd)


cdef void task(const Lines* p, const real* g, const real* x, real* out, Py_ssize_t index) noexcept nogil:
    """IN: g is NULL in the forward kernels; else x is their output. OUT: of LOGSUMEXP [outer, parts, inner], else as x."""
    cdef Py_ssize_t part = index % p.parts, block = index // p.parts, lines = p.outer if p.inner == 1 else p.inner, r
    cdef Py_ssize_t blocks = (lines + p.width - 1) // p.width, first = block % blocks * p.width, n = min(p.width, lines - first)
    cdef Py_ssize_t line = first if p.inner == 1 else block // blocks, column = 0 if p.inner == 1 else first
    cdef Py_ssize_t length = min(p.part, p.length - part * p.part), at = (line * p.length + part * p.part) * p.inner + column
    x += at
    out += (line * p.parts + part) * p.inner + column if p.kind == LOGSUMEXP else at
    if p.inner == 1 and g == NULL:
        r = 0
        while r < n:
            softmax_rows(x + r * p.length, out + r * (1 if p.kind == LOGSUMEXP else p.length), min(n - r, <Py_ssize_t>ROWS), p.length,
                         length, p.kind)
            r += ROWS
    elif p.inner == 1:
        if real is float:
            if length <= SHORT // 2 and short_softmax_grad(out, g + at, x, n, length, p.kind == LOG_SOFTMAX):
                return
        for r in range(n):
            softmax_grad_row(g + at + r * length, x + r * length, out + r * length, length, p.kind == LOG_SOFTMAX)
    elif g == NULL:
        softmax_columns(x, out, length, p.inner, n, p.kind)
    else:
        softmax_grad_columns(g + at, x, out, length, p.inner, n, p.kind == LOG_SOFTMAX)


cdef Py_ssize_t plan(Lines* p, int* threads) noexcept nogil:
    """The number of tasks. OUT: the width of one; threads for them."""
    cdef Py_ssize_t work = p.outer * p.inner * (p.length + (ROW_COST if p.inner == 1 else 0)) * EXP_COST
    cdef Py_ssize_t fewest = FEWEST if p.inner > 1 else ROWS if p.length <= SHORT else 1
    threads[0] = threads_for(work)
    p.width = COLUMNS if p.inner > 1 else max(1, min(ROWS, ROW_WORK // p.length))
    if p.inner == 1 and p.length <= SHORT:
        p.width = ROW_WORK // p.length // ROWS * ROWS
    while p.width > fewest and work >= PARALLEL_SIZE and p.outer * p.inner < BLOCKS * p.width:
        p.width //= 2
    while p.half != WHOLE and p.width > fewest and p.width * p.length > (HALVES if p.inner > 1 else HALF_ROWS):
        p.width //= 2
    return p.parts * ((p.outer + p.width - 1) // p.width if p.inner == 1 else p.outer * ((p.inner + p.width - 1) // p.width))


cdef void run(Lines* p, const real* g, const real* x, real* out) noexcept nogil:
    cdef int threads
    cdef Py_ssize_t index, tasks = plan(p, &threads)
    if threads == 1:            # OpenMP takes half a microsecond for a region of one
        for index in range(tasks):
            task(p, g, x, out, index)
        return
    for index in prange(tasks, num_threads=threads, schedule="static"):
        task(p, g, x, out, index)


cdef void half_task(const Lines* p, const uint16_t* g, const uint16_t* x, uint16_t* out, Py_ssize_t index, float* room) noexcept nogil:
    """A task of 16 bits, through `room` for its elements of out, x and g."""
    cdef Py_ssize_t lines = p.outer if p.inner == 1 else p.inner, blocks = (lines + p.width - 1) // p.width
    cdef Py_ssize_t first = index % blocks * p.width, n = min(p.width, lines - first), size = n * p.length
    cdef Py_ssize_t count = 1 if p.inner == 1 else p.length, some = size // count
    cdef Py_ssize_t at = first * p.length if p.inner == 1 else index // blocks * p.length * p.inner + first, i
    cdef Lines q = p[0]
    if HALF_SOFTMAX and g != NULL and p.inner == 1 and p.kind == SOFTMAX and p.length >= LONG:
        for i in range(n):
            half_softmax_grad(p.half == BRAIN, out + at + i * p.length, g + at + i * p.length, x + at + i * p.length, p.length)
        return
    q.outer, q.inner, q.width = n if p.inner == 1 else 1, 1 if p.inner == 1 else n, n
    for i in range(count):
        staged(<char*>(x + at + i * p.inner), 2, some, 2, p.half, <char*>(room + size + i * some))
        if g != NULL:
            staged(<char*>(g + at + i * p.inner), 2, some, 2, p.half, <char*>(room + 2 * size + i * some))
    if p.inner == 1:
        fetch(x + at + size, size)
        fetch(g + at + size if g != NULL else g, size if g != NULL else 0)
        fetch(out + at + size, size)
    task(&q, <const float*>(room + 2 * size if g != NULL else NULL), <const float*>(room + size), room, 0)
    for i in range(count):
        narrow_line(out + at + i * p.inner, room + i * some, some, p.half)


cdef int run_halves(str name, Lines* p, const uint16_t* g, const uint16_t* x, uint16_t* out) except -1:
    cdef int threads, t
    cdef Py_ssize_t index, tasks = plan(p, &threads), each = 3 * p.width * p.length + 32
    threads = <int>min(<Py_ssize_t>threads, tasks)
    cdef float* room = <float*>malloc(threads * each * sizeof(float))
    if room == NULL:
        raise MemoryError(f"{name}: no memory for {p.width} lines in float32")
    with nogil:
        for t in prange(threads, num_threads=threads, schedule="static"):
            for index in range(tasks * t // threads, tasks * (t + 1) // threads):
                half_task(p, g, x, out, index, room + t * each)
    free(room)
    return 0


cdef TensorBase dispatch(str name, TensorBase g, TensorBase x, Py_ssize_t dim, Kind kind):
    cdef Lines p
    p.half = WHOLE if kind == LOGSUMEXP else stored_as(x.dtype.code)
    cdef int code = float_code(name, x, g) if p.half == WHOLE else x.dtype.code
    same_type(name, x, g)
    x, g = packed(x), packed(g)
    split_at(x.shape, dim, &p.outer, &p.length, &p.inner)
    p.kind, p.parts, p.part = kind, 1, p.length
    if kind == LOGSUMEXP:
        p.part = PART if p.inner == 1 else PART // ROWS
        p.parts = max(<Py_ssize_t>1, (p.length + p.part - 1) // p.part)
    cdef tuple shape = x.shape
    if kind == LOGSUMEXP:
        shape = shape[:dim] + ((p.parts,) if p.parts > 1 else ()) + shape[dim + 1:]
    cdef TensorBase out = empty_host(shape, x.dtype)
    cdef void* gradient = pointer(g)
    cdef void* source = address(x)
    cdef void* target = address(out)
    if x.size and p.half != WHOLE:
        run_halves(name, &p, <const uint16_t*>gradient, <const uint16_t*>source, <uint16_t*>target)
    elif x.size:
        with nogil:
            if code == FLOAT32:
                run(&p, <const float*>gradient, <const float*>source, <float*>target)
            else:
                run(&p, <const double*>gradient, <const double*>source, <double*>target)
    return out if p.parts == 1 else dispatch(name, None, out, dim, kind)


def softmax(TensorBase x not None, Py_ssize_t dim):
    """exp(x) / sum(exp(x)) along dim."""
    return dispatch("softmax", None, x, dim, SOFTMAX)


def log_softmax(TensorBase x not None, Py_ssize_t dim):
    """x - log(sum(exp(x))) along dim."""
    return dispatch("log_softmax", None, x, dim, LOG_SOFTMAX)


def logsumexp(TensorBase x not None, Py_ssize_t dim):
    """log(sum(exp(x))) along dim, which goes."""
    return dispatch("logsumexp", None, x, dim, LOGSUMEXP)


def softmax_grad(TensorBase g not None, TensorBase out not None, Py_ssize_t dim):
    """Gradient of softmax from its output: out * (g - sum(g * out))."""
    return dispatch("softmax_grad", g, out, dim, SOFTMAX)


def log_softmax_grad(TensorBase g not None, TensorBase out not None, Py_ssize_t dim):
    """Gradient of log_softmax from its output: g - exp(out) * sum(g)."""
    return dispatch("log_softmax_grad", g, out, dim, LOG_SOFTMAX)


KERNELS = {"softmax": softmax, "log_softmax": log_softmax, "logsumexp": logsumexp, "softmax_grad": softmax_grad,
           "log_softmax_grad": log_softmax_grad}

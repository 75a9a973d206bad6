# How a reduction walks what it reduces: elements under one output, or under neighbouring ones, are folded into their accumulators.
#
# Layout: see reduce.pyx.in. Threads: none. Sizes: the caller's.
from libc.stdint cimport uint16_t
from volta._kernels.cpu.folds cimport BLOCK, Fold
from volta._kernels.cpu.half_sums cimport half_block, half_columns
from volta._kernels.cpu.iteration cimport BRAIN, Cursor, Geometry, advance, move_elements, seek, staged

cdef enum:
    NARROW = 16                                 # elements of a row up to which several are folded as one
    JOINED = 128                                # of so many elements,
    NARROW_ROWS = 15                            # if there are so many of these
    COLUMNS = 256                               # elements that are gathered at a time


cdef struct Plan:
    Fold fold
    Geometry kept                               # operand 0: input; operand 1: output (bytes of its dtype)
    Geometry reduced                            # operand 0: input, from address 0
    Py_ssize_t itemsize                         # of the input in memory
    Py_ssize_t acc_size
    int half                                    # how the input lies in memory (iteration.pxd)
    bint half_sum                               # whether half_sums.pxd adds it
    bint apart                                  # whether the fold takes short rows one by one
    bint line                                   # the innermost dimension is kept
    Py_ssize_t group                            # outputs of a task
    Py_ssize_t groups                           # tasks along each row of outputs (line) or in all
    Py_ssize_t pieces                           # parts of the reduction
    Py_ssize_t piece                            # reduced elements in a part
    char* partial                               # [pieces][outputs] accumulators; NULL where there is one piece
    int code                                    # of the output
    double scale


cdef inline void fold_rows(const Plan* p, char* x, char* acc, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Fold the reduced elements [start, stop) under one output, whose first element is at x, into acc[0]."""
    cdef char buffer[BLOCK * 8]
    cdef Cursor c
    cdef int last = p.reduced.rank - 1
    cdef Py_ssize_t step = p.reduced.step[0][last], length
    if start >= stop:
        return
    seek(&p.reduced, &c, start)
    while start < stop:
        length = min(p.reduced.shape[last] - c.position[last], stop - start, <Py_ssize_t>BLOCK)
        if p.half_sum and length == BLOCK and step == 2:
            (<double*>acc)[0] += half_block(p.half == BRAIN, <uint16_t*>(x + <Py_ssize_t>c.at[0]))
        else:
            p.fold.row(acc, staged(x + <Py_ssize_t>c.at[0], step, length, p.itemsize, p.half, buffer), length)
        start += length
        advance(&p.reduced, &c, length)


cdef inline void fold_narrow(const Plan* p, char* acc, char* x, Py_ssize_t apart, Py_ssize_t rows, Py_ssize_t n,
                             Py_ssize_t itemsize) noexcept nogil:
    """Fold rows of n elements, `apart` bytes from each other, into acc[:n]: many narrow ones that follow one another as fewer wide ones."""
    cdef char wide[JOINED * 8]
    cdef Py_ssize_t times = 1, whole
    if n > NARROW or apart != n * itemsize or rows * n < NARROW_ROWS * JOINED:
        p.fold.lines(acc, x, apart, rows, n)
        return
    while 2 * times * n <= JOINED:
        times *= 2
    whole = rows // times
    p.fold.start(wide, times * n)
    p.fold.lines(wide, x, times * apart, whole, times * n)
    p.fold.lines(acc, x + whole * times * apart, apart, rows - whole * times, n)
    while times > 1:
        times //= 2
        p.fold.merge(wide, wide + times * n * p.acc_size, times * n)
    p.fold.merge(acc, wide, n)


cdef inline void fold_columns(const Plan* p, char* x, char* acc, Py_ssize_t apart, Py_ssize_t n, Py_ssize_t length) noexcept nogil:
    """Fold rows of few contiguous elements, `apart` bytes from each other, into acc[:n]: the first of all, then the second ones..."""
    cdef char buffer[COLUMNS * 8]
    cdef Py_ssize_t i = 0, k, some
    while i < n:
        some = min(<Py_ssize_t>COLUMNS, n - i)
        for k in range(length):
            move_elements(buffer, p.itemsize, x + i * apart + k * p.itemsize, apart, some, p.itemsize)
            p.fold.line(acc + i * p.acc_size, buffer, some)
        i += some


cdef inline void fold_lines(const Plan* p, char* x, char* acc, Py_ssize_t n, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Fold the reduced elements [start, stop) under n neighbouring outputs into acc[:n]."""
    cdef char buffer[BLOCK * 8]
    cdef Cursor c
    cdef int last = p.reduced.rank - 1
    cdef Py_ssize_t step = p.kept.step[0][p.kept.rank - 1], apart = p.reduced.step[0][last], rows, i, k, some, done, rest
    if start >= stop:
        return
    seek(&p.reduced, &c, start)
    while start < stop:
        rows = min(p.reduced.shape[last] - c.position[last], stop - start)
        if step == p.itemsize and not p.half:
            fold_narrow(p, acc, x + <Py_ssize_t>c.at[0], apart, rows, n, p.itemsize)
        elif p.half and n > 0:                  # as many as the block holds in float32, and one in 16 bits behind its place
            i = done = 0
            if p.half_sum and step == 2:
                done = half_columns(p.half == BRAIN, <double*>acc, x + <Py_ssize_t>c.at[0], apart, rows, n)
            rest = n - done
            while i < rows and rest > 0:
                some = min(rows - i, (BLOCK * 4 - rest) // (2 * rest))
                if step == 2 and apart == 2 * rest:
                    staged(x + <Py_ssize_t>c.at[0] + done * step + i * apart, step, some * rest, p.itemsize, p.half, buffer)
                for k in range(0 if step == 2 and apart == 2 * rest else some):
                    staged(x + <Py_ssize_t>c.at[0] + done * step + (i + k) * apart, step, rest, p.itemsize, p.half,
                           buffer + k * rest * sizeof(float))
                fold_narrow(p, acc + done * p.acc_size, buffer, rest * sizeof(float), some, rest, sizeof(float))
                i += some
        else:
            for i in range(rows):
                p.fold.line(acc, staged(x + <Py_ssize_t>c.at[0] + i * apart, step, n, p.itemsize, p.half, buffer), n)
        start += rows
        advance(&p.reduced, &c, rows)


cdef inline void fold_short(const Plan* p, char* x, char* acc, Py_ssize_t apart, Py_ssize_t n, Py_ssize_t start,
                            Py_ssize_t stop) noexcept nogil:
    """Fold the reduced elements [start, stop), rows of few, under n outputs `apart` bytes from each other into acc[:n]: the rows of all of
    them together."""
    cdef Cursor c
    cdef int last = p.reduced.rank - 1
    cdef Py_ssize_t length
    if start >= stop:
        return
    seek(&p.reduced, &c, start)
    while start < stop:
        length = min(p.reduced.shape[last] - c.position[last], stop - start)
        p.fold.rows(acc, x + <Py_ssize_t>c.at[0], apart, n, length)
        start += length
        advance(&p.reduced, &c, length)


cdef inline void fold_half_rows(const Plan* p, char* x, char* acc, Py_ssize_t apart, Py_ssize_t n, Py_ssize_t length) noexcept nogil:
    """Fold rows of at most BLOCK contiguous elements of 16 bits under n outputs, `apart` bytes from each other, into acc[:n]: several rows
    are widened together."""
    cdef char buffer[BLOCK * 8]
    cdef Py_ssize_t i = 0, k, some
    while i < n and length > 0:
        some = min(n - i, BLOCK // length)
        if apart == 2 * length:
            staged(x + i * apart, 2, some * length, p.itemsize, p.half, buffer)
        else:
            for k in range(some):
                staged(x + (i + k) * apart, 2, length, p.itemsize, p.half, buffer + k * length * sizeof(float))
        p.fold.rows(acc + i * p.acc_size, buffer, length * sizeof(float), some, length)
        i += some

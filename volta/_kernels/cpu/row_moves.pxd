# Copies of rows too short for a loop each: several rows or planes of a geometry of out and x at once.
#
# Layout: a collapsed Geometry of two operands of one element size. Threads: none. Sizes: the caller's.
from volta._kernels.cpu.iteration cimport Cursor, Geometry, advance_planes, advance_rows, move_elements
from volta._kernels.cpu.short_rows cimport copy_planes, copy_rows, repeat_rows

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #if defined(_MSC_VER)
    #define VOLTA_ALONE __restrict
    #else
    #define VOLTA_ALONE __restrict__
    #endif
    #define VOLTA_REVERSE(T)                                                                                                      \
        for (; rows > 0; rows--, to += to_step, x += x_step) {                                                                    \
            T *VOLTA_ALONE a = (T *)to;                                                                                           \
            const T *VOLTA_ALONE b = (const T *)x;                                                                                \
            for (i = 0; i < n; i++) a[i] = b[-i];                                                                                 \
        }
    /* Rows of n elements of 4 or 8 bytes, of which x points at the last, from their ends on. */
    static void volta_reverse_rows(char *to, ptrdiff_t to_step, const char *x, ptrdiff_t x_step, ptrdiff_t rows, ptrdiff_t n,
                                   ptrdiff_t size) {
        ptrdiff_t i;
        if (size == 4) VOLTA_REVERSE(uint32_t) else VOLTA_REVERSE(uint64_t)
    }
    """
    void reverse_rows "volta_reverse_rows"(char* to, Py_ssize_t to_step, const char* x, Py_ssize_t x_step, Py_ssize_t rows, Py_ssize_t n,
                                           Py_ssize_t size) noexcept nogil

cdef enum:
    BLOCK = 512                                 # rows that are copied column by column at once
    NARROW = 12                                 # elements of a row up to which they are
    SHORT = 1024                                # bytes of a row up to which many are copied at once
    BUFFER = 4096                               # bytes of rows that repeat an element, laid out before they are moved

cdef enum RowKind:
    ANY, PLAIN, REPEATED, COLUMNS


cdef inline RowKind row_kind(const Geometry* g, Py_ssize_t itemsize) noexcept nogil:
    cdef int last = g.rank - 1
    cdef Py_ssize_t n = g.shape[last]
    if last == 0:
        return ANY
    if n * itemsize <= SHORT and g.step[0][last] == itemsize:
        if g.step[1][last] == itemsize:
            return PLAIN
        if g.step[1][last] == 0:
            return REPEATED
    return COLUMNS if n <= NARROW else ANY


cdef inline Py_ssize_t move_planes(const Geometry* g, Cursor* c, Py_ssize_t itemsize, Py_ssize_t length) noexcept nogil:
    """Rows that are contiguous in both, up to `length` elements from the start of a row on; gives how many elements that were."""
    cdef int last = g.rank - 1
    cdef Py_ssize_t n = g.shape[last], all_rows = g.shape[last - 1], planes = 0
    cdef Py_ssize_t rows = min(length // n, all_rows - c.position[last - 1])
    if last > 1 and c.position[last - 1] == 0:
        planes = min(length // (n * all_rows), g.shape[last - 2] - c.position[last - 2])
    if planes < 2:
        if rows:
            copy_rows(c.at[0], g.step[0][last - 1], c.at[1], g.step[1][last - 1], rows, n * itemsize)
            advance_rows(g, c, rows)
        return rows * n
    copy_planes(c.at[0], g.step[0][last - 1], g.step[0][last - 2], c.at[1], g.step[1][last - 1], g.step[1][last - 2], planes, all_rows,
                n * itemsize)
    advance_planes(g, c, planes)
    return planes * all_rows * n


cdef inline Py_ssize_t move_repeated(const Geometry* g, Cursor* c, Py_ssize_t itemsize, Py_ssize_t length) noexcept nogil:
    """The same of rows of x that repeat one element each."""
    cdef char buffer[BUFFER]
    cdef int last = g.rank - 1
    cdef Py_ssize_t n = g.shape[last], rows = min(length // n, g.shape[last - 1] - c.position[last - 1]), first = 0, some
    if g.step[0][last - 1] == n * itemsize:
        repeat_rows(c.at[0], c.at[1], g.step[1][last - 1], rows, n, itemsize)
        first = rows
    while first < rows:
        some = min(BUFFER // (n * itemsize), rows - first)
        if first == 0 or g.step[1][last - 1] != 0:
            repeat_rows(buffer, c.at[1] + first * g.step[1][last - 1], g.step[1][last - 1], some, n, itemsize)
        copy_rows(c.at[0] + first * g.step[0][last - 1], g.step[0][last - 1], buffer, n * itemsize, some, n * itemsize)
        first += some
    if rows:
        advance_rows(g, c, rows)
    return rows * n


cdef inline Py_ssize_t move_columns(const Geometry* g, Cursor* c, Py_ssize_t itemsize, Py_ssize_t length) noexcept nogil:
    """The same of any rows that are shorter than there are of them, column by column."""
    cdef int last = g.rank - 1
    cdef Py_ssize_t n = g.shape[last], rows = min(length // n, g.shape[last - 1] - c.position[last - 1], <Py_ssize_t>BLOCK), i
    if rows <= n:
        return 0
    for i in range(n):
        move_elements(c.at[0] + i * g.step[0][last], g.step[0][last - 1], c.at[1] + i * g.step[1][last], g.step[1][last - 1], rows,
                      itemsize)
    advance_rows(g, c, rows)
    return rows * n


cdef inline Py_ssize_t move_rows(const Geometry* g, Cursor* c, RowKind kind, Py_ssize_t itemsize, Py_ssize_t length) noexcept nogil:
    """Whole rows from the cursor, at the start of one, up to `length` elements; gives how many elements that were, 0 where rows of this
    kind are better copied one by one."""
    if kind == PLAIN:
        return move_planes(g, c, itemsize, length)
    if kind == REPEATED:
        return move_repeated(g, c, itemsize, length)
    return move_columns(g, c, itemsize, length) if kind == COLUMNS else 0

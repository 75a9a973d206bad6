# What reductions use of the folds: loops that combine lines of elements, by operation and dtype.

cdef enum:
    BLOCK = 1024                                # elements of a row folded at a time, and accumulators in a line

# Fold n contiguous elements into one accumulator / a line of n accumulators (four rows at once in `lines`).
ctypedef void (*row_t)(char* acc, char* x, Py_ssize_t n) noexcept nogil
ctypedef void (*lines_t)(char* acc, char* x0, char* x1, char* x2, char* x3, Py_ssize_t n) noexcept nogil
ctypedef void (*start_t)(char* acc, Py_ssize_t n) noexcept nogil

cdef struct Fold:
    row_t row
    row_t line
    lines_t lines
    start_t start
    row_t merge                                 # a line of accumulators into another
    int acc                                     # dtype code of the accumulators

# The folds of an operation by dtype code: "sum", "prod", "amax", "amin", "any" or "all".
cdef Fold* folds_of(str name) except NULL

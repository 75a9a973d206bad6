# What reductions use of the folds: loops that combine lines of elements, by operation and dtype.

cdef enum:
    BLOCK = 1024                                # elements of a row folded at a time, and accumulators in a line

# Fold n contiguous elements into one accumulator / a line of n accumulators. `rows` into one accumulator each, `lines` into one line of
# them: rows whose starts are `step` bytes apart.
ctypedef void (*row_t)(char* acc, char* x, Py_ssize_t n) noexcept nogil
ctypedef void (*lines_t)(char* acc, char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
ctypedef void (*start_t)(char* acc, Py_ssize_t n) noexcept nogil

cdef struct Fold:
    row_t row
    lines_t rows
    row_t line
    lines_t lines
    start_t start
    row_t merge                                 # a line of accumulators into another
    int acc                                     # dtype code of the accumulators

# The folds of an operation by dtype code: "sum", "prod", "amax", "amin", "any" or "all".
cdef Fold* folds_of(str name) except NULL

# Walking several strided operands in step: broadcasting, collapsing of dimensions, rows for an inner loop.
#
# Operand 0 is the output. Steps are in bytes; a step of 0 repeats an element (broadcasting, Python numbers). A caller
# fills a Geometry (begin, add_tensor, add_number), orders and collapses it, and walks it with a Cursor, row by row; rows
# run along the last dimension. Who calls checks shapes; nothing here allocates.
from cython.parallel cimport prange
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from volta._kernels.core.base cimport BFLOAT16, FLOAT16, MAX_RANK, TensorBase, address
from volta._kernels.cpu.bits cimport WIDE_BYTES         # in the C below
from volta._kernels.cpu.scalar cimport brain_to_float, float_to_brain, float_to_half, half_to_float

cdef extern from *:
    """
    #ifdef VOLTA_BOUNDSCHECK
    #define VOLTA_CHECKED 1
    #else
    #define VOLTA_CHECKED 0
    #endif
    """
    const bint VOLTA_CHECKED

cdef extern from *:
    """
    #include <string.h>
    #if defined(__GNUC__) || defined(__clang__)
      /* Rows of a few hundred bytes: shorter than a call. The last piece overlaps the one before it. */
      static inline void volta_copy_row(char *to, const char *from, size_t n) {
          typedef char piece __attribute__((vector_size(VOLTA_WIDE), aligned(1), may_alias));
          size_t i;
          if (n < 64 || n > 2048) { memcpy(to, from, n); return; }
          for (i = 0; i + VOLTA_WIDE < n; i += VOLTA_WIDE) *(piece *)(to + i) = *(const piece *)(from + i);
          *(piece *)(to + n - VOLTA_WIDE) = *(const piece *)(from + n - VOLTA_WIDE);
      }
    #else
      #define volta_copy_row memcpy
    #endif
    """
    void copy_bytes "volta_copy_row"(char* to, const char* x, size_t n) noexcept nogil

cdef enum:
    OPERANDS = 5
    WHOLE = 0                                   # how elements lie in memory that loops take as float32: so,
    HALF = 1                                    # as float16,
    BRAIN = 2                                   # as bfloat16

cdef struct Geometry:
    int rank
    int count                                   # operands, the output included
    Py_ssize_t size                             # elements of the output
    Py_ssize_t shape[MAX_RANK]
    Py_ssize_t step[OPERANDS][MAX_RANK]
    char* base[OPERANDS]

cdef struct Cursor:
    Py_ssize_t position[MAX_RANK]
    char* at[OPERANDS]

# What works on the elements [start, stop) in the order of a geometry.
ctypedef void (*range_t)(const Geometry* g, const void* work, Py_ssize_t start, Py_ssize_t stop) noexcept nogil


cdef inline void byte_range(TensorBase t, char** low, char** high):
    """The addresses [low, high) that the elements of a host tensor lie in."""
    cdef Py_ssize_t i, reach, itemsize = t.dtype.itemsize
    low[0] = address(t)
    high[0] = low[0] + (itemsize if t.size else 0)
    if t.contiguous:
        high[0] = low[0] + t.size * itemsize
        return
    for i in range(len(t.shape)):
        reach = (<Py_ssize_t>t.shape[i] - 1) * <Py_ssize_t>t._strides[i] * itemsize
        if reach < 0:
            low[0] += reach
        else:
            high[0] += reach


cdef inline int check_extent(TensorBase t) except -1:
    """In checked builds: raise where a view reaches outside its storage."""
    cdef char* low
    cdef char* high
    byte_range(t, &low, &high)
    if t.size and (low < t.storage.data or high > t.storage.data + t.storage.nbytes):
        raise IndexError(f"view of shape {t.shape}, strides {t._strides}, offset {t.offset} leaves its storage of "
                         f"{t.storage.nbytes} bytes")
    return 0


cdef inline void begin(Geometry* g, tuple shape):
    """Start a geometry of this output shape with no operands."""
    cdef int i
    g.rank = <int>len(shape)
    g.count = 0
    g.size = 1
    for i in range(g.rank):
        g.shape[i] = <Py_ssize_t>shape[i]
        g.size *= g.shape[i]


cdef inline int add_tensor(Geometry* g, TensorBase t) except -1:
    """Next operand; its shape broadcasts to the geometry's."""
    cdef int rank = <int>len(t.shape), lead = g.rank - rank, i
    cdef Py_ssize_t itemsize = t.dtype.itemsize
    if VOLTA_CHECKED:
        check_extent(t)
    g.base[g.count] = address(t)
    for i in range(lead):
        g.step[g.count][i] = 0
    for i in range(rank):
        if <Py_ssize_t>t.shape[i] == 1:
            g.step[g.count][lead + i] = 0
        else:
            g.step[g.count][lead + i] = <Py_ssize_t>t._strides[i] * itemsize
    g.count += 1
    return 0


cdef inline void add_number(Geometry* g, char* value) noexcept nogil:
    """Next operand: one value, repeated."""
    cdef int i
    g.base[g.count] = value
    for i in range(g.rank):
        g.step[g.count][i] = 0
    g.count += 1


cdef inline Py_ssize_t _magnitude(Py_ssize_t step) noexcept nogil:
    return -step if step < 0 else step


cdef inline void _move_dim(Geometry* g, int source, int target) noexcept nogil:
    cdef int k
    g.shape[target] = g.shape[source]
    for k in range(g.count):
        g.step[k][target] = g.step[k][source]


cdef inline void collapse(Geometry* g, bint order) noexcept nogil:
    """Drop dimensions of size 1, sort them by the output's steps if `order`, and join those that are one walk."""
    cdef int i, j, k, rank = 0
    cdef Py_ssize_t length
    cdef Py_ssize_t steps[OPERANDS]
    cdef bint joined
    for i in range(g.rank):
        if g.shape[i] != 1:
            _move_dim(g, i, rank)
            rank += 1
    g.rank = rank
    for i in range(1, rank if order else 0):    # insertion sort, since most are sorted already
        length = g.shape[i]
        for k in range(g.count):
            steps[k] = g.step[k][i]
        j = i - 1
        while j >= 0 and _magnitude(g.step[0][j]) < _magnitude(steps[0]):
            _move_dim(g, j, j + 1)
            j -= 1
        g.shape[j + 1] = length
        for k in range(g.count):
            g.step[k][j + 1] = steps[k]
    j = 0
    for i in range(1, rank):
        joined = True
        for k in range(g.count):
            joined = joined and g.step[k][j] == g.step[k][i] * g.shape[i]
        if joined:
            length = g.shape[j]
            _move_dim(g, i, j)
            g.shape[j] *= length
        else:
            j += 1
            _move_dim(g, i, j)
    g.rank = j + 1 if rank else 0
    if g.rank == 0:                             # one element: a row of length 1
        g.rank = 1
        g.shape[0] = 1
        for k in range(g.count):
            g.step[k][0] = 0


cdef inline void seek(const Geometry* g, Cursor* c, Py_ssize_t index) noexcept nogil:
    """Put the cursor at a flat index."""
    cdef int i, k
    for k in range(g.count):
        c.at[k] = g.base[k]
    for i in range(g.rank - 1, -1, -1):
        c.position[i] = index % g.shape[i]
        index //= g.shape[i]
        for k in range(g.count):
            c.at[k] += c.position[i] * g.step[k][i]


cdef inline void advance(const Geometry* g, Cursor* c, Py_ssize_t length) noexcept nogil:
    """Move on by `length` elements, which do not pass the end of the row."""
    cdef int i = g.rank - 1, k
    c.position[i] += length
    for k in range(g.count):
        c.at[k] += length * g.step[k][i]
    while c.position[i] == g.shape[i] and i > 0:
        for k in range(g.count):
            c.at[k] += g.step[k][i - 1] - g.shape[i] * g.step[k][i]
        c.position[i] = 0
        i -= 1
        c.position[i] += 1


cdef inline void advance_rows(const Geometry* g, Cursor* c, Py_ssize_t rows) noexcept nogil:
    """From the start of a row on by rows that do not pass the end of the dimension before the last."""
    cdef int last = g.rank - 1, k
    for k in range(g.count):
        c.at[k] += (rows - 1) * g.step[k][last - 1]
    c.position[last - 1] += rows - 1
    advance(g, c, g.shape[last])


cdef inline void advance_planes(const Geometry* g, Cursor* c, Py_ssize_t planes) noexcept nogil:
    """From the start of a plane, all rows of the dimension before the last, on by planes that do not pass the end of the one before it."""
    cdef int last = g.rank - 1, k
    for k in range(g.count):
        c.at[k] += (planes - 1) * g.step[k][last - 2]
    c.position[last - 2] += planes - 1
    advance_rows(g, c, g.shape[last - 1])


cdef inline void run_ranges(range_t run, const Geometry* g, const void* work, int threads, Py_ssize_t unit) noexcept nogil:
    """All elements, split among threads at multiples of `unit`."""
    cdef Py_ssize_t chunk = ((g.size + threads - 1) // threads + unit - 1) // unit * unit
    cdef int t
    if threads == 1:
        run(g, work, 0, g.size)
        return
    for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
        run(g, work, min(t * chunk, g.size), min((t + 1) * chunk, g.size))


cdef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef inline void _move_words(char* to, Py_ssize_t to_step, const char* x, Py_ssize_t x_step, Py_ssize_t n,
                             word kind) noexcept nogil:
    cdef Py_ssize_t i
    cdef word v
    if x_step == 0 and n:
        v = (<word*>x)[0]
        if to_step == sizeof(word):
            for i in range(n):
                (<word*>to)[i] = v
        else:
            for i in range(n):
                (<word*>(to + i * to_step))[0] = v
    elif to_step == sizeof(word) and x_step == 2 * <Py_ssize_t>sizeof(word):        # steps that the compiler knows become shuffles
        for i in range(n):
            (<word*>to)[i] = (<word*>x)[2 * i]
    elif to_step == sizeof(word) and x_step == -<Py_ssize_t>sizeof(word):
        for i in range(n):
            (<word*>to)[i] = (<word*>x)[-i]
    elif to_step == sizeof(word):
        for i in range(n):
            (<word*>to)[i] = (<word*>(x + i * x_step))[0]
    elif x_step == sizeof(word):
        for i in range(n):
            (<word*>(to + i * to_step))[0] = (<word*>x)[i]
    else:
        for i in range(n):
            (<word*>(to + i * to_step))[0] = (<word*>(x + i * x_step))[0]


cdef inline void move_elements(char* to, Py_ssize_t to_step, const char* x, Py_ssize_t x_step, Py_ssize_t n,
                               Py_ssize_t itemsize) noexcept nogil:
    """Copy n elements of 1, 2, 4 or 8 bytes from one strided row, or one repeated element, to another that does not overlap it."""
    if to_step == itemsize and x_step == itemsize:
        copy_bytes(to, x, n * itemsize)
    elif itemsize == 4:
        _move_words(to, to_step, x, x_step, n, <uint32_t>0)
    elif itemsize == 8:
        _move_words(to, to_step, x, x_step, n, <uint64_t>0)
    elif itemsize == 1:
        _move_words(to, to_step, x, x_step, n, <uint8_t>0)
    else:
        _move_words(to, to_step, x, x_step, n, <uint16_t>0)


cdef inline int stored_as(int code) noexcept nogil:
    """How elements of a dtype's code lie in memory."""
    return HALF if code == FLOAT16 else BRAIN if code == BFLOAT16 else WHOLE


cdef inline char* staged(char* x, Py_ssize_t step, Py_ssize_t n, Py_ssize_t itemsize, int half, char* buffer) noexcept nogil:
    """Address of n contiguous elements of a loop's type: x itself where it is that, else the buffer of 8 * n bytes, filled. What is
    stored in 16 bits (`half`: HALF or BRAIN) is widened to float32."""
    if step == itemsize or n == 1:
        if not half:
            return x
    elif half:
        move_elements(buffer + 4 * n, 2, x, step, n, 2)         # behind what it becomes
        x = buffer + 4 * n
    else:
        move_elements(buffer, itemsize, x, step, n, itemsize)
        return buffer
    if half == BRAIN:
        brain_to_float(<float*>buffer, <uint16_t*>x, n)
    else:
        half_to_float(<float*>buffer, <uint16_t*>x, n)
    return buffer


cdef inline void narrow_line(uint16_t* out, const float* x, Py_ssize_t n, int half) noexcept nogil:
    """out = x as it is stored in 16 bits (`half`: HALF or BRAIN)."""
    if half == BRAIN:
        float_to_brain(out, x, n)
    else:
        float_to_half(out, x, n)


cdef inline bint overlaps(TensorBase a, TensorBase b):
    """Whether two host tensors may share memory."""
    cdef char* a_low
    cdef char* a_high
    cdef char* b_low
    cdef char* b_high
    byte_range(a, &a_low, &a_high)
    byte_range(b, &b_low, &b_high)
    return a_low < b_high and b_low < a_high


cdef inline bint same_tuple(tuple a, tuple b):
    """a == b for tuples of ints, quick where they hold the same objects."""
    cdef Py_ssize_t i, n = len(a)
    if a is b:
        return True
    if n != len(b):
        return False
    for i in range(n):
        if a[i] is not b[i] and a[i] != b[i]:
            return False
    return True

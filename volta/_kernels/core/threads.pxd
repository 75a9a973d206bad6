# How many threads a loop may use. Kernels: `for t in prange(T, num_threads=T)` with T = threads_for(work).

cdef enum:
    # Elements of a cheap loop (add, copy) below which one thread is faster: waking a sleeping worker takes 10 us and more,
    # in which one thread adds 100,000 float32 numbers.
    PARALLEL_SIZE = 262144
    # Above this many elements a loop releases the GIL.
    NOGIL_SIZE = 16384

# Threads for `work` cheap element operations: 1 below PARALLEL_SIZE, then as many as set_num_threads allows.
cdef int threads_for(Py_ssize_t work) noexcept nogil
